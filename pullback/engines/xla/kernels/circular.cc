#include "circular.h"

#include <cmath>

#include "rows.h"
#include "vec.h"

namespace pullback {
namespace {

using V = Vec<double>;
using Bits = VecBits<double>;

constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1, kRound = 0x1.8p52;
// pi/2 in three parts. Products of the first two with integers of up to 20 bits are exact.
constexpr double kHigh = 0x1.921fb544p+0, kMiddle = 0x1.0b4611a6p-34, kLow = 0x1.3198a2e037073p-69;
// Where that loses no digits: remainders that are smaller could be differences of equal numbers.
constexpr double kLargest = 0x1p20, kLeastRemainder = 0x1p-10;
constexpr double kTiny = 0x1p-27;  // the sine of less is the number itself, also of subnormals

// On [-pi/4, pi/4], sin r = r + r^3 (kThird + r^2 p(r^2)) and cos r = 1 - r^2 / 2 + r^4 q(r^2): the
// coefficients of p and q, from that of the highest power
constexpr double kThird = -1.66666666666666324348e-01;
constexpr double kSine[] = {1.58969099521155010221e-10, -2.50507602534068634195e-08,
                            2.75573137070700676789e-06, -1.98412698298579493134e-04,
                            8.33333333332248946124e-03};
constexpr double kCosine[] = {-1.13596475577881948265e-11, 2.08757232129817482790e-09,
                              -2.75573143513906633035e-07, 2.48015872894767294178e-05,
                              -1.38888888888741095749e-03, 4.16666666666666019037e-02};

template <int N> inline V polynomial(const double (&terms)[N], V z) {
  V p = broadcast(terms[0]);
  for (int i = 1; i < N; i++) p = p * z + terms[i];
  return p;
}

// The sine of x plus so many quarters of a turn. `hard` tells the lanes that are not right.
template <int kQuarters> inline V turned_sine(V x, Bits& hard) {
  V shifted = x * kTwoOverPi + kRound, n = shifted - kRound;
  V high = x - n * kHigh, middle = n * kMiddle;
  V first = high - middle, low = n * kLow - ((high - first) - middle);
  V r = first - low, rest = (first - r) - low;
  V size = x < 0.0 ? -x : x, remainder = r < 0.0 ? -r : r;
  hard = ~(size <= kLargest) | ((remainder < kLeastRemainder) & (n != 0.0));

  V z = r * r, cube = z * r, half = z * 0.5, one = 1.0 - half;
  V sine = r - ((z * (0.5 * rest - cube * polynomial(kSine, z)) - rest) - cube * kThird);
  V cosine = one + (((1.0 - one) - half) + (z * z * polynomial(kCosine, z) - r * rest));
  Bits quarter = bit_cast<Bits>(shifted) + kQuarters;
  V y = (quarter & 1) != 0 ? cosine : sine;
  y = bit_cast<V>(bit_cast<Bits>(y) ^ ((quarter >> 1) << 63));
  if constexpr (kQuarters == 0) y = size < kTiny ? x : y;
  return y;
}

constexpr int kVectors = 4, kStep = kVectors * kLanes<double>;  // enough to ask seldom

template <int kQuarters> inline double turned_sine_of_one(double x) {
  return kQuarters == 0 ? std::sin(x) : std::cos(x);
}

// y[i] for i < kStep
template <int kQuarters> inline void turned_sines_of_step(const double* x, double* y) {
  Bits hard[kVectors], any = {};
  for (int i = 0; i < kVectors; i++) {
    const int at = i * kLanes<double>;
    store(y + at, turned_sine<kQuarters>(load(x + at), hard[i]));
    any |= hard[i];
  }
  if (sum_lanes<int64_t>(any) == 0) return;
  for (int i = 0; i < kStep; i++)
    if (hard[i / kLanes<double>][i % kLanes<double>]) y[i] = turned_sine_of_one<kQuarters>(x[i]);
}

template <int kQuarters>
void turned_sines(Pool& pool, const double* x, double* y, int64_t n) {
  pool.ranges(n, kRowBlocks, kElementsAThread / 4, [=](int64_t begin, int64_t end) {
    int64_t i = begin;
    for (; i + kStep <= end; i += kStep) turned_sines_of_step<kQuarters>(x + i, y + i);
    if (i == end) return;
    double last[kStep] = {}, made[kStep];
    std::memcpy(last, x + i, (end - i) * sizeof(double));
    turned_sines_of_step<kQuarters>(last, made);
    std::memcpy(y + i, made, (end - i) * sizeof(double));
  });
}

}  // namespace

void sine(Pool& pool, const double* x, double* y, int64_t n) { turned_sines<0>(pool, x, y, n); }

void cosine(Pool& pool, const double* x, double* y, int64_t n) { turned_sines<1>(pool, x, y, n); }

}  // namespace pullback
