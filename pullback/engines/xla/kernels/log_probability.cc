#include "log_probability.h"

#include "exponential_sum.h"

namespace pullback {
namespace {

// Labels were checked before; whatever happened, no memory outside the row is touched.
template <class I> inline int64_t inside(I label, int64_t n) {
  int64_t i = label;
  return i < 0 ? 0 : i < n ? i : n - 1;
}

}  // namespace

template <class T, class I>
void log_probability(Pool& pool, const T* x, const I* labels, T* chosen, T* largest, T* log_sum,
                     int64_t rows, int64_t n) {
  over_rows(pool, rows, n, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      const T* row = x + i * n;
      T top = row_shift(row, n, false), logarithm = std::log(exp_sum<T>(row, n, top));
      chosen[i] = (row[inside(labels[i], n)] - top) - logarithm;
      largest[i] = known_shift(top, logarithm, false);
      log_sum[i] = logarithm;
    }
  });
}

template <class T, class I>
void log_probability_gradient(Pool& pool, const T* x, const I* labels, const T* largest,
                              const T* log_sum, const T* g, T* dx, int64_t rows, int64_t n) {
  over_rows(pool, rows, n, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      const T* row = x + i * n;
      T top = largest[i], logarithm = log_sum[i], weight = g[i];
      over_row<T>(n, [&](auto at) {
        Vec<T> log_p = (at.load(row) - top) - logarithm;
        at.store(dx + i * n, exp<T>(log_p) * -weight);
      });
      dx[i * n + inside(labels[i], n)] += weight;
    }
  });
}

#define PULLBACK_INSTANCES(T, I)                                                                 \
  template void log_probability(Pool&, const T*, const I*, T*, T*, T*, int64_t, int64_t);        \
  template void log_probability_gradient(Pool&, const T*, const I*, const T*, const T*, const T*, \
                                         T*, int64_t, int64_t);
PULLBACK_INSTANCES(float, int32_t)
PULLBACK_INSTANCES(float, int64_t)
PULLBACK_INSTANCES(double, int32_t)
PULLBACK_INSTANCES(double, int64_t)
#undef PULLBACK_INSTANCES

}  // namespace pullback
