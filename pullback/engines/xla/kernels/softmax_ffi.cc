#include "softmax.h"

#include "row_calls.h"

using namespace pullback;

PULLBACK_ROW_KERNEL(softmax, softmax_rows<T>(call.pool, call.in<T>(0), call.out<T>(0), call.rows,
                                             call.n));

PULLBACK_ROW_KERNEL(log_softmax, log_softmax_rows<T>(call.pool, call.in<T>(0), call.out<T>(0),
                                                     call.rows, call.n));

PULLBACK_ROW_KERNEL(logsumexp, logsumexp_rows<T>(call.pool, call.in<T>(0), call.out<T>(0),
                                                 call.rows, call.n));

PULLBACK_ROW_KERNEL(softmax_gradient,
                    softmax_gradient<T>(call.pool, call.in<T>(0), call.in<T>(1), call.out<T>(0),
                                        call.rows, call.n));

PULLBACK_ROW_KERNEL(log_softmax_gradient,
                    log_softmax_gradient<T>(call.pool, call.in<T>(0), call.in<T>(1),
                                            call.out<T>(0), call.rows, call.n));
