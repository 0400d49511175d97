#include "layer_norm.h"

#include "row_calls.h"

using namespace pullback;

// Flags say which operands and results there are, beside whether rows are centered.
constexpr int64_t kCenter = 1, kScale = 2, kShift = 4;

// Operands x, epsilon, count, and scale and shift where the flags say so.
PULLBACK_ROW_KERNEL(layer_norm, {
  bool scale = call.flags & kScale;
  RowNorm<T> norm{call.in<T>(0),
                  scale ? call.in<T>(3) : nullptr,
                  call.flags & kShift ? call.in<T>(scale ? 4 : 3) : nullptr,
                  *call.in<T>(1),
                  *call.in<T>(2),
                  bool(call.flags & kCenter),
                  call.rows,
                  call.n};
  norm_rows<T>(call.pool, norm, call.out<T>(0), call.out<T>(1), call.out<T>(2));
});

// Operands x, g, mean, rstd, count and scale; results dx, dscale and dshift.
PULLBACK_ROW_KERNEL(layer_norm_gradient, {
  bool scale = call.flags & kScale;
  RowNorm<T> norm{call.in<T>(0),
                  scale ? call.in<T>(5) : nullptr,
                  nullptr,
                  T(0),
                  *call.in<T>(4),
                  bool(call.flags & kCenter),
                  call.rows,
                  call.n};
  norm_gradient<T>(call.pool, norm, call.in<T>(1), call.in<T>(2), call.in<T>(3), call.out<T>(0),
                   scale ? call.out<T>(1) : nullptr,
                   call.flags & kShift ? call.out<T>(scale ? 2 : 1) : nullptr);
});
