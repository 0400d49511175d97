#include "matrices.h"

#include "row_calls.h"

using namespace pullback;

// The size of a dimension, counted from the last, which is 1.
static int64_t size_from_end(ffi::AnyBuffer x, size_t i) {
  return x.dimensions()[x.dimensions().size() - i];
}

// The stack of matrices that is operand 0.
static Shape stack(RowCall& call) {
  auto x = call.operand(0);
  return {call.rows, size_from_end(x, 2), size_from_end(x, 1)};
}

PULLBACK_ROW_KERNEL(cholesky, cholesky<T>(call.pool, call.in<T>(0), call.out<T>(0), stack(call)));

// The flag is `by_columns`.
PULLBACK_ROW_KERNEL(lu, lu<T>(call.pool, call.in<T>(0), call.out<T>(0), call.out<int32_t>(1),
                              stack(call), call.flags));

// The flag is the letter.
PULLBACK_ROW_KERNEL(lu_solve, lu_solve<T>(call.pool, call.in<T>(0), call.in<int32_t>(1),
                                          call.in<T>(2), call.out<T>(0), stack(call),
                                          size_from_end(call.operand(2), 1), char(call.flags)));

PULLBACK_ROW_KERNEL(lu_inverse, lu_inverse<T>(call.pool, call.in<T>(0), call.in<int32_t>(1),
                                              call.out<T>(0), stack(call)));

// The flags are those of `Triangle`.
PULLBACK_ROW_KERNEL(triangular_solve,
                    triangular_solve<T>(call.pool, call.in<T>(0), call.in<T>(1), call.out<T>(0),
                                        stack(call), size_from_end(call.operand(1), 1),
                                        {bool(call.flags & 1), bool(call.flags & 2),
                                         bool(call.flags & 4)}));

PULLBACK_ROW_KERNEL(qr, qr<T>(call.pool, call.in<T>(0), call.out<T>(0), call.out<T>(1),
                              stack(call), size_from_end(call.result(0), 1)));

PULLBACK_ROW_KERNEL(eigh, eigh<T>(call.pool, call.in<T>(0), call.out<T>(0), call.out<T>(1),
                                  stack(call)));

PULLBACK_ROW_KERNEL(svd, svd<T>(call.pool, call.in<T>(0), call.out<T>(0), call.out<T>(1),
                                call.out<T>(2), stack(call), size_from_end(call.result(0), 1),
                                size_from_end(call.result(2), 2)));

PULLBACK_ROW_KERNEL(singular_values,
                    singular_values<T>(call.pool, call.in<T>(0), call.out<T>(0), stack(call)));
