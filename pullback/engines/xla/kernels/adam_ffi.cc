#include "adam.h"

#include "row_calls.h"

using namespace pullback;

// Operands p, g, mean, square and the numbers; results p, mean and square. All are one row.
PULLBACK_ROW_KERNEL(adam_step, {
  auto number = [&](size_t i) { return *call.in<T>(4 + i); };
  AdamNumbers<T> numbers{number(0), number(1), number(2), number(3),
                         number(4), number(5), number(6)};
  adam_step<T>(call.pool, numbers, call.in<T>(0), call.in<T>(1), call.in<T>(2), call.in<T>(3),
               call.out<T>(0), call.out<T>(1), call.out<T>(2), call.rows * call.n);
});
