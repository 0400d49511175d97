// Sorting and selecting along one dimension. Sorts are stable, and NaN is the largest.
#pragma once

#include "pool.h"

namespace pullback {

// Slices of `n` elements: slice (i, j) has the elements (i * n + k) * inner + j.
struct Slices {
  int64_t outer, n, inner;
};

// The elements in order, and where they were; each unless it is null.
template <class T>
void sort_slices(Pool& pool, const T* x, T* elements, int64_t* indices, Slices slices,
                 bool descending);

// The first `count` of the elements in descending order, and where they were.
template <class T>
void top_of_slices(Pool& pool, const T* x, T* elements, int64_t* indices, Slices slices,
                   int64_t count);

// The elements at `count` positions of the ascending order, or where they were; one of the two
// results is null. Positions ascend.
template <class T>
void order_statistics(Pool& pool, const T* x, T* elements, int64_t* indices, Slices slices,
                      const int64_t* ranks, int64_t count);

}  // namespace pullback
