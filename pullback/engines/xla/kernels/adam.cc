#include "adam.h"

#include <cmath>

#include "rows.h"

namespace pullback {
namespace {

constexpr int64_t kBlocks = 64, kElements = 16384;

template <class T> inline Vec<T> root(Vec<T> x) {
  for (int i = 0; i < kLanes<T>; i++) x[i] = std::sqrt(x[i]);
  return x;
}

}  // namespace

template <class T>
void adam_step(Pool& pool, AdamNumbers<T> numbers, const T* p, const T* g, const T* mean,
               const T* square, T* new_p, T* new_mean, T* new_square, int64_t n) {
  pool.ranges(n, kBlocks, kElements, [=](int64_t begin, int64_t end) {
    auto [length, correction, keep, take, keep_square, take_square, epsilon] = numbers;
    over_elements<T>(begin, end, [&](auto at) {
      Vec<T> d = at.load(g);
      Vec<T> m = at.load(mean) * keep + d * take;
      Vec<T> v = at.load(square) * keep_square + d * d * take_square;
      Vec<T> step = m * length / (root<T>(v) * correction + epsilon);
      at.store(new_p, at.load(p) - step);
      at.store(new_mean, m);
      at.store(new_square, v);
    });
  });
}

#define PULLBACK_INSTANCES(T)                                                                 \
  template void adam_step(Pool&, AdamNumbers<T>, const T*, const T*, const T*, const T*, T*, \
                          T*, T*, int64_t);
PULLBACK_INSTANCES(float)
PULLBACK_INSTANCES(double)
#undef PULLBACK_INSTANCES

}  // namespace pullback
