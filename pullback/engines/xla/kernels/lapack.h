// Routines of LAPACK, and one of BLAS, for matrices by columns, which the library is given when it is loaded.
#pragma once

#include <cstdint>

namespace pullback {

template <class T> struct Lapack {
  void (*potrf)(const char* uplo, const int* n, T* a, const int* lda, int* info);
  void (*getrf)(const int* m, const int* n, T* a, const int* lda, int* pivots, int* info);
  void (*getrs)(const char* trans, const int* n, const int* columns, const T* a, const int* lda,
                const int* pivots, T* b, const int* ldb, int* info);
  void (*getri)(const int* n, T* a, const int* lda, const int* pivots, T* work, const int* lwork,
                int* info);
  void (*geqrf)(const int* m, const int* n, T* a, const int* lda, T* tau, T* work,
                const int* lwork, int* info);
  void (*orgqr)(const int* m, const int* n, const int* k, T* a, const int* lda, const T* tau,
                T* work, const int* lwork, int* info);
  void (*syevd)(const char* jobz, const char* uplo, const int* n, T* a, const int* lda, T* values,
                T* work, const int* lwork, int* iwork, const int* liwork, int* info);
  void (*gesdd)(const char* jobz, const int* m, const int* n, T* a, const int* lda, T* s, T* u,
                const int* ldu, T* vt, const int* ldvt, T* work, const int* lwork, int* iwork,
                int* info);
  void (*trsm)(const char* side, const char* uplo, const char* trans, const char* diag,
               const int* m, const int* n, const T* alpha, const T* a, const int* lda, T* b,
               const int* ldb);
};

template <class T> const Lapack<T>& lapack();

}  // namespace pullback
