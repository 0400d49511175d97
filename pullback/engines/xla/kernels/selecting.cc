#include <algorithm>
#include <vector>

#include "radix_sort.h"
#include "slice_groups.h"
#include "sorting.h"

namespace pullback {
namespace {

template <class K> struct Found {  // a key of the sorted order
  K key;
  int64_t repeated;  // how many equal ones are before it
};

// Find the keys at positions, which ascend and from which `base` is subtracted. Only the digits at
// `shift` and below can differ. A pass counts the values of one digit; those keys that share it with
// a wanted one go on to the next digit.
template <class K>
void select_keys(const K* keys, int64_t n, int shift, const int64_t* ranks, int64_t count,
                 int64_t base, Found<K>* found) {
  constexpr int kBits = 11, kValues = 1 << kBits;
  if (n <= kCounted) {
    K sorted[kCounted];
    counting_sort(keys, sorted, n);
    for (int64_t r = 0; r < count; r++) {
      int64_t at = ranks[r] - base, first = at;
      while (first > 0 && sorted[first - 1] == sorted[at]) first--;
      found[r] = {sorted[at], at - first};
    }
    return;
  }
  if (shift + kBits <= 0) {  // all keys are equal
    for (int64_t r = 0; r < count; r++) found[r] = {keys[0], ranks[r] - base};
    return;
  }
  int low = std::max(shift, 0);
  auto digit = [low](K key) { return (key >> low) & (kValues - 1); };
  std::vector<uint32_t> counts(kValues);
  for (int64_t i = 0; i < n; i++) counts[digit(keys[i])]++;
  std::vector<K> next;
  for (int64_t r = 0, value = 0; r < count; value++) {
    int64_t here = counts[value], taken = 0;
    while (r + taken < count && ranks[r + taken] < base + here) taken++;
    if (taken > 0) {
      const K* chosen = keys;
      if (here < n) {
        next.resize(here + 1);  // one more, to write without branches
        int64_t at = 0;
        for (int64_t i = 0; i < n; i++) {
          next[at] = keys[i];
          at += int64_t(digit(keys[i])) == value && at < here;
        }
        chosen = next.data();
      }
      select_keys(chosen, here, low == 0 ? -kBits : shift - kBits, ranks + r, taken, base,
                  found + r);
      r += taken;
    }
    base += here;
  }
}

template <class K>
void select_keys(const K* keys, int64_t n, const int64_t* ranks, int64_t count, Found<K>* found) {
  constexpr int kFirst = 8 * sizeof(K) - 11;
  select_keys(keys, n, kFirst, ranks, count, 0, found);
}

// Where the keys are; a key that is repeated is at the place of its turn.
template <class K> int64_t place_of(const K* keys, Found<K> found) {
  int64_t left = found.repeated, i = 0;
  while (keys[i] != found.key || left-- > 0) i++;
  return i;
}

// The first `count` records of the sorted order of n keys, in `records`, which has room for n.
template <class K>
const Indexed<K>* first_records(const K* keys, int64_t n, int64_t count, Indexed<K>* records,
                                Indexed<K>* room) {
  if (count * 4 > n || n <= kCounted) {
    for (int64_t i = 0; i < n; i++) records[i] = {keys[i], int32_t(i)};
    return sorted_records(records, room, n);
  }
  int64_t last = count - 1, taken = 0;
  Found<K> found;
  select_keys(keys, n, &last, 1, &found);
  int64_t left = found.repeated + 1;  // how many of those that are equal to the last one
  for (int64_t i = 0; taken < count; i++)
    if (keys[i] < found.key || (keys[i] == found.key && left-- > 0))
      records[taken++] = {keys[i], int32_t(i)};
  return sorted_records(records, room, count);
}

}  // namespace

template <class T>
void top_of_slices(Pool& pool, const T* x, T* elements, int64_t* indices, Slices s,
                   int64_t count) {
  using K = Key<T>;
  each_group<T>(pool, s, [&](int64_t i, int64_t j, int64_t width) {
    Scratch<K> keys(width * s.n);
    Scratch<Indexed<K>> records(s.n), room(s.n);
    read_keys(x, s, i, j, width, keys.data(), true, ~K(0));
    const T* from = x + i * s.n * s.inner + j;
    for (int64_t w = 0; w < width; w++) {
      auto* top = first_records(keys.data() + w * s.n, s.n, count, records.data(), room.data());
      int64_t at = i * count * s.inner + j + w;
      for (int64_t k = 0; k < count; k++) {
        indices[at + k * s.inner] = top[k].index;
        elements[at + k * s.inner] = from[top[k].index * s.inner + w];
      }
    }
  });
}

template <class T>
void order_statistics(Pool& pool, const T* x, T* elements, int64_t* indices, Slices s,
                      const int64_t* ranks, int64_t count) {
  using K = Key<T>;
  each_group<T>(pool, s, [&](int64_t i, int64_t j, int64_t width) {
    Scratch<K> keys(width * s.n);
    std::vector<Found<K>> found(count);
    read_keys(x, s, i, j, width, keys.data(), indices != nullptr, K(0));
    for (int64_t w = 0; w < width; w++) {
      const K* own = keys.data() + w * s.n;
      select_keys(own, s.n, ranks, count, found.data());
      int64_t at = i * count * s.inner + j + w;
      for (int64_t k = 0; k < count; k++)
        if (indices == nullptr)
          elements[at + k * s.inner] = element_of<T>(found[k].key);
        else
          indices[at + k * s.inner] = place_of(own, found[k]);
    }
  });
}

#define PULLBACK_SELECTING(T)                                                          \
  template void top_of_slices<T>(Pool&, const T*, T*, int64_t*, Slices, int64_t);      \
  template void order_statistics<T>(Pool&, const T*, T*, int64_t*, Slices, const int64_t*, int64_t);
PULLBACK_SELECTING(float)
PULLBACK_SELECTING(double)
PULLBACK_SELECTING(int32_t)
PULLBACK_SELECTING(int64_t)
PULLBACK_SELECTING(uint32_t)
PULLBACK_SELECTING(uint64_t)

}  // namespace pullback
