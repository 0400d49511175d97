#include "attention_mask.h"

namespace pullback {
namespace attention {
namespace {

// Keys and values in blocks of memory, and their gradients.
template <class T> struct Keys {
  int64_t begin, end;
  T *k, *v, *dk, *dv;
};

// The queries of a tile and what belongs to them; `_columns` are transposed, [element][query].
template <class T> struct TileData {
  T *q, *q_columns, *g, *g_columns, *dq;
  Vec<T> sums[2], lost[2], shift[2];
};

// The sum of products of two rows, which are filled with zeros, in a fixed order.
template <class T> T dot(const T* x, const T* y, int64_t element, int64_t n) {
  constexpr int L = kLanes<T>;
  Vec<T> sum = {};
  int64_t i = 0;
  if (element == 1)
    for (; i + L <= n; i += L) sum += load(x + i) * load(y + i);
  T total = sum_lanes<T>(sum);
  for (; i < n; i++) total += x[i] * y[i * element];
  return total;
}

// Returns whether the weights and the gradients of scores that are not hidden can be finite.
template <class T>
bool load_tile(const AttentionInput<T>& in, const AttentionCotangent<T>& given, const Queries& q,
               int64_t depth, int64_t width, TileData<T>& t) {
  constexpr int L = kLanes<T>;
  constexpr int64_t W = kTile<T>;
  pack_tile(in.q, q, in.size.depth, in.scale, t.q, depth, t.q_columns);
  pack_tile(given.g, q, in.size.width, [](auto x) { return x; }, t.g, width, t.g_columns);
  T sums[W], lost[W] = {}, shift[W];
  std::fill(sums, sums + W, kInfinity<T>);  // no weights
  std::fill(shift, shift + W, T(0));
  bool ordinary = true;
  for (int64_t r = 0; r < q.count(); r++) {
    int64_t row = q.begin + r, h = q.head_of(row), i = q.position(row);
    int64_t at = (q.batch * in.size.heads + h) * in.size.queries + i;
    sums[r] = given.statistics.sums[at], lost[r] = given.statistics.lost[at];
    shift[r] = dot(t.g + r * width, given.out.at(q.batch, h, i), given.out.element, in.size.width);
    if (given.statistics_g) shift[r] -= given.statistics_g[at];
    ordinary &= std::isfinite(sums[r]) && std::isfinite(shift[r]);
  }
  for (int i = 0; i < 2; i++) {
    t.sums[i] = load(sums + i * L), t.lost[i] = load(lost + i * L);
    t.shift[i] = load(shift + i * L);
  }
  std::fill(t.dq, t.dq + W * depth, T(0));
  return ordinary;
}

// The weights from scores `s`, and the gradients of scores from those of weights, `ds`.
template <class T>
void score_gradients(const TileData<T>& t, const Mask<T>& mask, T* s, T* ds, int64_t first,
                     int64_t last, int64_t rows, Seen seen) {
  constexpr int L = kLanes<T>;
  constexpr int64_t W = kTile<T>;
  mask.apply(s, first, last, first + rows, seen);
  for (int64_t j = 0; j < rows; j++)
    for (int i = 0; i < 2; i++) {
      T *x = s + j * W + i * L, *y = ds + j * W + i * L;
      Vec<T> weight = exp_of_negative<T>((load(x) - t.sums[i]) - t.lost[i]);
      store(x, weight);
      store(y, weight * (load(y) - t.shift[i]));
    }
  mask.clear(ds, first, last, first + rows, seen);
}

template <class T>
void add_tile(const TileData<T>& t, const Mask<T>& mask, const Keys<T>& keys, int64_t depth,
              int64_t width, T* s, T* ds) {
  constexpr int64_t W = kTile<T>;
  int64_t end = std::min(keys.end, mask.end);
  for (int64_t begin = std::max(keys.begin, mask.begin); begin < end; begin += kKeys) {
    int64_t first = begin, last = std::min(begin + kKeys, end);
    Seen seen = mask.look(first, last);
    if (seen == Seen::none) continue;
    int64_t rows = round_up(last - first, kRows), at = first - keys.begin;
    const T *k = keys.k + at * depth, *v = keys.v + at * width;
    product(k, depth, 1, t.q_columns, W, depth, s, W, rows, W, false);
    product(v, width, 1, t.g_columns, W, width, ds, W, rows, W, false);
    score_gradients(t, mask, s, ds, first, last, rows, seen);
    product(s, W, 1, t.g, width, W, keys.dv + at * width, width, rows, width, true);
    product(ds, W, 1, t.q, depth, W, keys.dk + at * depth, depth, rows, depth, true);
    product(k, 1, depth, ds, W, rows, t.dq, W, depth, W, true);
  }
}

// The gradients of keys [begin, end) of a head, and what they contribute to those of queries.
template <class T>
void gradients(const AttentionInput<T>& in, const AttentionCotangent<T>& given, Queries all,
               int64_t begin, int64_t end, Strided<T> dq, Strided<T> dk, Strided<T> dv) {
  constexpr int64_t W = kTile<T>;
  const AttentionSizes& size = in.size;
  int64_t depth = padded<T>(size.depth), width = padded<T>(size.width);
  int64_t packed = end - begin + kRows;  // products read and write whole groups of rows
  Scratch<T> scratch(2 * packed * (depth + width) + W * (3 * depth + 2 * width + 2 * kKeys));
  Keys<T> keys{begin, end, scratch.take(packed * depth), scratch.take(packed * width),
               scratch.take(packed * depth), scratch.take(packed * width)};
  pack_rows(in.k, all.batch, all.head, begin, end, size.depth, keys.k, depth, packed);
  pack_rows(in.v, all.batch, all.head, begin, end, size.width, keys.v, width, packed);
  std::fill(keys.dk, keys.dk + packed * depth, T(0));
  std::fill(keys.dv, keys.dv + packed * width, T(0));
  bool finite_keys = finite(keys.k, (end - begin) * depth);
  TileData<T> t;
  t.q = scratch.take(W * depth), t.q_columns = scratch.take(W * depth);
  t.g = scratch.take(W * width), t.g_columns = scratch.take(W * width);
  t.dq = scratch.take(W * depth);
  T *s = scratch.take(W * kKeys), *ds = scratch.take(W * kKeys);
  Queries q = all;
  for (q.begin = all.begin; q.begin < all.end; q.begin += W) {
    q.end = std::min(q.begin + W, all.end);
    Mask<T> mask(in, q);
    bool ordinary = load_tile(in, given, q, depth, width, t);
    if (!ordinary || !finite_keys) mask.skip_nothing();
    add_tile(t, mask, keys, depth, width, s, ds);
    for (int64_t i = 0; i < W * depth; i += kLanes<T>) store(t.dq + i, in.scale(load(t.dq + i)));
    transpose_blocks(t.dq, W, depth, W, t.q, depth);
    unpack_tile(t.q, depth, dq, q, size.depth);
  }
  for (int64_t j = begin; j < end; j++) {
    unpack_row(keys.dk + (j - begin) * depth, dk.at(all.batch, all.head, j), dk.element,
               size.depth);
    unpack_row(keys.dv + (j - begin) * width, dv.at(all.batch, all.head, j), dv.element,
               size.width);
  }
}

// The sum of `parts` arrays [batch, head, row, element], one after the other in memory.
template <class T>
void add_parts(Pool& pool, const T* parts, int64_t count, const AttentionSizes& size,
               Strided<T> to) {
  int64_t n = size.depth, all = size.batch * size.heads * size.queries;
  pool.ranges(all, 16, 4096 / n + 1, [=](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r++) {
      int64_t h = r / size.queries;
      T* y = to.at(h / size.heads, h % size.heads, r % size.queries);
      for (int64_t c = 0; c < n; c++) {
        T sum = parts[r * n + c];
        for (int64_t i = 1; i < count; i++) sum += parts[(i * all + r) * n + c];
        y[c * to.element] = sum;
      }
    }
  });
}

}  // namespace
}  // namespace attention

