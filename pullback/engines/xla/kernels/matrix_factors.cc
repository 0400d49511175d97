#include <algorithm>
#include <cstring>

#include "lapack.h"
#include "matrices.h"
#include "matrix_moves.h"
#include "scratch.h"

namespace pullback {

// Factorize one matrix; above the diagonal, anything may be left. OpenBLAS takes a quarter longer
// for upper triangles than for lower ones: longer than to move a matrix that is neither small nor
// large.
template <class T> static int cholesky_factor(const T* x, T* factor, int n) {
  constexpr int kSmall = 64, kLarge = 768;
  int info;
  if (n < kSmall || n > kLarge) {
    for (int64_t r = 0; r < n; r++) std::copy(x + r * n, x + r * n + r + 1, factor + r * n);
    lapack<T>().potrf("U", &n, factor, &n, &info);  // by columns it is the lower one by rows
    return info;
  }
  Scratch<T> moved(int64_t(n) * n);
  transposed_tiles(x, n, n, moved.data(), [](int64_t r, int64_t c) { return r >= c; });
  lapack<T>().potrf("L", &n, moved.data(), &n, &info);
  transposed_tiles(moved.data(), n, n, factor, [](int64_t r, int64_t c) { return r <= c; });
  return info;
}

template <class T> void cholesky(Pool& pool, const T* x, T* factor, Shape shape) {
  int64_t n = shape.rows, size = n * n;
  each_matrix(pool, shape.batch, size, [&](int64_t i) {
    T* out = factor + i * size;
    if (cholesky_factor(x + i * size, out, int(n)) != 0) return fill_nan(out, size);
    for (int64_t r = 0; r < n; r++) std::fill(out + r * n + r + 1, out + r * n + n, T(0));
  });
}

template <class T>
void lu(Pool& pool, const T* x, T* factors, int32_t* pivots, Shape shape, bool by_columns) {
  int64_t size = shape.rows * shape.columns, count = std::min(shape.rows, shape.columns);
  int m = by_columns ? shape.columns : shape.rows, n = by_columns ? shape.rows : shape.columns;
  each_matrix(pool, shape.batch, size, [&](int64_t i) {
    Scratch<T> moved(by_columns ? 0 : size);
    T* out = factors + i * size;
    T* a = by_columns ? out : moved.data();
    if (by_columns)
      std::memcpy(a, x + i * size, size * sizeof(T));
    else
      transposed(x + i * size, shape.rows, shape.columns, a);
    int info;
    lapack<T>().getrf(&m, &n, a, &m, pivots + i * count, &info);
    for (int64_t k = 0; k < count; k++) pivots[i * count + k]--;
    if (!by_columns) transposed(a, shape.columns, shape.rows, out);
  });
}

template <class T> static bool singular(const T* factors, int64_t n) {
  for (int64_t k = 0; k < n; k++)
    if (factors[k * n + k] == 0) return true;
  return false;
}

static void count_from_1(const int32_t* pivots, int32_t* found, int64_t n) {
  for (int64_t k = 0; k < n; k++) found[k] = pivots[k] + 1;
}

constexpr int64_t kSmallSystem = 24;  // rows

// row -= factor * other, all of k elements
template <class T> static void subtract_row(T* row, T factor, const T* other, int64_t k) {
  for (int64_t c = 0; c < k; c++) row[c] -= factor * other[c];
}

template <class T> static void divide_row(T* row, T divisor, int64_t k) {
  for (int64_t c = 0; c < k; c++) row[c] /= divisor;
}

// Solve one small system in place, by rows, where the calls of LAPACK would take longer than the
// work. The factors are those of the transpose by columns: element (i, j) of both is f[j * n + i].
template <class T>
static void solve_small(const T* f, const int32_t* pivots, T* x, int64_t n, int64_t k, char trans) {
  auto exchange = [&](int64_t i) {
    if (pivots[i] != i) std::swap_ranges(x + i * k, x + i * k + k, x + pivots[i] * k);
  };
  if (trans == 'N') {  // with the transposes of the factors, upper one first
    for (int64_t i = 0; i < n; i++) {
      for (int64_t j = 0; j < i; j++) subtract_row(x + i * k, f[i * n + j], x + j * k, k);
      divide_row(x + i * k, f[i * n + i], k);
    }
    for (int64_t i = n - 1; i >= 0; i--)
      for (int64_t j = i + 1; j < n; j++) subtract_row(x + i * k, f[i * n + j], x + j * k, k);
    for (int64_t i = n - 1; i >= 0; i--) exchange(i);
    return;
  }
  for (int64_t i = 0; i < n; i++) exchange(i);
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < i; j++) subtract_row(x + i * k, f[j * n + i], x + j * k, k);
  for (int64_t i = n - 1; i >= 0; i--) {
    for (int64_t j = i + 1; j < n; j++) subtract_row(x + i * k, f[j * n + i], x + j * k, k);
    divide_row(x + i * k, f[i * n + i], k);
  }
}

