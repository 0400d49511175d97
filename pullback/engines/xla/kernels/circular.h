// Sines and cosines of f64, which XLA computes one by one.
#pragma once

#include "pool.h"

namespace pullback {

// Within 1 ulp; NaN stays, and infinities give NaN. y is apart from x.
void sine(Pool& pool, const double* x, double* y, int64_t n);
void cosine(Pool& pool, const double* x, double* y, int64_t n);

}  // namespace pullback
