#pragma once

#include "pool.h"

namespace pullback {

// Rows of n elements are normalised: y = (x - mean) * rstd * scale + shift, where rstd is one over
// the square root of sum((x - mean)^2) / count + epsilon. Without `center` (RMS norm), the mean is
// taken for 0. `scale` and `shift` have n elements, or are null.
template <class T> struct RowNorm {
  const T* x;
  const T* scale;
  const T* shift;
  T epsilon, count;
  bool center;
  int64_t rows, n;
};

template <class T> void norm_rows(Pool& pool, RowNorm<T> norm, T* y, T* mean, T* rstd);

// From the cotangent g of y: those of x, and of scale and shift (null if not wanted).
template <class T>
void norm_gradient(Pool& pool, RowNorm<T> norm, const T* g, const T* mean, const T* rstd, T* dx,
                   T* dscale, T* dshift);

}  // namespace pullback
