// XLA's pool of threads, as kernels use it; only files that declare handlers include this.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "pool.h"
#include "xla/ffi/api/ffi.h"

namespace pullback {

namespace ffi = xla::ffi;

// The threads of one call of a kernel. Those that helped with one piece of work wait for the next for
// a while: to go back to XLA's pool and be woken again takes longer than many pieces.
class XlaPool final : public Pool {
 public:
  explicit XlaPool(ffi::ThreadPool threads) : threads_(threads) {}
  ~XlaPool() {
    if (team_) team_->ended.store(true);
  }
  XlaPool(const XlaPool&) = delete;
  XlaPool& operator=(const XlaPool&) = delete;

  int64_t threads() const override { return threads_.num_threads(); }

 private:
  static constexpr int kPauses = 4000;  // some 0.1 ms

  // The thread that is waited for may be on the same core: it runs at the next yield.
  static void pause(int i) {
    if (i % 32 == 31) return std::this_thread::yield();
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  struct Work {
    int64_t count;
    void (*call)(void*, int64_t);
    void* data;
    std::atomic<int64_t> next{0}, done{0};
    std::mutex mutex;
    std::condition_variable finished;

    bool is_done() const { return done.load() == count; }

    // A thread that starts late finds nothing left, and touches neither `call` nor `data`.
    void take() {
      for (int64_t i; (i = next.fetch_add(1)) < count;) {
        call(data, i);
        if (done.fetch_add(1) + 1 == count) {
          std::lock_guard<std::mutex> lock(mutex);
          finished.notify_all();
        }
      }
    }

    // The others are at their last block. To sleep and be woken takes longer than most blocks.
    void wait() {
      for (int i = 0; i < kPauses && !is_done(); i++) pause(i);
      if (is_done()) return;
      std::unique_lock<std::mutex> lock(mutex);
      finished.wait(lock, [&] { return is_done(); });
    }
  };

  struct Team {
    std::mutex mutex;
    std::shared_ptr<Work> work;     // the last piece
    std::atomic<int64_t> pieces{0};  // so far
    std::atomic<bool> ended{false};
    int64_t helpers = 0;  // threads that take the next piece

    // Post a piece of work; return how many helpers are missing.
    int64_t post(std::shared_ptr<Work> piece, int64_t wanted) {
      std::lock_guard<std::mutex> lock(mutex);
      work = std::move(piece);
      pieces.fetch_add(1);
      int64_t missing = std::max<int64_t>(0, wanted - helpers);
      helpers += missing;
      return missing;
    }

    void help() {
      for (int64_t seen = 0;;) {
        std::shared_ptr<Work> piece;
        {
          std::lock_guard<std::mutex> lock(mutex);
          if (seen == pieces.load() || ended.load()) {
            helpers--;
            return;
          }
          piece = work;
          seen = pieces.load();
        }
        piece->take();
        for (int i = 0; i < kPauses && pieces.load() == seen && !ended.load(); i++) pause(i);
      }
    }
  };

  void run(int64_t count, void (*call)(void*, int64_t), void* data) override {
    if (count <= 1) {
      if (count == 1) call(data, 0);
      return;
    }
    if (!team_) team_ = std::make_shared<Team>();
    auto work = std::make_shared<Work>();
    work->count = count, work->call = call, work->data = data;
    // XLA starts a program on a thread that is not in its pool, so all of these may be free.
    int64_t wanted = std::min<int64_t>(threads_.num_threads(), count - 1);
    for (int64_t missing = team_->post(work, wanted); missing > 0; missing--)
      threads_.Schedule([team = team_] { team->help(); });
    work->take();  // the calling thread takes part, so the work ends also if all others are busy
    work->wait();
  }

  ffi::ThreadPool threads_;
  std::shared_ptr<Team> team_;
};

// Call f with a null pointer of the C++ type of a dtype; an error for other dtypes.
template <class F> ffi::Error for_dtype(ffi::DataType dtype, F&& f) {
  if (dtype == ffi::F32) return f(static_cast<float*>(nullptr)), ffi::Error::Success();
  if (dtype == ffi::F64) return f(static_cast<double*>(nullptr)), ffi::Error::Success();
  return ffi::Error::InvalidArgument("a kernel of pullback was called with another dtype");
}

}  // namespace pullback
