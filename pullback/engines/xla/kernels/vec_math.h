// Elementary functions of vectors.
#pragma once

#include <cmath>

#include "vec.h"

namespace pullback {

template <class T> struct ExpConstants;

template <> struct ExpConstants<float> {
  static constexpr float log2e = 1.44269504088896341f, ln2_high = 0.693359375f,
                         ln2_low = -2.12194440054690583e-4f, round = 12582912.0f;  // 1.5 * 2^23
  static constexpr float lowest = -104.0f, highest = 89.0f;
  static constexpr int mantissa = 23, bias = 127;
  // 1/2, 1/6, ... adjusted so that the largest error on [-ln2/2, ln2/2] is least
  static constexpr float terms[] = {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f,
                                    4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f};
};

template <> struct ExpConstants<double> {
  static constexpr double log2e = 1.44269504088896340736, ln2_high = 6.93145751953125e-1,
                          ln2_low = 1.42860682030941723212e-6, round = 6755399441055744.0;
  static constexpr double lowest = -746.0, highest = 710.0;
  static constexpr int mantissa = 52, bias = 1023;
  static constexpr double terms[] = {  // 1/13!, ..., 1/2!: the next is below 2^-53 of the sum
      1.6059043836821613e-10, 2.0876756987868099e-9, 2.5052108385441719e-8,
      2.7557319223985893e-7,  2.7557319223985891e-6, 2.4801587301587302e-5,
      1.9841269841269841e-4,  1.3888888888888889e-3, 8.3333333333333333e-3,
      4.1666666666666667e-2,  1.6666666666666667e-1, 5.0e-1};
};

// 2^n for integral n in the range of exponents of normal numbers
template <class T> inline Vec<T> power_of_two(VecBits<T> n) {
  using C = ExpConstants<T>;
  return bit_cast<Vec<T>>((n + C::bias) << C::mantissa);
}

// exp(x) within 1 ulp; NaN stays, infinities and overflow give 0 or infinity.
template <class T> inline Vec<T> exp(Vec<T> x) {
  using C = ExpConstants<T>;
  x = x < C::lowest ? broadcast(C::lowest) : x;  // comparisons with NaN are false
  x = x > C::highest ? broadcast(C::highest) : x;
  Vec<T> shifted = x * C::log2e + C::round;
  Vec<T> n = shifted - C::round;
  Vec<T> r = x - n * C::ln2_high;
  r = r - n * C::ln2_low;
  Vec<T> p = broadcast(C::terms[0]);
  for (unsigned i = 1; i < sizeof C::terms / sizeof(T); i++) p = p * r + C::terms[i];
  Vec<T> y = p * r * r + r + T(1);
  // In two steps, since the result may be subnormal, or 2^n too large for a normal number
  VecBits<T> k = bit_cast<VecBits<T>>(shifted) - bit_cast<VecBits<T>>(broadcast(C::round));
  VecBits<T> half = k >> 1;
  return y * power_of_two<T>(half) * power_of_two<T>(k - half);
}

}  // namespace pullback
