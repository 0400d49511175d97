#include "adam.h"

#include "large_results.h"
#include "xla_pool.h"

namespace pullback {

// Operands p, g, mean and square of each parameter, and the `shared` numbers; results p, mean and
// square of each.
static ffi::Error step_all(ffi::ThreadPool threads, ffi::RemainingArgs operands,
                           ffi::RemainingRets results, int64_t shared) {
  XlaPool pool(threads);
  const size_t first_number = operands.size() - shared;
  return for_dtype(operands.get<ffi::AnyBuffer>(0)->element_type(), [&](auto* t) {
    using T = std::remove_pointer_t<decltype(t)>;
    auto in = [&](size_t i) { return operands.get<ffi::AnyBuffer>(i)->template typed_data<T>(); };
    auto out = [&](size_t i) {
      ffi::AnyBuffer y = **results.get<ffi::AnyBuffer>(i);
      expect_writes(y.untyped_data(), y.size_bytes());
      return y.template typed_data<T>();
    };
    auto number = [&](size_t i) { return *in(first_number + i); };
    std::vector<AdamArrays<T>> all;
    for (size_t i = 0, k = 0; i < first_number; i += 4, k += 3)
      all.push_back({in(i), in(i + 1), in(i + 2), in(i + 3), out(k), out(k + 1), out(k + 2),
                     int64_t(operands.get<ffi::AnyBuffer>(i)->element_count())});
    AdamNumbers<T> numbers{number(0), number(1), number(2), number(3),
                           number(4), number(5), number(6)};
    adam_step<T>(pool, numbers, all);
  });
}

}  // namespace pullback

XLA_FFI_DEFINE_HANDLER_SYMBOL(pullback_adam_step, pullback::step_all,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::ThreadPool>()
                                  .RemainingArgs()
                                  .RemainingRets()
                                  .Attr<int64_t>("shared"));
