#pragma once

#include "pool.h"

namespace pullback {

// The numbers of y = half x (one + tanh(c (x + a x^3))), as a user wrote them.
struct TanhGelu {
  float half, one, c, a;
};

void tanh_gelu(Pool& pool, TanhGelu numbers, const float* x, float* y, int64_t n);
// dx = g times the derivative.
void tanh_gelu_gradient(Pool& pool, TanhGelu numbers, const float* g, const float* x, float* dx,
                        int64_t n);

}  // namespace pullback