template <class T>
void attention_backward(Pool& pool, const AttentionInput<T>& in, const AttentionCotangent<T>& given,
                        Strided<T> dq, Strided<T> dk, Strided<T> dv) {
  using namespace attention;
  const AttentionSizes& size = in.size;
  int64_t group = size.heads / size.shared, heads = size.batch * size.shared;
  // Few heads: each task takes some of the keys, and their contributions to dq are added at last.
  int64_t parts = std::clamp<int64_t>(16 / heads, 1, (size.keys + 2 * kKeys - 1) / (2 * kKeys));
  int64_t length = round_up((size.keys + parts - 1) / parts, kKeys);
  parts = (size.keys + length - 1) / length;
  int64_t elements = size.batch * size.heads * size.queries * size.depth;
  std::vector<T> sums(parts > 1 ? parts * elements : 0);
  pool.each(heads * parts, [&](int64_t i) {
    int64_t head = i / parts, part = i % parts;
    Queries all{head / size.shared, head % size.shared, group, size.queries,
                0, group * size.queries};
    int64_t row = size.depth, plane = row * size.queries;
    Strided<T> to{sums.data() + part * elements, plane * size.heads, plane, row, 1};
    gradients(in, given, all, part * length, std::min((part + 1) * length, size.keys),
              parts > 1 ? to : dq, dk, dv);
  });
  if (parts > 1) add_parts(pool, sums.data(), parts, size, dq);
}

template void attention_backward(Pool&, const AttentionInput<float>&,
                                 const AttentionCotangent<float>&, Strided<float>, Strided<float>,
                                 Strided<float>);
template void attention_backward(Pool&, const AttentionInput<double>&,
                                 const AttentionCotangent<double>&, Strided<double>,
                                 Strided<double>, Strided<double>);

}  // namespace pullback
