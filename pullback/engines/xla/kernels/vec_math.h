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
  // (exp(r) - 1 - r) / r^2 on [-ln2/2, ln2/2]: exp(r) then has an error of 3.1e-9
  static constexpr float terms[] = {1.3814598646664e-3f, 8.3687168797281e-3f, 4.1668388045314e-2f,
                                    1.6666520631709e-1f, 4.9999993447796e-1f};
};

template <> struct ExpConstants<double> {
  static constexpr double log2e = 1.44269504088896340736, ln2_high = 6.93145751953125e-1,
                          ln2_low = 1.42860682030941723212e-6, round = 6755399441055744.0;
  static constexpr double lowest = -746.0, highest = 710.0;
  static constexpr int mantissa = 52, bias = 1023;
  static constexpr double terms[] = {  // with an error of 3.6e-18
      2.50000616255312796e-8, 2.76302483853230206e-7, 2.75575863737851810e-6,
      2.48014930988873915e-5, 1.98412695065787239e-4, 1.38888889436301342e-3,
      8.33333333349446166e-3, 4.16666666665301585e-2, 1.66666666666664125e-1,
      5.00000000000001063e-1};
};

// 2^n for integral n in the range of exponents of normal numbers
template <class T> inline Vec<T> power_of_two(VecBits<T> n) {
  using C = ExpConstants<T>;
  return bit_cast<Vec<T>>((n + C::bias) << C::mantissa);
}

// exp(r) for r in [-ln2/2, ln2/2], in `r = x + rest - n ln2`
template <class T> inline Vec<T> exp_near_zero(Vec<T> x, Vec<T> n, Vec<T> rest = Vec<T>{}) {
  using C = ExpConstants<T>;
  Vec<T> r = x - n * C::ln2_high;
  r = r - n * C::ln2_low + rest;
  Vec<T> p = broadcast(C::terms[0]);
  for (unsigned i = 1; i < sizeof C::terms / sizeof(T); i++) p = p * r + C::terms[i];
  return (p * r + T(1)) * r + T(1);
}

// exp(x) within 1 ulp; NaN stays, infinities and overflow give 0 or infinity.
template <class T> inline Vec<T> exp(Vec<T> x) {
  using C = ExpConstants<T>;
  x = x < C::lowest ? broadcast(C::lowest) : x;  // comparisons with NaN are false
  x = x > C::highest ? broadcast(C::highest) : x;
  Vec<T> shifted = x * C::log2e + C::round;
  Vec<T> y = exp_near_zero<T>(x, shifted - C::round);
  // In two steps, since the result may be subnormal, or 2^n too large for a normal number
  VecBits<T> k = bit_cast<VecBits<T>>(shifted) - bit_cast<VecBits<T>>(broadcast(C::round));
  VecBits<T> half = k >> 1;
  return y * power_of_two<T>(half) * power_of_two<T>(k - half);
}

// exp(x + rest) within 1 ulp for x <= 0 and NaN, in fewer instructions; subnormal results may be 0.
// The rest is small, and may hold digits that x has lost.
template <class T> inline Vec<T> exp_of_nonpositive(Vec<T> x, Vec<T> rest = Vec<T>{}) {
  using C = ExpConstants<T>;
  constexpr T shift = C::round + C::bias;
  constexpr T zero = -T(C::bias) * T(0.6931);  // its exponent is -bias, and so 2^n is 0
  x = x < zero ? broadcast(zero) : x;
  Vec<T> shifted = x * C::log2e + shift;
  Vec<T> power = bit_cast<Vec<T>>(bit_cast<VecBits<T>>(shifted) << C::mantissa);  // 2^n
  return exp_near_zero<T>(x, shifted - shift, rest) * power;
}

