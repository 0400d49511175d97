#include "softmax.h"

#include "vec_math.h"

namespace pullback {
namespace {

constexpr int64_t kBlocks = 16, kLeast = 4096;  // elements that are worth another thread

// The largest element, and NaN if one is NaN only by chance: the sum of exponentials has it.
template <class T> T row_max(const T* x, int64_t n) {
  constexpr int L = kLanes<T>;
  Vec<T> m = broadcast(-std::numeric_limits<T>::infinity());
  int64_t i = 0;
  for (; i + L <= n; i += L) m = greater(load(x + i), m);
  T top = max_lanes<T>(m);
  for (; i < n; i++) top = greater(x[i], top);
  return top;
}

template <class T> void softmax_row(const T* x, T* y, int64_t n) {
  constexpr int L = kLanes<T>;
  T top = row_max(x, n);
  if (!std::isfinite(top)) top = 0;
  Vec<T> sums = {};
  int64_t i = 0;
  for (; i + L <= n; i += L) {
    Vec<T> e = exp<T>(load(x + i) - top);
    sums += e;
    store(y + i, e);
  }
  if (i < n) {
    Vec<T> e = exp<T>(load_part(x + i, n - i, -std::numeric_limits<T>::infinity()) - top);
    sums += e;
    store_part(y + i, e, n - i);
  }
  T scale = T(1) / sum_lanes<T>(sums);
  for (i = 0; i + L <= n; i += L) store(y + i, load(y + i) * scale);
  for (; i < n; i++) y[i] *= scale;
}

}  // namespace

template <class T> void softmax_rows(Pool& pool, const T* x, T* y, int64_t rows, int64_t n) {
  pool.ranges(rows, kBlocks, kLeast / (n + 1) + 1, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) softmax_row(x + i * n, y + i * n, n);
  });
}

template void softmax_rows(Pool&, const float*, float*, int64_t, int64_t);
template void softmax_rows(Pool&, const double*, double*, int64_t, int64_t);

}  // namespace pullback
