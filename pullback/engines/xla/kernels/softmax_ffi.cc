#include "softmax.h"
#include "xla_pool.h"

namespace pullback {

static ffi::Error softmax(ffi::ThreadPool threads, ffi::AnyBuffer x,
                          ffi::Result<ffi::AnyBuffer> y) {
  XlaPool pool(threads);
  int64_t n = x.dimensions().back();
  return for_dtype(x.element_type(), [&](auto* t) {
    using T = std::remove_pointer_t<decltype(t)>;
    softmax_rows<T>(pool, x.typed_data<T>(), y->typed_data<T>(), x.element_count() / n, n);
  });
}

}  // namespace pullback

XLA_FFI_DEFINE_HANDLER_SYMBOL(pullback_softmax, pullback::softmax,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::ThreadPool>()
                                  .Arg<xla::ffi::AnyBuffer>()
                                  .Ret<xla::ffi::AnyBuffer>());
