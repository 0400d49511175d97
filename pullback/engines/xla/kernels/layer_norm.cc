#include "layer_norm.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "rows.h"
#include "vec_math.h"

namespace pullback {
namespace {

template <class T> struct Statistics {
  T mean, rstd;
};

template <class T> Statistics<T> row_statistics(const RowNorm<T>& norm, const T* x) {
  T mean = 0;
  if (norm.center) {
    Vec<T> sums = {};
    over_row<T>(norm.n, [&](auto at) { sums += at.load(x); });
    mean = sum_lanes<T>(sums) / T(norm.n);
  }
  Vec<T> squares = {};
  over_row<T>(norm.n, [&](auto at) {
    Vec<T> d = at.keep(at.load(x) - mean);
    squares += d * d;
  });
  return {mean, T(1) / std::sqrt(sum_lanes<T>(squares) / norm.count + norm.epsilon)};
}

template <bool kScale, bool kShift, class T>
void affine_row(const RowNorm<T>& norm, const T* x, T* y, T mean, T rstd) {
  over_row<T>(norm.n, [&](auto at) {
    Vec<T> v = (at.load(x) - mean) * rstd;
    if (kScale) v *= at.load(norm.scale);
    if (kShift) v += at.load(norm.shift);
    at.store(y, v);
  });
}

template <class T> void norm_row(const RowNorm<T>& norm, const T* x, T* y, Statistics<T> found) {
  auto f = norm.scale ? (norm.shift ? affine_row<true, true, T> : affine_row<true, false, T>)
                      : (norm.shift ? affine_row<false, true, T> : affine_row<false, false, T>);
  f(norm, x, y, found.mean, found.rstd);
}

// Cotangents of scale and shift are summed over the rows of a block in its own memory.
template <class T>
void norm_gradient_row(const RowNorm<T>& norm, const T* x, const T* g, Statistics<T> statistics,
                       T* dx, T* dscale, T* dshift) {
  auto [mean, rstd] = statistics;
  const T* scale = norm.scale;
  Vec<T> sums = {}, products = {};
  over_row<T>(norm.n, [&](auto at) {
    Vec<T> d = at.keep(at.load(x) - mean), dy = at.load(g);
    Vec<T> dz = scale ? dy * at.load(scale) : dy;
    sums += dz;
    products += dz * d;
    if (dscale) at.store(dscale, at.load(dscale) + product_no_nan<T>(dy, d * rstd));
    if (dshift) at.store(dshift, at.load(dshift) + dy);
  });
  T slope = -sum_lanes<T>(products) * rstd * rstd * rstd / norm.count;
  // The second term is NaN if the slope is infinite, for then so are terms of both signs.
  T offset = norm.center ? -(sum_lanes<T>(sums) * rstd + slope * T(0)) / T(norm.n) : T(0);
  over_row<T>(norm.n, [&](auto at) {
    Vec<T> dy = at.load(g), dz = scale ? dy * at.load(scale) : dy;
    at.store(dx, dz * rstd + ((at.load(x) - mean) * slope + offset));
  });
}

}  // namespace

template <class T> void norm_rows(Pool& pool, RowNorm<T> norm, T* y, T* mean, T* rstd) {
  int64_t n = norm.n;
  over_rows(pool, norm.rows, n, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      Statistics<T> found = row_statistics(norm, norm.x + i * n);
      mean[i] = found.mean;
      rstd[i] = found.rstd;
      norm_row(norm, norm.x + i * n, y + i * n, found);
    }
  });
}

template <class T>
void norm_gradient(Pool& pool, RowNorm<T> norm, const T* g, const T* mean, const T* rstd, T* dx,
                   T* dscale, T* dshift) {
  int64_t n = norm.n, rows = norm.rows;
  int64_t blocks = std::min(kRowBlocks, (rows * n + kElementsAThread - 1) / kElementsAThread);
  blocks = std::min(blocks, rows);
  int64_t wanted = (dscale ? 1 : 0) + (dshift ? 1 : 0);
  std::vector<T> partial(blocks * wanted * n);
  pool.each(blocks, [&](int64_t block) {
    T* own = partial.data() + block * wanted * n;
    T* own_scale = dscale ? own : nullptr;
    T* own_shift = dshift ? own + (wanted - 1) * n : nullptr;
    for (int64_t i = rows * block / blocks; i < rows * (block + 1) / blocks; i++)
      norm_gradient_row(norm, norm.x + i * n, g + i * n,
                        Statistics<T>{norm.center ? mean[i] : T(0), rstd[i]}, dx + i * n,
                        own_scale, own_shift);
  });
  auto add_up = [&](T* total, const T* first) {
    std::copy(first, first + n, total);
    for (int64_t block = 1; block < blocks; block++)
      for (int64_t i = 0; i < n; i++) total[i] += first[block * wanted * n + i];
  };
  if (dscale) add_up(dscale, partial.data());
  if (dshift) add_up(dshift, partial.data() + (wanted - 1) * n);
}

#define PULLBACK_INSTANCES(T)                                                   \
  template void norm_rows(Pool&, RowNorm<T>, T*, T*, T*);                       \
  template void norm_gradient(Pool&, RowNorm<T>, const T*, const T*, const T*, T*, T*, T*);
PULLBACK_INSTANCES(float)
PULLBACK_INSTANCES(double)
#undef PULLBACK_INSTANCES

}  // namespace pullback
