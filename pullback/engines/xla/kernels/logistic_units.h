#pragma once

#include "pool.h"

namespace pullback {

// Activation functions x L(u(x)), where L is the logistic function, and their gradients: g times the
// derivative.

// u = x
template <class T> void silu(Pool& pool, const T* x, T* y, int64_t n);
template <class T> void silu_gradient(Pool& pool, const T* g, const T* x, T* dx, int64_t n);

// u = sqrt(8 / pi) (x + 0.044715 x^3), so that L(u) is (1 + tanh(u / 2)) / 2
template <class T> void gelu_tanh(Pool& pool, const T* x, T* y, int64_t n);
template <class T> void gelu_tanh_gradient(Pool& pool, const T* g, const T* x, T* dx, int64_t n);

}  // namespace pullback
