#include "join.h"

#include <algorithm>
#include <cstring>

namespace pullback {
namespace {

constexpr int64_t kTasks = 32, kBytes = 1 << 16;

template <class T> void copy_run(const char* from, char* to, JoinDim dim) {
  if (dim.from == 1 && dim.to == 1) {
    std::memcpy(to, from, dim.size * sizeof(T));
    return;
  }
  auto x = reinterpret_cast<const T*>(from);
  auto y = reinterpret_cast<T*>(to);
  for (int64_t i = 0; i < dim.size; i++) y[i * dim.to] = x[i * dim.from];
}

template <class T>
void join_of(Pool& pool, const char* from, char* to, const JoinDim* dims, int64_t rank) {
  const JoinDim last = dims[rank - 1];
  int64_t runs = 1;
  for (int64_t d = 0; d < rank - 1; d++) runs *= dims[d].size;
  const int64_t least = std::max<int64_t>(1, kBytes / (last.size * int64_t(sizeof(T))));
  pool.ranges(runs, kTasks, least, [=](int64_t begin, int64_t end) {
    for (int64_t run = begin; run < end; run++) {
      int64_t rest = run, x = 0, y = 0;
      for (int64_t d = rank - 2; d >= 0; d--) {
        const int64_t i = rest % dims[d].size;
        rest /= dims[d].size;
        x += i * dims[d].from, y += i * dims[d].to;
      }
      copy_run<T>(from + x * sizeof(T), to + y * sizeof(T), last);
    }
  });
}

}  // namespace

void join(Pool& pool, int64_t bytes, const char* from, char* to, const JoinDim* dims,
          int64_t rank) {
  if (bytes == 1) return join_of<uint8_t>(pool, from, to, dims, rank);
  if (bytes == 2) return join_of<uint16_t>(pool, from, to, dims, rank);
  if (bytes == 4) return join_of<uint32_t>(pool, from, to, dims, rank);
  if (bytes == 8) return join_of<uint64_t>(pool, from, to, dims, rank);
}

}  // namespace pullback
