#include "gelu.h"

#include "rows.h"
#include "vec_math.h"

namespace pullback {
namespace {

using V = Vec<float>;

constexpr float kLargest = 14.0f;  // Phi(-14) is below the least normal number

// exp(x * x / 2) Phi(-x) for x in [0, 14]: a quotient of polynomials
inline V scaled_tail(V x) {
  constexpr float above[] = {3.2884750469734866e-2f / 8, 2.2963881027265887e-1f / 5.656854249f,
                             7.324848825111373e-1f / 4, 1.2392508492110783f / 2.828427125f,
                             1.0000000058477896f / 2};
  constexpr float below[] = {5.8286017922245976e-2f / 5.656854249f, 4.07050191567686e-1f / 4,
                             1.3270127724006853f / 2.828427125f, 2.404060434517313f / 2,
                             2.3676306053523435f / 1.414213562f, 1.0f};
  V p = broadcast(above[0]), q = broadcast(below[0]);
  for (int i = 1; i < 5; i++) p = p * x + above[i];
  for (int i = 1; i < 6; i++) q = q * x + below[i];
  return p / q;
}

inline V exp_minus_half_square(V x) { return exp_minus_scaled_square(x, 0.5f); }

inline V absolute(V x) { return bit_cast<V>(bit_cast<VecBits<float>>(x) & 0x7FFFFFFF); }

inline V clamped(V x) {  // NaN stays
  x = x > kLargest ? broadcast(kLargest) : x;
  return x < -kLargest ? broadcast(-kLargest) : x;
}

inline V gelu_of(V x) {
  V near = clamped(x), size = absolute(near);
  V part = near * (scaled_tail(size) * exp_minus_half_square(size));
  return bit_cast<VecBits<float>>(x) < 0 ? part : x - part;  // -0.0 is negative
}

inline V gelu_slope(V x) {
  constexpr float density = 0.3989422804014327f;
  V size = absolute(clamped(x));
  V tail = (scaled_tail(size) - size * density) * exp_minus_half_square(size);
  return x < 0.0f ? tail : 1.0f - tail;
}

}  // namespace

void gelu(Pool& pool, const float* x, float* y, int64_t n) {
  map_elements(pool, n, y, [](V v) { return gelu_of(v); }, x);
}

void gelu_gradient(Pool& pool, const float* g, const float* x, float* dx, int64_t n) {
  auto pulled = [](V w, V v) { return product_no_nan<float>(w, gelu_slope(v)); };
  map_elements(pool, n, dx, pulled, g, x);
}

}  // namespace pullback
