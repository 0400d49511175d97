// Factorizations of stacks of matrices, through LAPACK.
//
// LAPACK takes matrices by columns, so the memory of a matrix by rows for its transpose. Where that
// will do, nothing is moved. A matrix on which a routine fails has NaN in all its results.
#pragma once

#include "pool.h"

namespace pullback {

struct Shape {  // of a stack of matrices
  int64_t batch, rows, columns;
};

// The lower triangular factor of Hermitian matrices, of which the lower triangles are read.
template <class T> void cholesky(Pool& pool, const T* x, T* factor, Shape shape);

// The factors of a matrix with exchanged rows; or, with `by_columns`, of its transpose, transposed.
// Pivots count from 0.
template <class T>
void lu(Pool& pool, const T* x, T* factors, int32_t* pivots, Shape shape, bool by_columns);

// What solves systems with the matrix (`trans` is N), or its transpose (T), whose factors `lu` found
// with `by_columns`. There are `columns` right-hand sides.
template <class T>
void lu_solve(Pool& pool, const T* factors, const int32_t* pivots, const T* b, T* x, Shape shape,
              int64_t columns, char trans);

// The inverse of the matrix whose factors `lu` found with `by_columns`.
template <class T>
void lu_inverse(Pool& pool, const T* factors, const int32_t* pivots, T* inverse, Shape shape);

// Which part of a matrix a triangular system has, and whether its transpose.
struct Triangle {
  bool lower, transposed, unit_diagonal;
};

// What solves systems with a triangle of the matrix.
template <class T>
void triangular_solve(Pool& pool, const T* a, const T* b, T* x, Shape shape, int64_t columns,
                      Triangle part);

// The first `size` columns of the orthogonal factor, and as many rows of the triangular one.
template <class T> void qr(Pool& pool, const T* x, T* q, T* r, Shape shape, int64_t size);

// The eigenvalues of Hermitian matrices, of which the lower triangles are read, and the eigenvectors
// as columns unless `vectors` is null.
template <class T> void eigh(Pool& pool, const T* x, T* values, T* vectors, Shape shape);

// The singular values, and `left` left and `right` right singular vectors: columns of u, rows of vh.
// There are as many as values, or as rows and columns.
template <class T>
void svd(Pool& pool, const T* x, T* u, T* values, T* vh, Shape shape, int64_t left, int64_t right);

// The singular values.
template <class T> void singular_values(Pool& pool, const T* x, T* values, Shape shape);

}  // namespace pullback
