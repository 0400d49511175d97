// Vectors of the widest registers that the file is compiled for, in the compiler's vector extension.
//
// Each kernel file is compiled several times, for different instruction sets, into libraries of
// their own; one of them is loaded (see __init__.py). So there is one source, and no intrinsics.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>

namespace pullback {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;  // NEON, SSE2
#endif

template <class T> struct VecOf;
#define PULLBACK_VECTOR(T, I)                                                  \
  template <> struct VecOf<T> {                                                \
    typedef T type __attribute__((vector_size(kVectorBytes)));                 \
    typedef I bits __attribute__((vector_size(kVectorBytes)));                 \
  };
PULLBACK_VECTOR(float, int32_t)
PULLBACK_VECTOR(double, int64_t)
PULLBACK_VECTOR(int32_t, int32_t)
PULLBACK_VECTOR(int64_t, int64_t)
#undef PULLBACK_VECTOR

template <class T> using Vec = typename VecOf<T>::type;
template <class T> using VecBits = typename VecOf<T>::bits;  // integers of the same width
template <class T> constexpr int kLanes = kVectorBytes / sizeof(T);

template <class T> inline Vec<T> load(const T* p) {  // from any address
  Vec<T> v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

template <class T> inline void store(T* p, Vec<T> v) { std::memcpy(p, &v, sizeof v); }

template <class T> inline Vec<T> broadcast(T x) { return x - Vec<T>{}; }

// The first n elements, n < kLanes<T>, and `fill` in the other lanes.
template <class T> inline Vec<T> load_part(const T* p, int64_t n, T fill = T(0)) {
  Vec<T> v = broadcast(fill);
  std::memcpy(&v, p, n * sizeof(T));
  return v;
}

template <class T> inline void store_part(T* p, Vec<T> v, int64_t n) {
  std::memcpy(p, &v, n * sizeof(T));
}

// The larger of two; `b` where either is NaN.
template <class T> inline T greater(T a, T b) { return a > b ? a : b; }

// Sums and maxima over the lanes, in a fixed order: halves, quarters, ...
template <class T> inline T sum_lanes(Vec<T> v) {
  T x[kLanes<T>];
  std::memcpy(x, &v, sizeof v);
  for (int n = kLanes<T> / 2; n > 0; n /= 2)
    for (int i = 0; i < n; i++) x[i] += x[i + n];
  return x[0];
}

template <class T> inline T max_lanes(Vec<T> v) {
  T x[kLanes<T>];
  std::memcpy(x, &v, sizeof v);
  for (int n = kLanes<T> / 2; n > 0; n /= 2)
    for (int i = 0; i < n; i++) x[i] = greater(x[i], x[i + n]);
  return x[0];
}

template <class To, class From> inline To bit_cast(From x) {
  static_assert(sizeof(To) == sizeof(From));
  To y;
  std::memcpy(&y, &x, sizeof y);
  return y;
}

// Store whole vectors at addresses that are multiples of their size, in memory that is not read for
// long: it is neither read into the caches nor kept there. `end_streams` follows the last one.
template <class T> inline void stream(T* p, Vec<T> v) {
#if defined(__clang__)
  __builtin_nontemporal_store(v, reinterpret_cast<Vec<T>*>(p));
#elif defined(__AVX512F__)
  __builtin_ia32_movntps512(reinterpret_cast<float*>(p), bit_cast<Vec<float>>(v));
#elif defined(__AVX2__)
  __builtin_ia32_movntps256(reinterpret_cast<float*>(p), bit_cast<Vec<float>>(v));
#else
  store(p, v);
#endif
}

inline void end_streams() {
#if defined(__x86_64__)
  __builtin_ia32_sfence();
#endif
}

}  // namespace pullback
