#pragma once

#include "pool.h"

namespace pullback {

// y[i, :] = exp(x[i, :]) / sum, of `rows` rows of `n` elements each.
template <class T> void softmax_rows(Pool& pool, const T* x, T* y, int64_t rows, int64_t n);

}  // namespace pullback
