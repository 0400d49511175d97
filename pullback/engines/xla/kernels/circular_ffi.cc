#include "circular.h"

#include "large_results.h"
#include "xla_pool.h"

namespace pullback {

using Array = ffi::Buffer<ffi::F64>;

template <void (*f)(Pool&, const double*, double*, int64_t)>
static ffi::Error for_elements(ffi::ThreadPool threads, Array x, ffi::Result<Array> y) {
  XlaPool pool(threads);
  expect_writes(y->untyped_data(), y->size_bytes());
  f(pool, x.typed_data(), y->typed_data(), x.element_count());
  return ffi::Error::Success();
}

static auto binding() {
  return ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<Array>().Ret<Array>();
}

}  // namespace pullback

XLA_FFI_DEFINE_HANDLER_SYMBOL(pullback_sine, pullback::for_elements<pullback::sine>,
                              pullback::binding());
XLA_FFI_DEFINE_HANDLER_SYMBOL(pullback_cosine, pullback::for_elements<pullback::cosine>,
                              pullback::binding());
