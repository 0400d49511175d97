#include "softmax.h"

#include "row_calls.h"

using namespace pullback;

constexpr int64_t kBare = 1;  // the flag

PULLBACK_ROW_KERNEL(softmax, softmax_rows<T>(call.pool, call.in<T>(0), call.out<T>(0), call.rows,
                                             call.n, call.flags & kBare));

PULLBACK_ROW_KERNEL(log_softmax, log_softmax_rows<T>(call.pool, call.in<T>(0), call.out<T>(0),
                                                     call.rows, call.n, call.flags & kBare));

PULLBACK_ROW_KERNEL(logsumexp,
                    logsumexp_rows<T>(call.pool, call.in<T>(0), call.out<T>(0), call.out<T>(1),
                                      call.out<T>(2), call.rows, call.n, call.flags & kBare));

PULLBACK_ROW_KERNEL(logsumexp_gradient,
                    logsumexp_gradient<T>(call.pool, call.in<T>(0), call.in<T>(1), call.in<T>(2),
                                          call.in<T>(3), call.out<T>(0), call.rows, call.n));

PULLBACK_ROW_KERNEL(softmax_gradient,
                    softmax_gradient<T>(call.pool, call.in<T>(0), call.in<T>(1), call.out<T>(0),
                                        call.rows, call.n));

PULLBACK_ROW_KERNEL(log_softmax_gradient,
                    log_softmax_gradient<T>(call.pool, call.in<T>(0), call.in<T>(1),
                                            call.out<T>(0), call.rows, call.n));
