// Transposing small blocks in registers.
#pragma once

#include <utility>

#include "vec.h"

namespace pullback {

// a0 b0 a1 b1 ...: of the lower halves with begin = 0, of the upper ones with begin = kLanes / 2.
template <class T, int begin, size_t... i>
inline Vec<T> interleave(Vec<T> a, Vec<T> b, std::index_sequence<i...>) {
  return __builtin_shufflevector(a, b, (begin + int(i) / 2 + (i % 2 ? kLanes<T> : 0))...);
}

// The transpose of a square block: interleaving the halves of its rows, log2(kLanes) times.
template <class T> inline void transpose(Vec<T> (&rows)[kLanes<T>]) {
  constexpr int L = kLanes<T>;
  using Lanes = std::make_index_sequence<L>;
  Vec<T> next[L];
  for (int n = 1; n < L; n *= 2) {
#pragma GCC unroll 16
    for (int i = 0; i < L / 2; i++) {
      next[2 * i] = interleave<T, 0>(rows[i], rows[i + L / 2], Lanes());
      next[2 * i + 1] = interleave<T, L / 2>(rows[i], rows[i + L / 2], Lanes());
    }
#pragma GCC unroll 16
    for (int i = 0; i < L; i++) rows[i] = next[i];
  }
}

// to[c * ld_to + r] = from[r * ld_from + c] for whole blocks of kLanes rows and columns.
template <class T>
inline void transpose_blocks(const T* from, int64_t ld_from, int64_t rows, int64_t columns, T* to,
                             int64_t ld_to) {
  constexpr int L = kLanes<T>;
  for (int64_t r = 0; r < rows; r += L)
    for (int64_t c = 0; c < columns; c += L) {
      Vec<T> block[L];
      for (int i = 0; i < L; i++) block[i] = load(from + (r + i) * ld_from + c);
      transpose<T>(block);
      for (int i = 0; i < L; i++) store(to + (c + i) * ld_to + r, block[i]);
    }
}

}  // namespace pullback
