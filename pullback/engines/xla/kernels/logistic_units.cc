#include "logistic_units.h"

#include "rows.h"
#include "vec_math.h"

namespace pullback {
namespace {

// The exponents u(x), and x u'(x). Where |x| is at least kFar, exp(-|u|) is 0 in every dtype, and the
// derivative 0 or 1.
template <class T> struct Silu {
  static constexpr T kFar = 800;
  static Vec<T> exponent(Vec<T> x) { return x; }
  static Vec<T> change(Vec<T> x) { return x; }
};

template <class T> struct GeluTanh {
  static constexpr T kFar = 30, kCubic = T(0.044715), kSlope = T(1.5957691216057308);
  static Vec<T> exponent(Vec<T> x) { return x * (x * x * kCubic + T(1)) * kSlope; }
  static Vec<T> change(Vec<T> x) { return x * (x * x * (3 * kCubic) + T(1)) * kSlope; }
};

// L(-|u|) and L(|u|), by one exponential
template <class T> struct Logistic {
  Vec<T> small, large;

  explicit Logistic(Vec<T> u) {
    Vec<T> e = exp_of_nonpositive<T>(u > T(0) ? -u : u);
    large = T(1) / (e + T(1));
    small = e * large;
  }
};

template <class T> inline Vec<T> at_least(Vec<T> x, T low) {  // NaN stays
  return x < low ? broadcast(low) : x;
}

template <template <class> class Unit, class T> inline Vec<T> value_of(Vec<T> x) {
  x = at_least<T>(x, -Unit<T>::kFar);  // -infinity times 0 is not wanted
  Vec<T> u = Unit<T>::exponent(x);
  Logistic<T> l(u);
  return x * (u < T(0) ? l.small : l.large);
}

template <template <class> class Unit, class T> inline Vec<T> slope_of(Vec<T> x) {
  constexpr T far = Unit<T>::kFar;
  x = at_least<T>(x, -far);
  x = x > far ? broadcast(far) : x;  // infinity times 0 is not wanted
  Vec<T> u = Unit<T>::exponent(x);
  Logistic<T> l(u);
  return (u < T(0) ? l.small : l.large) + l.small * l.large * Unit<T>::change(x);
}

constexpr int64_t kElements = 4096;

template <template <class> class Unit, class T>
void values(Pool& pool, const T* x, T* y, int64_t n) {
  pool.ranges(n, kRowBlocks, kElements, [=](int64_t begin, int64_t end) {
    over_row<T>(end - begin, [&](auto at) {
      at.store(y + begin, value_of<Unit, T>(at.load(x + begin)));
    });
  });
}

template <template <class> class Unit, class T>
void gradients(Pool& pool, const T* g, const T* x, T* dx, int64_t n) {
  pool.ranges(n, kRowBlocks, kElements, [=](int64_t begin, int64_t end) {
    over_row<T>(end - begin, [&](auto at) {
      Vec<T> slope = slope_of<Unit, T>(at.load(x + begin));
      at.store(dx + begin, product_no_nan<T>(at.load(g + begin), slope));
    });
  });
}

}  // namespace

template <class T> void silu(Pool& pool, const T* x, T* y, int64_t n) {
  values<Silu>(pool, x, y, n);
}
template <class T> void silu_gradient(Pool& pool, const T* g, const T* x, T* dx, int64_t n) {
  gradients<Silu>(pool, g, x, dx, n);
}
template <class T> void gelu_tanh(Pool& pool, const T* x, T* y, int64_t n) {
  values<GeluTanh>(pool, x, y, n);
}
template <class T> void gelu_tanh_gradient(Pool& pool, const T* g, const T* x, T* dx, int64_t n) {
  gradients<GeluTanh>(pool, g, x, dx, n);
}

#define PULLBACK_INSTANCES(T)                                               \
  template void silu(Pool&, const T*, T*, int64_t);                         \
  template void silu_gradient(Pool&, const T*, const T*, T*, int64_t);      \
  template void gelu_tanh(Pool&, const T*, T*, int64_t);                    \
  template void gelu_tanh_gradient(Pool&, const T*, const T*, T*, int64_t);
PULLBACK_INSTANCES(float)
PULLBACK_INSTANCES(double)
#undef PULLBACK_INSTANCES

}  // namespace pullback
