// Loops over slices that are next to each other in memory.
#pragma once

#include <algorithm>

#include "pool.h"
#include "sort_keys.h"
#include "sorting.h"

namespace pullback {

// Call f(i, j, width) for groups of `width` slices (i, j), (i, j + 1) ...: a cache line of each row
// is used by all of them.
template <class T, class F> void each_group(Pool& pool, Slices slices, F&& f) {
  constexpr int64_t kElements = 1 << 17, kBlocks = 32, kLeast = 1 << 13;
  int64_t line = 64 / sizeof(T);
  int64_t width = std::clamp<int64_t>(kElements / slices.n, 1, std::min(line, slices.inner));
  int64_t groups = (slices.inner + width - 1) / width;
  int64_t least = kLeast / (slices.n * width) + 1;
  pool.ranges(slices.outer * groups, kBlocks, least, [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; g++) {
      int64_t j = g % groups * width;
      f(g / groups, j, std::min(width, slices.inner - j));
    }
  });
}

// Read the keys of a group, slice by slice; `flip` is 0, or has all bits for the descending order.
template <class T>
void read_keys(const T* x, Slices slices, int64_t i, int64_t j, int64_t width, Key<T>* keys,
               bool equal_zeros, Key<T> flip) {
  const T* from = x + i * slices.n * slices.inner + j;
  for (int64_t k = 0; k < slices.n; k++)
    for (int64_t w = 0; w < width; w++)
      keys[w * slices.n + k] = key_of(from[k * slices.inner + w], equal_zeros) ^ flip;
}

// Write f(w, k) for slice w of a group and each of its `count` results.
template <class T, class F>
void write_group(T* y, int64_t count, int64_t inner, int64_t i, int64_t j, int64_t width, F&& f) {
  T* to = y + i * count * inner + j;
  for (int64_t k = 0; k < count; k++)
    for (int64_t w = 0; w < width; w++) to[k * inner + w] = f(w, k);
}

}  // namespace pullback
