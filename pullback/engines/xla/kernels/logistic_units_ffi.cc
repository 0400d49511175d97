#include "logistic_units.h"

#include "row_calls.h"

using namespace pullback;

PULLBACK_ROW_KERNEL(silu, silu(call.pool, call.in<T>(0), call.out<T>(0), call.rows * call.n));

PULLBACK_ROW_KERNEL(silu_gradient, silu_gradient(call.pool, call.in<T>(0), call.in<T>(1),
                                                 call.out<T>(0), call.rows * call.n));

PULLBACK_ROW_KERNEL(gelu_tanh,
                    gelu_tanh(call.pool, call.in<T>(0), call.out<T>(0), call.rows * call.n));

PULLBACK_ROW_KERNEL(gelu_tanh_gradient,
                    gelu_tanh_gradient(call.pool, call.in<T>(0), call.in<T>(1), call.out<T>(0),
                                       call.rows * call.n));
