// Loops over the vectors of a row, whatever its length, and rows shared among threads.
#pragma once

#include "pool.h"
#include "vec.h"

namespace pullback {

// Three kinds of position in a row, with the same members: a whole vector; the last vector of a
// row, of which the first lanes were done before; and a row that is shorter than a vector.
// `load` puts `fill` into the lanes that do not count, and `store` does not write them.
template <class T> struct WholeVector {
  int64_t at;
  Vec<T> load(const T* row, T = T(0)) const { return pullback::load(row + at); }
  void store(T* row, Vec<T> v) const { pullback::store(row + at, v); }
  Vec<T> keep(Vec<T> v, T = T(0)) const { return v; }
};

template <class T> struct LastVector {
  int64_t at;
  VecBits<T> counts;
  Vec<T> load(const T* row, T fill = T(0)) const { return keep(pullback::load(row + at), fill); }
  void store(T* row, Vec<T> v) const {
    pullback::store(row + at, counts ? v : pullback::load(row + at));
  }
  Vec<T> keep(Vec<T> v, T fill = T(0)) const { return counts ? v : broadcast(fill); }
};

template <class T> struct ShortRow {
  int64_t at, n;
  VecBits<T> counts;
  Vec<T> load(const T* row, T fill = T(0)) const {
    T x[kLanes<T>];
    for (int i = 0; i < kLanes<T>; i++) x[i] = i < n ? row[at + i] : fill;
    return pullback::load(x);
  }
  void store(T* row, Vec<T> v) const {
    T x[kLanes<T>];
    pullback::store(x, v);
    for (int64_t i = 0; i < n; i++) row[at + i] = x[i];
  }
  Vec<T> keep(Vec<T> v, T fill = T(0)) const { return counts ? v : broadcast(fill); }
};

template <class T> inline VecBits<T> lane_numbers() {
  VecBits<T> v = {};
  for (int i = 0; i < kLanes<T>; i++) v[i] = i;
  return v;
}

// Call f with the positions that make up a row of n elements.
template <class T, class F> inline void over_row(int64_t n, F&& f) {
  constexpr int L = kLanes<T>;
  if (n < L) return f(ShortRow<T>{0, n, lane_numbers<T>() < int(n)});
  int64_t i = 0;
  for (; i + L <= n; i += L) f(WholeVector<T>{i});
  if (i < n) f(LastVector<T>{n - L, lane_numbers<T>() >= int(i - (n - L))});
}

// Call f with the positions that make up the elements [begin, end), each of them once: results may
// take the place of operands. The last vector is handled as a short row.
template <class T, class F> inline void over_elements(int64_t begin, int64_t end, F&& f) {
  constexpr int L = kLanes<T>;
  int64_t i = begin;
  for (; i + L <= end; i += L) f(WholeVector<T>{i});
  if (i < end) f(ShortRow<T>{i, end - i, lane_numbers<T>() < int(end - i)});
}

constexpr int64_t kRowBlocks = 16;      // a fixed number, so that sums have fixed bits
constexpr int64_t kElementsAThread = 4096;  // fewer are not worth another thread

// Call f(begin, end) for ranges that make up all rows.
template <class F> inline void over_rows(Pool& pool, int64_t rows, int64_t n, F&& f) {
  pool.ranges(rows, kRowBlocks, kElementsAThread / (n + 1) + 1, f);
}

// y[i] = f(xs[i]...) for i < n, by vectors; y is apart from the operands.
template <class T, class F, class... Xs>
inline void map_elements(Pool& pool, int64_t n, T* y, F f, const Xs*... xs) {
  pool.ranges(n, kRowBlocks, kElementsAThread, [=](int64_t begin, int64_t end) {
    over_row<T>(end - begin, [&](auto at) { at.store(y + begin, f(at.load(xs + begin)...)); });
  });
}

// The largest element. NaN is not seen: what is computed from the elements has it.
template <class T> inline T row_max(const T* x, int64_t n) {
  constexpr T lowest = -std::numeric_limits<T>::infinity();
  Vec<T> m = broadcast(lowest);
  over_row<T>(n, [&](auto at) { m = greater(at.load(x, lowest), m); });
  return max_lanes<T>(m);
}

}  // namespace pullback
