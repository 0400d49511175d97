#include "gelu_formulas.h"

#include "row_calls.h"

using namespace pullback;

// The numbers of a formula: operands from the given one on.
static TanhGelu tanh_numbers(RowCall& call, size_t i) {
  auto number = [&](size_t k) { return *call.in<float>(i + k); };
  return {number(0), number(1), number(2), number(3)};
}

static ErfGelu erf_numbers(RowCall& call, size_t i) {
  auto number = [&](size_t k) { return *call.in<float>(i + k); };
  return {number(0), number(1), number(2)};
}

// Define handlers for a formula and its gradient, in f32.
#define PULLBACK_GELU(NAME, NUMBERS)                                                            \
  PULLBACK_ROW_KERNEL(NAME, if constexpr (std::is_same_v<T, float>)                             \
                                NAME(call.pool, NUMBERS(call, 1), call.in<T>(0), call.out<T>(0), \
                                     call.rows * call.n));                                      \
  PULLBACK_ROW_KERNEL(NAME##_gradient, if constexpr (std::is_same_v<T, float>)                  \
                                           NAME##_gradient(call.pool, NUMBERS(call, 2),         \
                                                           call.in<T>(0), call.in<T>(1),        \
                                                           call.out<T>(0), call.rows * call.n))

PULLBACK_GELU(tanh_gelu, tanh_numbers);
PULLBACK_GELU(erf_gelu, erf_numbers);
