// Products of matrices that are anywhere in memory, one for each element of a batch.
#pragma once

#include <cstdint>

#include "pool.h"

namespace pullback {

// A dimension of the batch: its size, and the distances along it in a, b and c.
struct ProductLoop {
  int64_t size, a, b, c;
};

// c[i, j] = sum over l of a[i, l] * b[l, j], where c[i, j] is at c + i * c_row + j.
template <class T> struct Product {
  int64_t rows, columns, depth;
  const T* a;
  int64_t a_row, a_step;  // distances along i and l
  const T* b;
  int64_t b_step, b_column;  // distances along l and j
  T* c;
  int64_t c_row;
};

// A product for each index of the batch. All sums are in the same order, whatever the shapes and the
// number of threads.
template <class T>
void multiply(Pool& pool, const Product<T>& first, const ProductLoop* batch, int64_t rank);

}  // namespace pullback
