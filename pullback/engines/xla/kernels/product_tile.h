// Tiles of matrix products: as many sums as registers hold, from packed operands.
#pragma once

#include <array>
#include <utility>

#include "vec.h"

namespace pullback {

#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int kTileRows = 14;  // with two vectors each, 28 of 32 registers
#elif defined(__AVX2__)
constexpr int kTileRows = 6;
#else
constexpr int kTileRows = 4;
#endif
constexpr int kTileVectors = 2;
template <class T> constexpr int kTileColumns = kTileVectors * kLanes<T>;

// The product of a panel of a, [depth][rows], and one of b, [depth][vectors]; it is added to c, or
// replaces it.
template <class T, int rows, int vectors>
void product_tile(const T* a, const T* b, int64_t depth, T* c, int64_t c_row, int64_t columns,
                  bool add) {
  constexpr int L = kLanes<T>;
  Vec<T> sums[rows][vectors] = {};
#pragma GCC unroll 16
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
    for (int j = 0; j < vectors; j++) __builtin_prefetch(c + i * c_row + j * L, 1);
#pragma GCC unroll 4
  for (int64_t l = 0; l < depth; l++, a += rows, b += vectors * L) {
    Vec<T> x[vectors];
#pragma GCC unroll 4
    for (int j = 0; j < vectors; j++) x[j] = load(b + j * L);
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
      for (int j = 0; j < vectors; j++) sums[i][j] += x[j] * a[i];
  }
  if (columns == vectors * L) {
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++, c += c_row)
#pragma GCC unroll 4
      for (int j = 0; j < vectors; j++)
        store(c + j * L, add ? load(c + j * L) + sums[i][j] : sums[i][j]);
    return;
  }
  T row[vectors * L];
#pragma GCC unroll 16
  for (int i = 0; i < rows; i++, c += c_row) {
#pragma GCC unroll 4
    for (int j = 0; j < vectors; j++) store(row + j * L, sums[i][j]);
    for (int64_t j = 0; j < columns; j++) c[j] = add ? c[j] + row[j] : row[j];
  }
}

template <class T>
using ProductTile = void (*)(const T*, const T*, int64_t, T*, int64_t, int64_t, bool);

template <class T, int vectors, int... i>
constexpr std::array<ProductTile<T>, sizeof...(i)> product_tiles(std::integer_sequence<int, i...>) {
  return {product_tile<T, i + 1, vectors>...};
}

// The tile for so many rows and vectors, both at least 1.
template <class T> ProductTile<T> product_tile_of(int64_t rows, int64_t vectors) {
  static_assert(kTileVectors == 2);
  using Rows = std::make_integer_sequence<int, kTileRows>;
  static constexpr auto one = product_tiles<T, 1>(Rows()), two = product_tiles<T, 2>(Rows());
  return (vectors == 1 ? one : two)[rows - 1];
}

}  // namespace pullback
