#include "sorting.h"

#include "radix_sort.h"
#include "slice_groups.h"

namespace pullback {

// Sort the keys alone, and turn them into elements.
template <class T>
static void sort_elements(Pool& pool, const T* x, T* elements, Slices s, Key<T> flip) {
  using K = Key<T>;
  each_group<T>(pool, s, [&](int64_t i, int64_t j, int64_t width) {
    Scratch<K> keys(width * s.n), room(width * s.n);
    read_keys(x, s, i, j, width, keys.data(), false, flip);
    const K* sorted[64];
    for (int64_t w = 0; w < width; w++)
      sorted[w] = sorted_records(keys.data() + w * s.n, room.data() + w * s.n, s.n);
    write_group(elements, s.n, s.inner, i, j, width,
                [&](int64_t w, int64_t k) { return element_of<T>(sorted[w][k] ^ flip); });
  });
}

template <class T>
void sort_slices(Pool& pool, const T* x, T* elements, int64_t* indices, Slices s,
                 bool descending) {
  using K = Key<T>;
  using R = Indexed<K>;
  K flip = descending ? ~K(0) : K(0);
  if (indices == nullptr) return sort_elements(pool, x, elements, s, flip);
  each_group<T>(pool, s, [&](int64_t i, int64_t j, int64_t width) {
    Scratch<K> keys(width * s.n);
    Scratch<R> records(width * s.n), room(width * s.n);
    read_keys(x, s, i, j, width, keys.data(), true, flip);
    const R* sorted[64];
    for (int64_t w = 0; w < width; w++) {
      R* own = records.data() + w * s.n;
      for (int64_t k = 0; k < s.n; k++) own[k] = {keys.data()[w * s.n + k], int32_t(k)};
      sorted[w] = sorted_records(own, room.data() + w * s.n, s.n);
    }
    const T* from = x + i * s.n * s.inner + j;
    auto index = [&](int64_t w, int64_t k) { return int64_t(sorted[w][k].index); };
    auto element = [&](int64_t w, int64_t k) { return from[index(w, k) * s.inner + w]; };
    write_group(indices, s.n, s.inner, i, j, width, index);
    if (elements != nullptr) write_group(elements, s.n, s.inner, i, j, width, element);
  });
}

#define PULLBACK_SORTING(T) \
  template void sort_slices<T>(Pool&, const T*, T*, int64_t*, Slices, bool);
PULLBACK_SORTING(float)
PULLBACK_SORTING(double)
PULLBACK_SORTING(int32_t)
PULLBACK_SORTING(int64_t)
PULLBACK_SORTING(uint32_t)
PULLBACK_SORTING(uint64_t)

}  // namespace pullback
