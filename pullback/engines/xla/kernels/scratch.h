// Memory for intermediate values, which is kept from call to call: new pages cost more than their use.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "vec.h"

namespace pullback {

// Memory, at the start of a cache line, that a thread keeps unless it is large.
template <class T> class Scratch {
 public:
  explicit Scratch(int64_t n) {
    constexpr int64_t kKept = int64_t(16) << 20, kLine = 64 / sizeof(T);
    thread_local std::vector<T> kept[4];
    thread_local int depth = 0;
    depth_ = &depth;
    std::vector<T>& memory = n * int64_t(sizeof(T)) > kKept || depth >= 4 ? own_ : kept[depth];
    depth++;
    n += kLine + kLanes<T>;  // whole vectors may be read at the end
    if (int64_t(memory.size()) < n) {
      memory.clear();  // nothing is kept
      memory.resize(n);
    }
    auto address = reinterpret_cast<uintptr_t>(memory.data());
    data_ = memory.data() + (64 - address % 64) % 64 / sizeof(T);
  }
  ~Scratch() { --*depth_; }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  T* data() const { return data_; }

 private:
  std::vector<T> own_;
  T* data_;
  int* depth_;
};

// The same for the threads of one call: memory that the process keeps, for as many calls as there are
// at the same time.
class SharedScratch {
 public:
  explicit SharedScratch(int64_t bytes) : bytes_(bytes) {
    {
      std::lock_guard<std::mutex> lock(kept().mutex);
      auto& free = kept().free;
      for (size_t i = 0; i < free.size() && !memory_; i++)
        if (free[i].bytes >= bytes) {
          bytes_ = free[i].bytes;
          memory_ = std::move(free[i].memory);
          free.erase(free.begin() + i);
        }
    }
    if (!memory_) memory_.reset(new char[bytes_ + 2 * kLine]);  // vectors may be read past the end
  }
  ~SharedScratch() {
    constexpr int64_t kKept = int64_t(16) << 20;
    constexpr size_t kCalls = 4;
    if (bytes_ > kKept) return;
    std::lock_guard<std::mutex> lock(kept().mutex);
    auto& free = kept().free;
    if (free.size() == kCalls) free.erase(free.begin());  // the one that was used longest ago
    free.push_back({bytes_, std::move(memory_)});
  }
  SharedScratch(const SharedScratch&) = delete;
  SharedScratch& operator=(const SharedScratch&) = delete;

  template <class T> T* data() const {
    auto address = reinterpret_cast<uintptr_t>(memory_.get());
    return reinterpret_cast<T*>(memory_.get() + (kLine - address % kLine) % kLine);
  }

 private:
  static constexpr int64_t kLine = 64;
  struct Block {
    int64_t bytes;
    std::unique_ptr<char[]> memory;
  };
  struct Kept {
    std::mutex mutex;
    std::vector<Block> free;
  };
  static Kept& kept() {
    static Kept* found = new Kept;  // never destroyed: threads may outlive static objects
    return *found;
  }

  int64_t bytes_;
  std::unique_ptr<char[]> memory_;
};

}  // namespace pullback
