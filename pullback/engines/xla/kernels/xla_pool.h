// XLA's pool of threads, as kernels use it; only files that declare handlers include this.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "pool.h"
#include "xla/ffi/api/ffi.h"

namespace pullback {

namespace ffi = xla::ffi;

class XlaPool final : public Pool {
 public:
  explicit XlaPool(ffi::ThreadPool threads) : threads_(threads) {}

 private:
  static constexpr int kPauses = 4000;  // some 0.1 ms

  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  struct Work {
    std::atomic<int64_t> next{0}, done{0};
    std::mutex mutex;
    std::condition_variable finished;
  };

  void run(int64_t count, void (*call)(void*, int64_t), void* data) override {
    if (count <= 1) {
      if (count == 1) call(data, 0);
      return;
    }
    auto work = std::make_shared<Work>();
    // A thread that starts late finds nothing left, and touches neither `call` nor `data`.
    auto take = [work, count, call, data] {
      for (int64_t i; (i = work->next.fetch_add(1)) < count;) {
        call(data, i);
        if (work->done.fetch_add(1) + 1 == count) {
          std::lock_guard<std::mutex> lock(work->mutex);
          work->finished.notify_all();
        }
      }
    };
    int64_t helpers = std::min<int64_t>(threads_.num_threads(), count) - 1;
    for (int64_t i = 0; i < helpers; i++) threads_.Schedule(std::decay_t<decltype(take)>(take));
    take();  // the calling thread takes part, so the work ends also if all others are busy
    // The others are at their last block. To sleep and be woken takes longer than most blocks.
    for (int i = 0; i < kPauses && work->done.load() != count; i++) pause();
    if (work->done.load() == count) return;
    std::unique_lock<std::mutex> lock(work->mutex);
    work->finished.wait(lock, [&] { return work->done.load() == count; });
  }

  ffi::ThreadPool threads_;
};

// Call f with a null pointer of the C++ type of a dtype; an error for other dtypes.
template <class F> ffi::Error for_dtype(ffi::DataType dtype, F&& f) {
  if (dtype == ffi::F32) return f(static_cast<float*>(nullptr)), ffi::Error::Success();
  if (dtype == ffi::F64) return f(static_cast<double*>(nullptr)), ffi::Error::Success();
  return ffi::Error::InvalidArgument("a kernel of pullback was called with another dtype");
}

}  // namespace pullback
