#include "gelu_formulas.h"

#include "rows.h"
#include "vec_math.h"

namespace pullback {
namespace {

using V = Vec<float>;

inline V tanh_of(TanhGelu k, V x) { return tanh(k.c * (x + k.a * (x * x * x))); }

}  // namespace

void tanh_gelu(Pool& pool, TanhGelu k, const float* x, float* y, int64_t n) {
  map_elements(pool, n, y, [=](V v) { return k.half * v * (k.one + tanh_of(k, v)); }, x);
}

void tanh_gelu_gradient(Pool& pool, TanhGelu k, const float* g, const float* x, float* dx,
                        int64_t n) {
  auto pulled = [=](V w, V v) {
    V t = tanh_of(k, v);
    V steep = (w * (k.half * v)) * (1.0f - t * t) * k.c;  // the cotangent of x + a x^3
    return w * (k.one + t) * k.half + steep + steep * k.a * (3.0f * (v * v));
  };
  map_elements(pool, n, dx, pulled, g, x);
}

void erf_gelu(Pool& pool, ErfGelu k, const float* x, float* y, int64_t n) {
  map_elements(pool, n, y, [=](V v) { return k.half * v * (k.one + erf(v * k.c)); }, x);
}

void erf_gelu_gradient(Pool& pool, ErfGelu k, const float* g, const float* x, float* dx,
                       int64_t n) {
  constexpr float slope = 1.1283791670955126f;  // of the error function at 0
  auto pulled = [=](V w, V v) {
    V u = v * k.c;
    V steep = (w * (k.half * v)) * (exp_minus_square(u) * slope) * k.c;
    return w * (k.one + erf(u)) * k.half + steep;
  };
  map_elements(pool, n, dx, pulled, g, x);
}

}  // namespace pullback
