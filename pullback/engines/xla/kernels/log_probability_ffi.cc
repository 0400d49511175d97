#include "log_probability.h"

#include "row_calls.h"

using namespace pullback;

// Call f with a null pointer of the type of the labels, i32 or i64.
template <class F> static void for_labels(RowCall& call, F&& f) {
  if (call.operand(1).element_type() == ffi::S32)
    f(static_cast<int32_t*>(nullptr));
  else
    f(static_cast<int64_t*>(nullptr));
}

PULLBACK_ROW_KERNEL(log_probability, for_labels(call, [&](auto* label) {
                      using I = std::remove_pointer_t<decltype(label)>;
                      log_probability<T, I>(call.pool, call.in<T>(0), call.in<I>(1),
                                            call.out<T>(0), call.out<T>(1), call.out<T>(2),
                                            call.rows, call.n);
                    }));

PULLBACK_ROW_KERNEL(log_probability_gradient, for_labels(call, [&](auto* label) {
                      using I = std::remove_pointer_t<decltype(label)>;
                      log_probability_gradient<T, I>(
                          call.pool, call.in<T>(0), call.in<I>(1), call.in<T>(2), call.in<T>(3),
                          call.in<T>(4), call.out<T>(0), call.rows, call.n);
                    }));
