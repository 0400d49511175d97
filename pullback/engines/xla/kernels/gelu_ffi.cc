#include "gelu.h"

#include "row_calls.h"

using namespace pullback;

PULLBACK_ROW_KERNEL(gelu, if constexpr (std::is_same_v<T, float>)
                              gelu(call.pool, call.in<T>(0), call.out<T>(0), call.rows * call.n));

PULLBACK_ROW_KERNEL(gelu_gradient, if constexpr (std::is_same_v<T, float>)
                                       gelu_gradient(call.pool, call.in<T>(0), call.in<T>(1),
                                                     call.out<T>(0), call.rows * call.n));
