#include "table_rows.h"

#include <algorithm>
#include <cstring>

#include "rows.h"

namespace pullback {
namespace {

constexpr int64_t kParts = 16;           // of a table, each for one thread
constexpr int64_t kLeastBytes = 1 << 15;  // that are worth another thread
constexpr int64_t kColumns = 64;         // elements of a row that stay together

template <class I> inline bool inside(I index, int64_t begin, int64_t end) {
  return int64_t(index) >= begin && int64_t(index) < end;
}

// Rows [begin, end) of a table and columns [left, right): each thread looks through all indices.
template <class T, class I> struct TablePart {
  RowIndices<I> at;
  const T* updates;
  T* table;
  int64_t n, begin, end, left, right;

  void clear() const {
    if (right - left == n) {
      std::memset(table + begin * n, 0, (end - begin) * n * sizeof(T));
      return;
    }
    for (int64_t i = begin; i < end; i++)
      std::memset(table + i * n + left, 0, (right - left) * sizeof(T));
  }

  void add() const {
    for (int64_t k = 0; k < at.count; k++) {
      if (!inside(at.index[k], begin, end)) continue;
      T* row = table + int64_t(at.index[k]) * n;
      const T* update = updates + k * n;
      over_elements<T>(left, right, [&](auto j) { j.store(row, j.load(row) + j.load(update)); });
    }
  }
};

}  // namespace

template <class I>
void take_rows(Pool& pool, RowIndices<I> at, const char* table, char* out, int64_t bytes) {
  pool.ranges(at.count, kParts, kLeastBytes / (bytes + 1) + 1, [=](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; k++) {
      int64_t i = inside(at.index[k], 0, at.rows) ? int64_t(at.index[k]) : 0;
      std::memcpy(out + k * bytes, table + i * bytes, bytes);
    }
  });
}

template <class T, class I>
void add_rows(Pool& pool, RowIndices<I> at, const T* updates, T* table, int64_t n, bool clear) {
  // Tables of few rows are divided by columns too.
  int64_t down = std::min(kParts, at.rows);
  int64_t across = std::max<int64_t>(1, std::min(kParts / down, n / kColumns));
  int64_t work = (at.count + (clear ? at.rows : 0)) * n * int64_t(sizeof(T));
  if (work < 2 * kLeastBytes) down = across = 1;
  int64_t columns = (n + across - 1) / across;
  columns = (columns + kColumns - 1) / kColumns * kColumns;
  pool.each(down * across, [&](int64_t i) {
    int64_t part = i / across, left = std::min(n, i % across * columns);
    TablePart<T, I> own{at, updates, table, n, at.rows * part / down,
                        at.rows * (part + 1) / down, left, std::min(n, left + columns)};
    if (clear) own.clear();
    own.add();
  });
}

#define PULLBACK_INSTANCES(I)                                                                \
  template void take_rows(Pool&, RowIndices<I>, const char*, char*, int64_t);                \
  template void add_rows(Pool&, RowIndices<I>, const float*, float*, int64_t, bool);         \
  template void add_rows(Pool&, RowIndices<I>, const double*, double*, int64_t, bool);
PULLBACK_INSTANCES(int32_t)
PULLBACK_INSTANCES(int64_t)
#undef PULLBACK_INSTANCES

}  // namespace pullback
