// Sums of exponentials of a row, shifted so that they do not overflow.
#pragma once

#include "rows.h"
#include "vec_math.h"

namespace pullback {

// What is subtracted from a row before exponentials: the largest element. If that is infinite, it is
// 0 instead, unless the row is `bare`: then the differences are infinite or NaN.
template <class T> inline T row_shift(const T* x, int64_t n, bool bare) {
  T top = row_max(x, n);
  return bare || std::isfinite(top) ? top : T(0);
}

template <class T, class Exp> inline T sum_of_exp(const T* x, int64_t n, T top, T* y, Exp&& exp) {
  Vec<T> sums = {};
  over_row<T>(n, [&](auto at) {
    Vec<T> e = exp(at.load(x, -std::numeric_limits<T>::infinity()) - top);
    sums += e;
    if (y) at.store(y, e);
  });
  return sum_lanes<T>(sums);
}

// The sum of exp(x - top), where `top` is the row's shift; the terms go to y, if it is given.
template <class T> inline T exp_sum(const T* x, int64_t n, T top, T* y = nullptr) {
  // 0 may stand for an infinity, which the short exponential does not know.
  if (top == T(0)) return sum_of_exp(x, n, top, y, [](Vec<T> v) { return exp<T>(v); });
  return sum_of_exp(x, n, top, y, [](Vec<T> v) { return exp_of_nonpositive<T>(v); });
}

// The shift of a row whose sum has this logarithm, as it is if the maximum sees NaN.
template <class T> inline T known_shift(T shift, T logarithm, bool bare) {
  if (!std::isnan(logarithm) || std::isinf(shift)) return shift;
  return bare ? logarithm : T(0);
}

}  // namespace pullback
