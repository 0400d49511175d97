#pragma once

#include "pool.h"

namespace pullback {

// All of `rows` rows of `n` elements each.

// y = exp(x) / sum(exp(x))
template <class T> void softmax_rows(Pool& pool, const T* x, T* y, int64_t rows, int64_t n);
// dx = y * (g - sum(g * y))
template <class T>
void softmax_gradient(Pool& pool, const T* g, const T* y, T* dx, int64_t rows, int64_t n);
// y = x - log(sum(exp(x)))
template <class T> void log_softmax_rows(Pool& pool, const T* x, T* y, int64_t rows, int64_t n);
// dx = g - exp(y) * sum(g)
template <class T>
void log_softmax_gradient(Pool& pool, const T* g, const T* y, T* dx, int64_t rows, int64_t n);
// y = log(sum(exp(x))), one element for each row
template <class T> void logsumexp_rows(Pool& pool, const T* x, T* y, int64_t rows, int64_t n);

}  // namespace pullback
