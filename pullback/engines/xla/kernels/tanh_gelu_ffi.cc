#include "tanh_gelu.h"

#include "row_calls.h"

using namespace pullback;

// Four numbers, each an operand.
static TanhGelu numbers_of(RowCall& call, size_t i) {
  auto number = [&](size_t k) { return *call.in<float>(i + k); };
  return {number(0), number(1), number(2), number(3)};
}

PULLBACK_ROW_KERNEL(tanh_gelu, if constexpr (std::is_same_v<T, float>)
                                   tanh_gelu(call.pool, numbers_of(call, 1), call.in<T>(0),
                                             call.out<T>(0), call.rows * call.n));

PULLBACK_ROW_KERNEL(tanh_gelu_gradient, if constexpr (std::is_same_v<T, float>)
                                            tanh_gelu_gradient(call.pool, numbers_of(call, 2),
                                                               call.in<T>(0), call.in<T>(1),
                                                               call.out<T>(0), call.rows * call.n));
