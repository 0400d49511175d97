#include "tanh_gelu.h"

#include "rows.h"
#include "vec_math.h"

namespace pullback {
namespace {

using V = Vec<float>;

constexpr int64_t kElements = 4096;

inline V gelu_tanh_of(TanhGelu k, V x) { return tanh(k.c * (x + k.a * (x * x * x))); }

}  // namespace

void tanh_gelu(Pool& pool, TanhGelu k, const float* x, float* y, int64_t n) {
  pool.ranges(n, kRowBlocks, kElements, [=](int64_t begin, int64_t end) {
    over_row<float>(end - begin, [&](auto at) {
      V v = at.load(x + begin);
      at.store(y + begin, k.half * v * (k.one + gelu_tanh_of(k, v)));
    });
  });
}

void tanh_gelu_gradient(Pool& pool, TanhGelu k, const float* g, const float* x, float* dx,
                        int64_t n) {
  pool.ranges(n, kRowBlocks, kElements, [=](int64_t begin, int64_t end) {
    over_row<float>(end - begin, [&](auto at) {
      V v = at.load(x + begin), w = at.load(g + begin), t = gelu_tanh_of(k, v);
      V steep = (w * (k.half * v)) * (1.0f - t * t) * k.c;  // the cotangent of x + a x^3
      at.store(dx + begin, w * (k.one + t) * k.half + steep + steep * k.a * (3.0f * (v * v)));
    });
  });
}

}  // namespace pullback
