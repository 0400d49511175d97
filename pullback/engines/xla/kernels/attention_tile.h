// What both passes of attention are made of.
//
// Queries are in the lanes of vectors: a tile is a few vectors of neighbouring queries, and scores
// are stored as [key][query]. Maxima and sums along keys then need no work across lanes, and keys
// and values are read as they are.
#pragma once

#include <algorithm>
#include <vector>

#include "attention.h"
#include "transpose.h"
#include "vec_math.h"

namespace pullback {
namespace attention {

constexpr int kRows = kVectorBytes == 64 ? 8 : 4;  // of products that are kept in registers
constexpr int64_t kKeys = 64;  // of a block
template <class T> constexpr int64_t kTile = 2 * kLanes<T>;  // queries

template <class T> constexpr T kInfinity = std::numeric_limits<T>::infinity();

constexpr int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// The width of a row in scratch memory, so that products need no special cases at its end.
template <class T> inline int64_t padded(int64_t n) {
  return round_up(n, std::max<int64_t>(kLanes<T>, kRows));
}

// Memory of the thread, which keeps it for the next call.
template <class T> class Scratch {
 public:
  explicit Scratch(int64_t elements) {
    size_t bytes = elements * sizeof(T) + 64;
    if (memory().size() < bytes) memory().resize(bytes);
    auto start = (reinterpret_cast<uintptr_t>(memory().data()) + 63) / 64 * 64;
    next_ = reinterpret_cast<T*>(start);
  }
  T* take(int64_t elements) {
    T* p = next_;
    next_ += elements;
    return p;
  }

 private:
  static std::vector<char>& memory() {
    static thread_local std::vector<char> kept;
    return kept;
  }
  T* next_;
};

// c[i, j] (+)= sum over l of a[i * row + l * step] * b[l * ldb + j], for kRows rows and some vectors.
template <class T, int vectors>
inline void product_block(const T* a, int64_t row, int64_t step, const T* b, int64_t ldb,
                          int64_t depth, T* c, int64_t ldc, bool add) {
  constexpr int L = kLanes<T>;
  Vec<T> sums[kRows][vectors];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; i++)
#pragma GCC unroll 4
    for (int j = 0; j < vectors; j++) sums[i][j] = add ? load(c + i * ldc + j * L) : Vec<T>{};
  for (int64_t l = 0; l < depth; l++) {
    Vec<T> x[vectors];
#pragma GCC unroll 4
    for (int j = 0; j < vectors; j++) x[j] = load(b + l * ldb + j * L);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; i++) {
      T y = a[i * row + l * step];
#pragma GCC unroll 4
      for (int j = 0; j < vectors; j++) sums[i][j] += x[j] * y;
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; i++)
#pragma GCC unroll 4
    for (int j = 0; j < vectors; j++) store(c + i * ldc + j * L, sums[i][j]);
}

// The same for `rows`, a multiple of kRows, and `columns`, a multiple of kLanes.
template <class T>
inline void product(const T* a, int64_t row, int64_t step, const T* b, int64_t ldb, int64_t depth,
                    T* c, int64_t ldc, int64_t rows, int64_t columns, bool add) {
  constexpr int L = kLanes<T>;
  for (int64_t j = 0; j < columns;) {
    bool two = j + 2 * L <= columns;
    for (int64_t i = 0; i < rows; i += kRows) {
      const T* x = a + i * row;
      T* y = c + i * ldc + j;
      if (two)
        product_block<T, 2>(x, row, step, b + j, ldb, depth, y, ldc, add);
      else
        product_block<T, 1>(x, row, step, b + j, ldb, depth, y, ldc, add);
    }
    j += two ? 2 * L : L;
  }
}

// exp(x) for what is at most about 0: results below the least normal number are 0.
template <class T> inline Vec<T> exp_of_negative(Vec<T> x) {
  using C = ExpConstants<T>;
  constexpr T lowest = sizeof(T) == 4 ? T(-87.3) : T(-708.3);
  constexpr T highest = sizeof(T) == 4 ? T(88) : T(709);
  Vec<T> y = x < lowest ? broadcast(lowest) : x;  // comparisons with NaN are false
  y = y > highest ? broadcast(highest) : y;
  Vec<T> shifted = y * C::log2e + C::round;
  Vec<T> n = shifted - C::round;
  Vec<T> r = y - n * C::ln2_high;
  r = r - n * C::ln2_low;
  Vec<T> p = broadcast(C::terms[0]);
#pragma GCC unroll 16
  for (unsigned i = 1; i < sizeof C::terms / sizeof(T); i++) p = p * r + C::terms[i];
  p = p * r * r + r + T(1);
  VecBits<T> k = bit_cast<VecBits<T>>(shifted) - bit_cast<VecBits<T>>(broadcast(C::round));
  p = p * power_of_two<T>(k);
  return x < lowest ? Vec<T>{} : p;
}

// Copy rows of `n` elements to rows of `ld`, filled with 0, changed by f.
template <class T, class F>
inline void pack_row(const T* from, int64_t element, int64_t n, T* to, int64_t ld, F&& f) {
  constexpr int L = kLanes<T>;
  int64_t i = 0;
  if (element == 1) {
    for (; i + L <= n; i += L) store(to + i, f(load(from + i)));
    for (; i < n; i++) to[i] = f(from[i]);
  } else {
    for (; i < n; i++) to[i] = f(from[i * element]);
  }
  for (; i < ld; i++) to[i] = 0;
}

template <class T> inline void unpack_row(const T* from, T* to, int64_t element, int64_t n) {
  if (element == 1)
    std::memcpy(to, from, n * sizeof(T));
  else
    for (int64_t i = 0; i < n; i++) to[i * element] = from[i];
}

// Rows [begin, end) of a head, followed by rows of zeros up to `rows`.
template <class T>
inline void pack_rows(const Strided<const T>& x, int64_t b, int64_t h, int64_t begin, int64_t end,
                      int64_t n, T* to, int64_t ld, int64_t rows) {
  for (int64_t i = begin; i < end; i++, to += ld)
    pack_row(x.at(b, h, i), x.element, n, to, ld, [](auto y) { return y; });
  std::fill(to, to + (rows - (end - begin)) * ld, T(0));
}

// The queries of a tile: rows [begin, end) of all heads that share the keys of `head`.
struct Queries {
  int64_t batch, head, group, length;  // `group` heads of `length` queries
  int64_t begin, end;

