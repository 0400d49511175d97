#pragma once

#include "pool.h"

namespace pullback {

// The logarithm of softmax(x) at the label of each row, and two numbers for its gradient: the
// largest element (0 if it is infinite), and the logarithm of the sum of exp(x - largest).
template <class T, class I>
void log_probability(Pool& pool, const T* x, const I* labels, T* chosen, T* largest, T* log_sum,
                     int64_t rows, int64_t n);

// dx = g * ([column == label] - softmax(x)), with one g for each row.
template <class T, class I>
void log_probability_gradient(Pool& pool, const T* x, const I* labels, const T* largest,
                              const T* log_sum, const T* g, T* dx, int64_t rows, int64_t n);

}  // namespace pullback
