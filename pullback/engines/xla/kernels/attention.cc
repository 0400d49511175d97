#include "attention_mask.h"

namespace pullback {
namespace attention {
namespace {

constexpr int64_t kTiles = 4;  // that a task does at once, so that keys and values are read once

// The state of a tile while blocks of keys come by: the weighted sums of values [element][query],
// each query's largest score, and the sum of its exponentials.
template <class T> struct Running {
  T *queries, *sums;
  Vec<T> top[2], total[2];
};

template <class T>
void add_keys(Running<T>& t, const Mask<T>& mask, const T* k, const T* v, int64_t depth,
              int64_t width, int64_t begin, int64_t first, int64_t last, Seen seen, T* s) {
  constexpr int L = kLanes<T>;
  constexpr int64_t W = kTile<T>;
  int64_t rows = round_up(last - first, kRows);
  k += (first - begin) * depth, v += (first - begin) * width;
  product(k, depth, 1, t.queries, W, depth, s, W, rows, W, false);
  mask.apply(s, first, last, first + rows, seen);
  Vec<T> factor[2];
  for (int i = 0; i < 2; i++) {
    Vec<T> top = t.top[i];
    for (int64_t j = 0; j < rows; j++) top = greater(load(s + j * W + i * L), top);
    Vec<T> shift = top == -kInfinity<T> ? Vec<T>{} : top;
    factor[i] = exp_of_negative<T>(t.top[i] - shift);
    Vec<T> total = {};
    for (int64_t j = 0; j < rows; j++) {
      Vec<T> e = exp_of_negative<T>(load(s + j * W + i * L) - shift);
      total += e;
      store(s + j * W + i * L, e);
    }
    t.top[i] = top;
    t.total[i] = t.total[i] * factor[i] + total;
  }
  for (int64_t c = 0; c < width; c++)
    for (int i = 0; i < 2; i++) {
      T* p = t.sums + c * W + i * L;
      store(p, load(p) * factor[i]);
    }
  product(v, 1, width, s, W, rows, t.sums, W, width, W, true);
}

template <class T>
void finish(Running<T>& t, const AttentionInput<T>& in, const Queries& q, int64_t width, T* rows,
            Strided<T> out, AttentionStatistics<T> statistics) {
  constexpr int L = kLanes<T>;
  constexpr int64_t W = kTile<T>;
  T tops[W], totals[W];
  for (int i = 0; i < 2; i++) {
    Vec<T> total = t.total[i];
    Vec<T> factor = T(1) / total;
    if (in.zero_rows) factor = total == T(0) ? Vec<T>{} : factor;
    store(tops + i * L, t.top[i]);
    store(totals + i * L, total);
    for (int64_t c = 0; c < width; c++) {
      T* p = t.sums + c * W + i * L;
      store(p, load(p) * factor);
    }
  }
  transpose_blocks(t.sums, W, width, W, rows, width);
  unpack_tile(rows, width, out, q, in.size.width);
  for (int64_t r = 0; r < q.count(); r++) {
    int64_t row = q.begin + r;
    int64_t at = (q.batch * in.size.heads + q.head_of(row)) * in.size.queries + q.position(row);
    bool zero = in.zero_rows && totals[r] == 0;
    T top = tops[r], logarithm = std::log(totals[r]);
    T sum = zero ? T(0) : top == kInfinity<T> ? top : top + logarithm;
    T lost = logarithm - (sum - top);
    statistics.sums[at] = sum;
    statistics.lost[at] = std::isfinite(lost) && !zero ? lost : T(0);
  }
}

// Attention of up to kTiles tiles of queries, of heads that share keys and values.
template <class T>
void attend(const AttentionInput<T>& in, Queries all, Strided<T> out, AttentionStatistics<T> statistics) {
  constexpr int64_t W = kTile<T>;
  const AttentionSizes& size = in.size;
  int64_t depth = padded<T>(size.depth), width = padded<T>(size.width);
  constexpr int64_t packed = kKeys + kRows;  // products read whole groups of rows
  Scratch<T> scratch((packed + (kTiles + 1) * W) * (depth + width) + W * kKeys);
  T *k = scratch.take(packed * depth), *v = scratch.take(packed * width);
  T *s = scratch.take(W * kKeys), *rows = scratch.take(W * (depth + width));
  Queries queries[kTiles];
  Running<T> tiles[kTiles];
  std::vector<Mask<T>> masks;
  masks.reserve(kTiles);
  for (int64_t begin = all.begin, n = 0; begin < all.end; begin += W, n++) {
    queries[n] = all;
    queries[n].begin = begin, queries[n].end = std::min(begin + W, all.end);
    masks.emplace_back(in, queries[n]);
    Running<T>& t = tiles[n];
    t.queries = scratch.take(W * depth), t.sums = scratch.take(W * width);
    for (int i = 0; i < 2; i++) t.top[i] = broadcast(-kInfinity<T>), t.total[i] = Vec<T>{};
    pack_tile(in.q, queries[n], size.depth, in.scale, rows, depth, t.queries);
    std::fill(t.sums, t.sums + W * width, T(0));
  }
  for (int64_t begin = 0; begin < size.keys; begin += kKeys) {
    int64_t end = std::min(begin + kKeys, size.keys);
    pack_rows(in.v, all.batch, all.head, begin, end, size.width, v, width, packed);
    // A value that no query sees counts with the weight 0 if it is not finite.
    bool whole = !finite(v, kKeys * width), used = false;
    for (size_t n = 0; n < masks.size(); n++) {
      int64_t first = std::max(begin, masks[n].begin), last = std::min(end, masks[n].end);
      Seen seen = masks[n].look(first, last);
      if (whole) first = begin, last = end, seen = in.mask.data ? Seen::some : Seen::all;
      if (seen == Seen::none) continue;
      if (!used) pack_rows(in.k, all.batch, all.head, begin, end, size.depth, k, depth, packed);
      used = true;
      add_keys(tiles[n], masks[n], k, v, depth, width, begin, first, last, seen, s);
    }
  }
  for (size_t n = 0; n < masks.size(); n++)
    finish(tiles[n], in, queries[n], width, rows, out, statistics);
}

}  // namespace
}  // namespace attention

template <class T>
void attention_forward(Pool& pool, const AttentionInput<T>& in, Strided<T> out, AttentionStatistics<T> statistics) {
  using namespace attention;
  const AttentionSizes& size = in.size;
  int64_t group = size.heads / size.shared, rows = group * size.queries;
  int64_t heads = size.batch * size.shared, most = kTiles * kTile<T>;
  // Enough tasks for many threads, if there are that many tiles.
  while (most > kTile<T> && heads * ((rows + most - 1) / most) < 64) most /= 2;
  int64_t blocks = (rows + most - 1) / most;
  pool.each(heads * blocks, [&](int64_t i) {
    int64_t head = i / blocks, begin = i % blocks * most;
    attend(in,
           Queries{head / size.shared, head % size.shared, group, size.queries, begin,
                   std::min(begin + most, rows)},
           out, statistics);
  });
}

template void attention_forward(Pool&, const AttentionInput<float>&, Strided<float>,
                                AttentionStatistics<float>);
template void attention_forward(Pool&, const AttentionInput<double>&, Strided<double>,
                                AttentionStatistics<double>);

}  // namespace pullback
