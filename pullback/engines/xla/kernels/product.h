// Products of matrices that are anywhere in memory, one for each element of a batch.
#pragma once

#include <cstdint>

#include "pool.h"

namespace pullback {

constexpr int kAddends = 2;

// A dimension of the batch: its size, and the distances along it in a, b, c and the addends.
struct ProductLoop {
  int64_t size, a, b, c, addends[kAddends];
};

// What is added to products: element [i, j] is at data + i * row + j; data may be null.
template <class T> struct Addend {
  const T* data = nullptr;
  int64_t row = 0;

  Addend at(int64_t offset) const { return {data ? data + offset : nullptr, row}; }
};

// c[i, j] = sum over l of a[i, l] * b[l, j], plus the addends; c[i, j] is at c + i * c_row + j.
template <class T> struct Product {
  int64_t rows, columns, depth;
  const T* a;
  int64_t a_row, a_step;  // distances along i and l
  const T* b;
  int64_t b_step, b_column;  // distances along l and j
  T* c;
  int64_t c_row;
  Addend<T> addends[kAddends];
  bool packed = false;  // whether b is what `pack` has made of it

  // The same from column j on; the number of columns is the caller's to change.
  Product from_column(int64_t j) const {
    Product p = *this;
    p.b += j * b_column, p.c += j;
    for (Addend<T>& x : p.addends) x = x.at(j);
    return p;
  }
};

// A product for each index of the batch. All sums are in the same order, whatever the shapes and the
// number of threads.
template <class T>
void multiply(Pool& pool, const Product<T>& first, const ProductLoop* batch, int64_t rank);

// Copy b to the order in which it is read, for several products: `to` has room for all columns up to
// a multiple of whole vectors.
template <class T> void pack(Pool& pool, const Product<T>& p, T* to);

}  // namespace pullback
