// Sorting keys, with or without indices, in the cache of one thread.
#pragma once

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "scratch.h"
#include "sort_keys.h"

namespace pullback {

constexpr int64_t kCounted = 96;  // the most records that are sorted by comparing all pairs

// Sort up to kCounted records: the place of one is the number of those before it.
template <class R> void counting_sort(const R* from, R* to, int64_t n) {
  using K = decltype(key_in(*from));
  using S = std::make_signed_t<K>;
  constexpr int L = kLanes<S>;
  constexpr S sign = std::numeric_limits<S>::min();
  S keys[kCounted + L];
  for (int64_t i = 0; i < n; i++) keys[i] = S(key_in(from[i])) ^ sign;
  VecBits<S> lane;
  for (int i = 0; i < L; i++) lane[i] = i;
  for (int64_t first = 0; first < n; first += L) {
    Vec<S> mine = load(keys + first);
    Vec<S> before{};
    int64_t last = std::min<int64_t>(first + L, n);
    for (int64_t j = 0; j < first; j++) before -= broadcast(keys[j]) <= mine;
    for (int64_t j = first; j < last; j++) {
      Vec<S> other = broadcast(keys[j]);
      before -= (other < mine) | ((other == mine) & (lane > broadcast(S(j - first))));
    }
    for (int64_t j = last; j < n; j++) before -= broadcast(keys[j]) < mine;
    for (int64_t i = first; i < last; i++) to[before[i - first]] = from[i];
  }
}

// Sort by one digit after the other, from the last; those that are the same for all are skipped.
// Returns where the result is: in `a` or in `b`.
template <int bits, class R> R* radix_sort_by(R* a, R* b, int64_t n) {
  using K = decltype(key_in(*a));
  constexpr int kDigits = (8 * sizeof(K) + bits - 1) / bits, kValues = 1 << bits;
  thread_local std::vector<uint32_t> kept(kDigits * kValues);
  uint32_t* counts = kept.data();
  std::fill(kept.begin(), kept.end(), 0);
  for (int64_t i = 0; i < n; i++) {
    K key = key_in(a[i]);
    for (int d = 0; d < kDigits; d++) counts[d * kValues + ((key >> (d * bits)) & (kValues - 1))]++;
  }
  K first = n ? key_in(a[0]) : K(0);
  for (int d = 0; d < kDigits; d++) {
    uint32_t* places = counts + d * kValues;
    if (places[(first >> (d * bits)) & (kValues - 1)] == n) continue;
    uint32_t sum = 0;
    for (int v = 0; v < kValues; v++) sum += std::exchange(places[v], sum);
    for (int64_t i = 0; i < n; i++) b[places[(key_in(a[i]) >> (d * bits)) & (kValues - 1)]++] = a[i];
    std::swap(a, b);
  }
  return a;
}

// Sort records, with room for as many in `b`; returns where the result is.
template <class R> R* sorted_records(R* a, R* b, int64_t n) {
  if (n <= kCounted) {
    counting_sort(a, b, n);
    return b;
  }
  return n < 2048 ? radix_sort_by<8>(a, b, n) : radix_sort_by<11>(a, b, n);
}

}  // namespace pullback