// tanh(x) within 2 ulp; NaN stays.
inline Vec<float> tanh(Vec<float> x) {
  // Near 0 by x + x^3 p(x^2), where p is a polynomial; elsewhere by an exponential.
  constexpr float terms[] = {-5.70498872745e-3f, 2.06390887954e-2f, -5.37397155531e-2f,
                             1.33314422036e-1f, -3.33332819422e-1f};
  Vec<float> square = x * x, p = broadcast(terms[0]);
  for (int i = 1; i < 5; i++) p = p * square + terms[i];
  Vec<float> near = x + x * square * p;
  Vec<float> far = 1.0f - 2.0f / (exp<float>(x + x) + 1.0f);
  return square < 0.390625f ? near : far;
}

// tanh(x) within 3 ulp; NaN stays.
inline Vec<double> tanh(Vec<double> x) {
  // By r = exp(-2 |x|) - 1, which is a series near 0, where the difference would lose digits.
  Vec<double> u = x < 0.0 ? x + x : -(x + x);
  constexpr double terms[] = {  // of (exp(u) - 1) / u
      1.0 / 6402373705728000.0, 1.0 / 355687428096000.0, 1.0 / 20922789888000.0,
      1.0 / 1307674368000.0, 1.0 / 87178291200.0, 1.0 / 6227020800.0, 1.0 / 479001600.0,
      1.0 / 39916800.0, 1.0 / 3628800.0, 1.0 / 362880.0, 1.0 / 40320.0, 1.0 / 5040.0,
      1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0};
  Vec<double> p = {};
  for (double term : terms) p = p * u + term;
  Vec<double> r = u > -0.7 ? p * u : exp<double>(u) - 1.0;
  Vec<double> y = -r / (r + 2.0);
  return x < 0.0 ? -y : y;
}

// exp(-scale * x * x) for scale 1/2 or 1 and |x| at most 1e6, NaN stays: the square of the leading
// bits is exact, the rest is added to the exponent. Subnormal results may be 0.
inline Vec<float> exp_minus_scaled_square(Vec<float> x, float scale) {
  Vec<float> leading = bit_cast<Vec<float>>(bit_cast<VecBits<float>>(x) & -4096);
  return exp_of_nonpositive<float>(leading * leading * -scale,
                                   (leading - x) * (leading + x) * scale);
}

// exp(-x * x); NaN stays.
inline Vec<float> exp_minus_square(Vec<float> x) {
  constexpr float far = 14.0f;  // where the result is 0
  x = x > far ? broadcast(far) : x;
  return exp_minus_scaled_square(x < -far ? broadcast(-far) : x, 1.0f);
}

// erf(x) as the op Erf computes it, within 2 ulp; NaN stays.
inline Vec<float> erf(Vec<float> x) {
  constexpr float above[] = {1.98675100707058e-06f,  0.0002845644916961287f, 0.0038833694111451897f,
                             0.05310182567213141f,   0.1935459106391173f,    1.1283791394284033f};
  constexpr float below[] = {3.741977401996993e-05f, 0.0011855734355581387f, 0.015207306784296328f,
                             0.1153503198681476f,    0.5048581537518002f,    1.0f};
  constexpr float far = 4.0f;  // where the result is 1
  x = x > far ? broadcast(far) : x;
  x = x < -far ? broadcast(-far) : x;
  Vec<float> square = x * x, p = broadcast(above[0]), q = broadcast(below[0]);
  for (int i = 1; i < 6; i++) p = p * square + above[i], q = q * square + below[i];
  Vec<float> y = x * p / q;
  y = y > 1.0f ? broadcast(1.0f) : y;
  return y < -1.0f ? broadcast(-1.0f) : y;
}

// As MulNoNan: 0 where the weight is 0, whatever the slope is, and where the slope is 0, unless the
// weight is NaN.
template <class T> inline Vec<T> product_no_nan(Vec<T> weight, Vec<T> slope) {
  Vec<T> zero = {};
  slope = weight == zero ? zero : slope;
  weight = (slope == zero) & (weight == weight) ? zero : weight;
  return weight * slope;
}

}  // namespace pullback