template <class T>
void lu_solve(Pool& pool, const T* factors, const int32_t* pivots, const T* b, T* x, Shape shape,
              int64_t columns, char trans) {
  int n = shape.rows, k = columns;
  const char* other = trans == 'N' ? "T" : "N";  // the factors are those of the transpose
  int64_t size = shape.rows * shape.rows, given = shape.rows * columns;
  each_matrix(pool, shape.batch, std::max(size, given), [&](int64_t i) {
    const T* a = factors + i * size;
    T* out = x + i * given;
    if (singular(a, n)) return fill_nan(out, given);
    if (n <= kSmallSystem) {
      std::memcpy(out, b + i * given, given * sizeof(T));
      return solve_small(a, pivots + i * n, out, n, k, trans);
    }
    Scratch<T> moved(k > 1 ? given : 0);
    Scratch<int32_t> exchanged(n);
    count_from_1(pivots + i * n, exchanged.data(), n);
    T* place = k > 1 ? moved.data() : out;
    if (k > 1)
      transposed(b + i * given, n, k, place);
    else
      std::memcpy(place, b + i * given, given * sizeof(T));
    int info;
    lapack<T>().getrs(other, &n, &k, a, &n, exchanged.data(), place, &n, &info);
    if (k > 1) transposed(place, k, n, out);
  });
}

template <class T>
void lu_inverse(Pool& pool, const T* factors, const int32_t* pivots, T* inverse, Shape shape) {
  int n = shape.rows, lwork = -1, info;
  int64_t size = shape.rows * shape.rows;
  T wanted;
  lapack<T>().getri(&n, inverse, &n, pivots, &wanted, &lwork, &info);
  lwork = workspace(wanted);
  each_matrix(pool, shape.batch, size, [&](int64_t i) {
    T* out = inverse + i * size;
    const T* from = factors + i * size;
    if (singular(from, n)) return fill_nan(out, size);
    Scratch<T> work(lwork);
    Scratch<int32_t> exchanged(n);
    count_from_1(pivots + i * n, exchanged.data(), n);
    std::memcpy(out, from, size * sizeof(T));
    int failed;
    lapack<T>().getri(&n, out, &n, exchanged.data(), work.data(), &lwork, &failed);
  });
}

template <class T>
void triangular_solve(Pool& pool, const T* a, const T* b, T* x, Shape shape, int64_t columns,
                      Triangle part) {
  int n = shape.rows, k = columns;
  int64_t size = shape.rows * shape.rows, given = shape.rows * columns;
  bool few = k == 1 || 16 * k <= n;  // then to move them takes less than to solve from the right
  const char* triangle = part.lower ? "U" : "L";  // of the transpose, for which a is taken
  const char* diagonal = part.unit_diagonal ? "U" : "N";
  const char* trans = few != part.transposed ? "T" : "N";
  const T one = 1;
  each_matrix(pool, shape.batch, std::max(size, given), [&](int64_t i) {
    const T* own = a + i * size;
    const T* from = b + i * given;
    T* out = x + i * given;
    if (!few || k == 1) std::memcpy(out, from, given * sizeof(T));
    if (!few) {  // x by columns is its transpose, which times that of the triangle is that of b
      lapack<T>().trsm("R", triangle, trans, diagonal, &k, &n, &one, own, &n, out, &k);
    } else if (k == 1) {
      lapack<T>().trsm("L", triangle, trans, diagonal, &n, &k, &one, own, &n, out, &n);
    } else {
      Scratch<T> moved(given);
      transposed(from, n, k, moved.data());
      lapack<T>().trsm("L", triangle, trans, diagonal, &n, &k, &one, own, &n, moved.data(), &n);
      transposed(moved.data(), k, n, out);
    }
  });
}

// Write the upper triangle of a matrix by columns, with `rows` of them, as rows; zeros below.
template <class T>
static void upper_rows(const T* packed, int64_t ld, int64_t rows, int64_t columns, T* r) {
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < columns; j++) r[i * columns + j] = j < i ? T(0) : packed[j * ld + i];
}

template <class T> void qr(Pool& pool, const T* x, T* q, T* r, Shape shape, int64_t size) {
  int m = shape.rows, n = shape.columns, k = std::min(m, n), s = size, lwork = -1, info;
  int64_t wide = shape.rows * std::max(shape.columns, size);
  const Lapack<T>& call = lapack<T>();
  T first, second;
  call.geqrf(&m, &n, q, &m, q, &first, &lwork, &info);
  call.orgqr(&m, &s, &k, q, &m, q, &second, &lwork, &info);
  lwork = workspace(std::max(first, second));
  each_matrix(pool, shape.batch, wide, [&](int64_t i) {
    Scratch<T> packed(wide), tau(k), work(lwork);
    T* a = packed.data();
    transposed(x + i * m * n, m, n, a);
    int failed;
    call.geqrf(&m, &n, a, &m, tau.data(), work.data(), &lwork, &failed);
    upper_rows(a, m, size, n, r + i * size * n);
    call.orgqr(&m, &s, &k, a, &m, tau.data(), work.data(), &lwork, &failed);
    transposed(a, size, m, q + i * m * size);
  });
}

#define PULLBACK_FACTORS(T)                                                                  \
  template void cholesky<T>(Pool&, const T*, T*, Shape);                                     \
  template void lu<T>(Pool&, const T*, T*, int32_t*, Shape, bool);                           \
  template void lu_solve<T>(Pool&, const T*, const int32_t*, const T*, T*, Shape, int64_t,   \
                            char);                                                           \
  template void lu_inverse<T>(Pool&, const T*, const int32_t*, T*, Shape);                   \
  template void triangular_solve<T>(Pool&, const T*, const T*, T*, Shape, int64_t, Triangle); \
  template void qr<T>(Pool&, const T*, T*, T*, Shape, int64_t);
PULLBACK_FACTORS(float)
PULLBACK_FACTORS(double)

}  // namespace pullback
