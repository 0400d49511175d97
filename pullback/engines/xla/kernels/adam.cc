#include "adam.h"

#include <algorithm>
#include <cmath>

#include "rows.h"

namespace pullback {
namespace {

template <class T> inline Vec<T> root(Vec<T> x) {
  for (int i = 0; i < kLanes<T>; i++) x[i] = std::sqrt(x[i]);
  return x;
}

template <class T>
void step_range(AdamNumbers<T> numbers, const AdamArrays<T>& x, int64_t begin, int64_t end) {
  auto [length, correction, keep, take, keep_square, take_square, epsilon] = numbers;
  over_elements<T>(begin, end, [&](auto at) {
    Vec<T> d = at.load(x.g);
    Vec<T> m = at.load(x.mean) * keep + d * take;
    Vec<T> v = at.load(x.square) * keep_square + d * d * take_square;
    Vec<T> step = m * length / (root<T>(v) * correction + epsilon);
    at.store(x.new_p, at.load(x.p) - step);
    at.store(x.new_mean, m);
    at.store(x.new_square, v);
  });
}

}  // namespace

template <class T>
void adam_step(Pool& pool, AdamNumbers<T> numbers, const std::vector<AdamArrays<T>>& all) {
  constexpr int64_t kElements = 16384;  // fewer are not worth another thread
  std::vector<int64_t> ends;            // of the arrays, one behind the other
  int64_t n = 0;
  for (const AdamArrays<T>& x : all) ends.push_back(n += x.n);
  // Memory is fastest along few long ranges; elements have the same bits in any of them.
  pool.ranges(n, 2 * pool.threads(), kElements, [&](int64_t begin, int64_t end) {
    size_t i = std::upper_bound(ends.begin(), ends.end(), begin) - ends.begin();
    for (; begin < end; i++) {
      const int64_t start = ends[i] - all[i].n, stop = std::min(end, ends[i]);
      step_range(numbers, all[i], begin - start, stop - start);
      begin = stop;
    }
  });
}

#define PULLBACK_INSTANCES(T) \
  template void adam_step(Pool&, AdamNumbers<T>, const std::vector<AdamArrays<T>>&);
PULLBACK_INSTANCES(float)
PULLBACK_INSTANCES(double)
#undef PULLBACK_INSTANCES

}  // namespace pullback
