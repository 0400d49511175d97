// Operands of matrix products, copied to the order in which tiles read them.
#pragma once

#include <algorithm>

#include "transpose.h"
#include "vec.h"

namespace pullback {

// A panel to[l * wide + i] = from[i * along + l * step] for i < n and l < depth; zeros for n <= i <
// wide. If `wide` is not a multiple of kLanes, up to kLanes - 1 elements behind the panel are
// written as well.

namespace packing {

// Elements of a step are side by side, so they are copied.
template <class T>
inline void copy(const T* from, int64_t step, int64_t n, int64_t depth, T* to, int64_t wide) {
  constexpr int L = kLanes<T>;
  const int64_t whole = n / L * L;
  // Vectors may reach beyond the last element, except in the last step.
  const int64_t safe = whole == n ? depth : step + n >= whole + L ? depth - 1 : 0;
  for (int64_t l = 0; l < safe; l++, from += step, to += wide) {
    for (int64_t i = 0; i < whole; i += L) store(to + i, load(from + i));
    if (whole < n) {
      store(to + whole, load(from + whole));
      if (n < wide) std::fill(to + n, to + wide, T(0));
    }
  }
  for (int64_t l = safe; l < depth; l++, from += step, to += wide) {
    std::copy(from, from + n, to);
    std::fill(to + n, to + wide, T(0));
  }
}

// Steps are side by side, so blocks are transposed in registers.
template <class T>
inline void turn(const T* from, int64_t along, int64_t n, int64_t depth, T* to, int64_t wide) {
  constexpr int L = kLanes<T>;
  const int64_t whole = depth / L * L;
  for (int64_t l = 0; l < whole; l += L)
    // From the last block on: a vector that is only partly used is overwritten by the next step.
    for (int64_t i = (wide - 1) / L * L; i >= 0; i -= L) {
      Vec<T> block[L];
      for (int j = 0; j < L; j++)
        block[j] = i + j < n ? load(from + (i + j) * along + l) : Vec<T>{};
      transpose<T>(block);
      for (int j = 0; j < L; j++) store(to + (l + j) * wide + i, block[j]);
    }
  for (int64_t l = whole; l < depth; l++) {
    for (int64_t i = 0; i < n; i++) to[l * wide + i] = from[i * along + l];
    std::fill(to + l * wide + n, to + (l + 1) * wide, T(0));
  }
}

template <class T>
inline void gather(const T* from, int64_t along, int64_t step, int64_t n, int64_t depth, T* to,
                   int64_t wide) {
  for (int64_t l = 0; l < depth; l++, from += step, to += wide) {
    for (int64_t i = 0; i < n; i++) to[i] = from[i * along];
    std::fill(to + n, to + wide, T(0));
  }
}

}  // namespace packing

template <class T>
inline void pack_panel(const T* from, int64_t along, int64_t step, int64_t n, int64_t depth, T* to,
                       int64_t wide) {
  if (along == 1)
    packing::copy(from, step, n, depth, to, wide);
  else if (step == 1)
    packing::turn(from, along, n, depth, to, wide);
  else
    packing::gather(from, along, step, n, depth, to, wide);
}

}  // namespace pullback