  int64_t count() const { return end - begin; }
  int64_t head_of(int64_t row) const { return head * group + row / length; }
  int64_t position(int64_t row) const { return row % length; }
  bool one_head() const { return begin / length == (end - 1) / length; }
  int64_t first() const { return one_head() ? begin % length : 0; }
  int64_t last() const { return one_head() ? (end - 1) % length : length - 1; }
};

// The rows of a tile, changed by f, as rows of `ld` and transposed as [element][query].
template <class T, class F>
inline void pack_tile(const Strided<const T>& x, const Queries& q, int64_t n, F&& f, T* rows,
                      int64_t ld, T* columns) {
  for (int64_t r = 0; r < q.count(); r++) {
    int64_t row = q.begin + r;
    pack_row(x.at(q.batch, q.head_of(row), q.position(row)), x.element, n, rows + r * ld, ld, f);
  }
  std::fill(rows + q.count() * ld, rows + kTile<T> * ld, T(0));
  transpose_blocks(rows, ld, kTile<T>, ld, columns, kTile<T>);
}

template <class T>
inline void unpack_tile(const T* rows, int64_t ld, const Strided<T>& x, const Queries& q,
                        int64_t n) {
  for (int64_t r = 0; r < q.count(); r++) {
    int64_t row = q.begin + r;
    unpack_row(rows + r * ld, x.at(q.batch, q.head_of(row), q.position(row)), x.element, n);
  }
}

// Whether all of these numbers are finite; they fill whole vectors.
template <class T> inline bool finite(const T* x, int64_t n) {
  Vec<T> zero = {};
  for (int64_t i = 0; i < n; i += kLanes<T>) zero += load(x + i) * T(0);
  return sum_lanes<T>(zero) == 0;
}

}  // namespace attention
}  // namespace pullback
