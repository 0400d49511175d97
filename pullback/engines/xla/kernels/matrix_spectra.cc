#include <algorithm>
#include <cstring>

#include "lapack.h"
#include "matrices.h"
#include "matrix_moves.h"
#include "scratch.h"

namespace pullback {

// Whether the lower triangle is finite.
template <class T> static bool finite_below(const T* x, int64_t n) {
  for (int64_t r = 0; r < n; r++)
    if (!all_finite(x + r * n, r + 1)) return false;
  return true;
}

template <class T> void eigh(Pool& pool, const T* x, T* values, T* vectors, Shape shape) {
  int n = shape.rows, lwork = -1, liwork = -1, integers, info;
  int64_t size = shape.rows * shape.rows;
  const char* job = vectors == nullptr ? "N" : "V";
  // Of a matrix by rows, the lower triangle is the upper one by columns. It gives the same values,
  // but vectors of other signs than NumPy's.
  const char* triangle = vectors == nullptr ? "U" : "L";
  const Lapack<T>& call = lapack<T>();
  T wanted;
  call.syevd(job, triangle, &n, values, &n, values, &wanted, &lwork, &integers, &liwork, &info);
  lwork = workspace(wanted), liwork = integers;
  each_matrix(pool, shape.batch, size, [&](int64_t i) {
    const T* from = x + i * size;
    T* out = vectors == nullptr ? nullptr : vectors + i * size;
    int failed = 1;
    if (finite_below(from, n)) {
      Scratch<T> matrix(size), work(lwork);
      Scratch<int32_t> more(liwork);
      T* a = matrix.data();
      if (out != nullptr)
        transposed(from, n, n, a);
      else
        std::memcpy(a, from, size * sizeof(T));
      call.syevd(job, triangle, &n, a, &n, values + i * n, work.data(), &lwork, more.data(),
                 &liwork, &failed);
      if (failed == 0 && out != nullptr) transposed(a, n, n, out);
    }
    if (failed == 0) return;
    fill_nan(values + i * n, n);
    if (out != nullptr) fill_nan(out, size);
  });
}

template <class T>
void svd(Pool& pool, const T* x, T* u, T* values, T* vh, Shape shape, int64_t left,
         int64_t right) {
  int m = shape.rows, n = shape.columns, r = right, lwork = -1, info;
  int64_t size = shape.rows * shape.columns, count = std::min(m, n);
  int64_t of_u = m * left, of_vh = right * n;
  const char* job = std::max(left, right) > count ? "A" : "S";
  const Lapack<T>& call = lapack<T>();
  T wanted;
  call.gesdd(job, &m, &n, u, &m, values, u, &m, vh, &r, &wanted, &lwork, nullptr, &info);
  lwork = workspace(wanted);
  each_matrix(pool, shape.batch, size, [&](int64_t i) {
    const T* from = x + i * size;
    int failed = 1;
    if (all_finite(from, size)) {
      Scratch<T> matrix(size), vectors(of_u + of_vh), work(lwork);
      Scratch<int32_t> integers(8 * count);
      transposed(from, m, n, matrix.data());
      T* rows = vectors.data() + of_u;
      call.gesdd(job, &m, &n, matrix.data(), &m, values + i * count, vectors.data(), &m, rows, &r,
                 work.data(), &lwork, integers.data(), &failed);
      transposed(vectors.data(), left, m, u + i * of_u);
      transposed(rows, n, right, vh + i * of_vh);
    }
    if (failed == 0) return;
    fill_nan(values + i * count, count);
    fill_nan(u + i * of_u, of_u);
    fill_nan(vh + i * of_vh, of_vh);
  });
}

template <class T> void singular_values(Pool& pool, const T* x, T* values, Shape shape) {
  int m = shape.columns, n = shape.rows, one = 1, lwork = -1, info;  // of the transpose
  int64_t size = shape.rows * shape.columns, count = std::min(m, n);
  const Lapack<T>& call = lapack<T>();
  T wanted;
  call.gesdd("N", &m, &n, values, &m, values, values, &one, values, &one, &wanted, &lwork, nullptr,
             &info);
  lwork = workspace(wanted);
  each_matrix(pool, shape.batch, size, [&](int64_t i) {
    const T* from = x + i * size;
    int failed = 1;
    if (all_finite(from, size)) {
      Scratch<T> matrix(size), work(lwork);
      Scratch<int32_t> integers(8 * count);
      std::memcpy(matrix.data(), from, size * sizeof(T));
      T none;
      call.gesdd("N", &m, &n, matrix.data(), &m, values + i * count, &none, &one, &none, &one,
                 work.data(), &lwork, integers.data(), &failed);
    }
    if (failed != 0) fill_nan(values + i * count, count);
  });
}

#define PULLBACK_SPECTRA(T)                                                    \
  template void eigh<T>(Pool&, const T*, T*, T*, Shape);                       \
  template void svd<T>(Pool&, const T*, T*, T*, T*, Shape, int64_t, int64_t);  \
  template void singular_values<T>(Pool&, const T*, T*, Shape);
PULLBACK_SPECTRA(float)
PULLBACK_SPECTRA(double)

}  // namespace pullback
