// Tiles of matrix products: as many sums as registers hold.
#pragma once

#include <array>
#include <utility>

#include "product.h"
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
constexpr int kNarrowRows = 8;  // of tiles that read a where it is: each row takes a register
template <class T> constexpr int kTileColumns = kTileVectors * kLanes<T>;

// Where the sums of a tile go, and what is added to them: c itself, and addends.
template <class T> struct TileResult {
  T* c;
  int64_t c_row, columns;
  bool add;
  Addend<T> addends[kAddends];

  void add_addends(const Addend<T> (&all)[kAddends], int64_t row, int64_t column) {
    for (int i = 0; i < kAddends; i++) addends[i] = all[i].at(row * all[i].row + column);
  }
};

template <class T, int rows, int vectors>
inline void add_rows(Vec<T> (&sums)[rows][vectors], const T* from, int64_t row) {
#pragma GCC unroll 16
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
    for (int j = 0; j < vectors; j++) sums[i][j] = load(from + i * row + j * kLanes<T>) + sums[i][j];
}

// Where the rows of a tile are: element l of row i is at data + i * row + l * step.
template <class T> struct TileRows {
  const T* data;
  int64_t row, step;
};

// The product of rows of a, of which packed ones are [depth][rows], and a panel of b,
// [depth][vectors], whose rows are `b_step` apart.
template <class T, int rows, int vectors, bool packed>
void product_tile(const TileRows<T>& from, const T* b, int64_t b_step, int64_t depth,
                  const TileResult<T>& out) {
  constexpr int L = kLanes<T>;
  const T* a = from.data;
  const int64_t a_row = packed ? 1 : from.row, a_step = packed ? rows : from.step;
  Vec<T> sums[rows][vectors] = {};
  T* c = out.c;
#pragma GCC unroll 16
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
    for (int j = 0; j < vectors; j++) __builtin_prefetch(c + i * out.c_row + j * L, 1);
#pragma GCC unroll 4
  for (int64_t l = 0; l < depth; l++, a += a_step, b += b_step) {
    Vec<T> x[vectors];
#pragma GCC unroll 4
    for (int j = 0; j < vectors; j++) x[j] = load(b + j * L);
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
      for (int j = 0; j < vectors; j++) sums[i][j] += x[j] * a[i * a_row];
  }
  if (out.columns == vectors * L) {
    if (out.add) add_rows(sums, c, out.c_row);
    for (const Addend<T>& x : out.addends)
      if (x.data) add_rows(sums, x.data, x.row);
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
      for (int j = 0; j < vectors; j++) store(c + i * out.c_row + j * L, sums[i][j]);
    return;
  }
  T row[vectors * L];
#pragma GCC unroll 16
  for (int i = 0; i < rows; i++, c += out.c_row) {
#pragma GCC unroll 4
    for (int j = 0; j < vectors; j++) store(row + j * L, sums[i][j]);
    for (int64_t j = 0; j < out.columns; j++) {
      T sum = out.add ? c[j] + row[j] : row[j];
      for (const Addend<T>& x : out.addends)
        if (x.data) sum += x.data[i * x.row + j];
      c[j] = sum;
    }
  }
}

template <class T>
using ProductTile = void (*)(const TileRows<T>&, const T*, int64_t, int64_t, const TileResult<T>&);

template <class T, int vectors, bool packed, int... i>
constexpr std::array<ProductTile<T>, sizeof...(i)> product_tiles(std::integer_sequence<int, i...>) {
  return {product_tile<T, i + 1, vectors, packed>...};
}

// The tile for so many rows and vectors, both at least 1.
template <class T, bool packed = true>
ProductTile<T> product_tile_of(int64_t rows, int64_t vectors) {
  static_assert(kTileVectors == 2);
  using Rows = std::make_integer_sequence<int, packed ? kTileRows : kNarrowRows>;
  static constexpr auto one = product_tiles<T, 1, packed>(Rows());
  static constexpr auto two = product_tiles<T, 2, packed>(Rows());
  return (vectors == 1 ? one : two)[rows - 1];
}

}  // namespace pullback
