#pragma once

#include "pool.h"

namespace pullback {

// GELU as users write it, with their numbers, and its gradient: g times the derivative.

// y = half x (one + tanh(c (x + a x^3)))
struct TanhGelu {
  float half, one, c, a;
};

void tanh_gelu(Pool& pool, TanhGelu numbers, const float* x, float* y, int64_t n);
void tanh_gelu_gradient(Pool& pool, TanhGelu numbers, const float* g, const float* x, float* dx,
                        int64_t n);

// y = half x (one + erf(c x))
struct ErfGelu {
  float half, one, c;
};

void erf_gelu(Pool& pool, ErfGelu numbers, const float* x, float* y, int64_t n);
void erf_gelu_gradient(Pool& pool, ErfGelu numbers, const float* g, const float* x, float* dx,
                       int64_t n);

}  // namespace pullback
