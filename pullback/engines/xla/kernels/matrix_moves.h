// Copies of matrices, and loops over stacks of them.
#pragma once

#include <cmath>
#include <limits>

#include "pool.h"
#include "transpose.h"

namespace pullback {

// Call f(i) for each matrix of a stack. LAPACK has threads of its own for large ones.
template <class F> void each_matrix(Pool& pool, int64_t batch, int64_t elements, F&& f) {
  constexpr int64_t kSmall = 32 * 32, kBlocks = 32, kLeast = 1 << 12;
  if (elements > kSmall || batch == 1) {
    for (int64_t i = 0; i < batch; i++) f(i);
    return;
  }
  pool.ranges(batch, kBlocks, kLeast / elements + 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) f(i);
  });
}

// to[c * rows + r] = from[r * columns + c], in tiles that caches hold. Tiles that are not `wanted`,
// at a first row and column, are left out.
template <class T, class F>
void transposed_tiles(const T* from, int64_t rows, int64_t columns, T* to, F&& wanted) {
  constexpr int64_t L = kLanes<T>, kTile = 8 * L;
  for (int64_t r = 0; r < rows; r += kTile)
    for (int64_t c = 0; c < columns; c += kTile) {
      if (!wanted(r, c)) continue;
      int64_t height = rows - r < kTile ? rows - r : kTile;
      int64_t width = columns - c < kTile ? columns - c : kTile;
      int64_t whole_h = height / L * L, whole_w = width / L * L;
      const T* tile = from + r * columns + c;
      T* place = to + c * rows + r;
      transpose_blocks(tile, columns, whole_h, whole_w, place, rows);
      for (int64_t i = 0; i < height; i++)
        for (int64_t j = i < whole_h ? whole_w : 0; j < width; j++)
          place[j * rows + i] = tile[i * columns + j];
    }
}

template <class T> void transposed(const T* from, int64_t rows, int64_t columns, T* to) {
  transposed_tiles(from, rows, columns, to, [](int64_t, int64_t) { return true; });
}

// Whether all are neither NaN nor infinite: then all differences from themselves are 0.
template <class T> bool all_finite(const T* x, int64_t n) {
  constexpr int L = kLanes<T>;
  Vec<T> sum{};
  int64_t i = 0;
  for (; i + L <= n; i += L) {
    Vec<T> v = load(x + i);
    sum += v - v;
  }
  T rest = sum_lanes<T>(sum);
  for (; i < n; i++) rest += x[i] - x[i];
  return rest == 0;
}

// The size of a workspace that a routine has answered, as a number that may have been rounded.
template <class T> int workspace(T wanted) {
  return int(std::nextafter(wanted, std::numeric_limits<T>::infinity()));
}

template <class T> void fill_nan(T* x, int64_t n) {
  for (int64_t i = 0; i < n; i++) x[i] = std::numeric_limits<T>::quiet_NaN();
}

}  // namespace pullback
