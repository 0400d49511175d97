#pragma once

#include "pool.h"

namespace pullback {

// All of `rows` rows of `n` elements each. For `bare`, see row_shift in exponential_sum.h.

// y = exp(x) / sum(exp(x))
template <class T>
void softmax_rows(Pool& pool, const T* x, T* y, int64_t rows, int64_t n, bool bare);
// dx = g * y - sum(g * y) * y. Here and below, 0 times NaN is 0: see product_no_nan.
template <class T>
void softmax_gradient(Pool& pool, const T* g, const T* y, T* dx, int64_t rows, int64_t n);
// y = x - log(sum(exp(x)))
template <class T>
void log_softmax_rows(Pool& pool, const T* x, T* y, int64_t rows, int64_t n, bool bare);
// dx = g - exp(y) * sum(g)
template <class T>
void log_softmax_gradient(Pool& pool, const T* g, const T* y, T* dx, int64_t rows, int64_t n);
// y = log(sum(exp(x))), and what it is the sum of: a shift, and the logarithm of the sum of
// exp(x - shift); one element for each row
template <class T>
void logsumexp_rows(Pool& pool, const T* x, T* y, T* shift, T* log_sum, int64_t rows, int64_t n,
                    bool bare);
// dx = g * exp(x) / sum(exp(x)), with one g for each row
template <class T>
void logsumexp_gradient(Pool& pool, const T* x, const T* shift, const T* log_sum, const T* g,
                        T* dx, int64_t rows, int64_t n);

}  // namespace pullback
