// The threads that a kernel may use: XLA's own, so that nothing is oversubscribed.
#pragma once

#include <cstdint>
#include <type_traits>

namespace pullback {

class Pool {
 public:
  // Calls f(i) for each i in [0, count), in any order, on several threads; returns when all ended.
  // Bits of results must not depend on the number of threads, so `count` must not either, unless
  // they are the same for every count.
  template <class F> void each(int64_t count, F&& f) {
    using Function = std::remove_reference_t<F>;
    run(count, [](void* data, int64_t i) { (*static_cast<Function*>(data))(i); },
        const_cast<void*>(static_cast<const void*>(&f)));
  }

  virtual int64_t threads() const = 0;

  // Calls f(begin, end) for `count` ranges that make up [0, n): at least `least` elements each,
  // except for the last, if there are that many.
  template <class F> void ranges(int64_t n, int64_t count, int64_t least, F&& f) {
    int64_t most = (n + least - 1) / least;
    if (count > most) count = most;
    if (count <= 1) {
      if (n > 0) f(int64_t(0), n);
      return;
    }
    each(count, [&](int64_t i) { f(n * i / count, n * (i + 1) / count); });
  }

 protected:
  virtual void run(int64_t count, void (*call)(void*, int64_t), void* data) = 0;
  ~Pool() = default;
};

}  // namespace pullback
