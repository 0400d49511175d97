// Unsigned integers in the order of numbers, with NaN last.
#pragma once

#include <type_traits>

#include "vec.h"

namespace pullback {

template <class T> using Key = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;

template <class T> constexpr Key<T> kSign = Key<T>(1) << (8 * sizeof(T) - 1);

// The zeros are equal, or else -0.0 is less than 0.0.
template <class T> inline Key<T> key_of(T x, bool equal_zeros) {
  Key<T> bits = bit_cast<Key<T>>(x);
  if constexpr (std::is_floating_point_v<T>) {
    if (x != x) return ~Key<T>(0);
    if (equal_zeros && x == 0) bits = 0;
    return bits & kSign<T> ? ~bits : bits | kSign<T>;
  }
  return std::is_signed_v<T> ? bits ^ kSign<T> : bits;
}

template <class T> inline T element_of(Key<T> key) {
  if constexpr (std::is_floating_point_v<T>) {
    if (key == ~Key<T>(0)) return std::numeric_limits<T>::quiet_NaN();
    return bit_cast<T>(key & kSign<T> ? key ^ kSign<T> : ~key);
  }
  return bit_cast<T>(std::is_signed_v<T> ? key ^ kSign<T> : key);
}

template <class K> struct Indexed {  // a key, and where its element was
  K key;
  int32_t index;
};

template <class K> inline K key_in(K record) { return record; }
template <class K> inline K key_in(Indexed<K> record) { return record.key; }

}  // namespace pullback
