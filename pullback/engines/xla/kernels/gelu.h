#pragma once

#include "pool.h"

namespace pullback {

// y = x Phi(x), where Phi is the normal distribution function.
void gelu(Pool& pool, const float* x, float* y, int64_t n);
// dx = g times the derivative.
void gelu_gradient(Pool& pool, const float* g, const float* x, float* dx, int64_t n);

}  // namespace pullback
