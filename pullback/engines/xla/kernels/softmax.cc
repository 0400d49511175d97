#include "softmax.h"

#include "exponential_sum.h"

namespace pullback {
namespace {

template <class T> void softmax_row(const T* x, T* y, int64_t n, bool bare) {
  T top = row_shift(x, n, bare), sum = exp_sum(x, n, top, y);
  T scale = T(1) / sum;
  over_row<T>(n, [&](auto at) { at.store(y, at.load(y) * scale); });
}

template <class T> void log_softmax_row(const T* x, T* y, int64_t n, bool bare) {
  T top = row_shift(x, n, bare), log_sum = std::log(exp_sum<T>(x, n, top));
  over_row<T>(n, [&](auto at) { at.store(y, (at.load(x) - top) - log_sum); });
}

}  // namespace

template <class T>
void softmax_rows(Pool& pool, const T* x, T* y, int64_t rows, int64_t n, bool bare) {
  over_rows(pool, rows, n, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) softmax_row(x + i * n, y + i * n, n, bare);
  });
}

template <class T>
void softmax_gradient(Pool& pool, const T* g, const T* y, T* dx, int64_t rows, int64_t n) {
  over_rows(pool, rows, n, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin * n; i < end * n; i += n) {
      Vec<T> sums = {};
      over_row<T>(n, [&](auto at) { sums += at.load(g + i) * at.load(y + i); });
      T sum = sum_lanes<T>(sums);
      over_row<T>(n, [&](auto at) {
        Vec<T> weight = at.load(y + i);
        at.store(dx + i, at.load(g + i) * weight - weight * sum);
      });
    }
  });
}

template <class T>
void log_softmax_rows(Pool& pool, const T* x, T* y, int64_t rows, int64_t n, bool bare) {
  over_rows(pool, rows, n, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) log_softmax_row(x + i * n, y + i * n, n, bare);
  });
}

template <class T>
void log_softmax_gradient(Pool& pool, const T* g, const T* y, T* dx, int64_t rows, int64_t n) {
  over_rows(pool, rows, n, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin * n; i < end * n; i += n) {
      Vec<T> sums = {};
      over_row<T>(n, [&](auto at) { sums += at.load(g + i); });
      T sum = sum_lanes<T>(sums);
      over_row<T>(n, [&](auto at) {
        at.store(dx + i, at.load(g + i) - exp<T>(at.load(y + i)) * sum);
      });
    }
  });
}

template <class T>
void logsumexp_rows(Pool& pool, const T* x, T* y, T* shift, T* log_sum, int64_t rows, int64_t n,
                    bool bare) {
  over_rows(pool, rows, n, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      T top = row_shift(x + i * n, n, bare), logarithm = std::log(exp_sum<T>(x + i * n, n, top));
      y[i] = logarithm + top;
      shift[i] = known_shift(top, logarithm, bare);
      log_sum[i] = logarithm;
    }
  });
}

template <class T>
void logsumexp_gradient(Pool& pool, const T* x, const T* shift, const T* log_sum, const T* g,
                        T* dx, int64_t rows, int64_t n) {
  over_rows(pool, rows, n, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      T top = shift[i], logarithm = log_sum[i], weight = g[i];
      over_row<T>(n, [&](auto at) {
        at.store(dx + i * n, exp<T>((at.load(x + i * n) - top) - logarithm) * weight);
      });
    }
  });
}

#define PULLBACK_INSTANCES(T)                                                               \
  template void softmax_rows(Pool&, const T*, T*, int64_t, int64_t, bool);                        \
  template void softmax_gradient(Pool&, const T*, const T*, T*, int64_t, int64_t);          \
  template void log_softmax_rows(Pool&, const T*, T*, int64_t, int64_t, bool);                    \
  template void log_softmax_gradient(Pool&, const T*, const T*, T*, int64_t, int64_t);      \
  template void logsumexp_rows(Pool&, const T*, T*, T*, T*, int64_t, int64_t, bool);        \
  template void logsumexp_gradient(Pool&, const T*, const T*, const T*, const T*, T*,       \
                                   int64_t, int64_t);
PULLBACK_INSTANCES(float)
PULLBACK_INSTANCES(double)
#undef PULLBACK_INSTANCES

}  // namespace pullback
