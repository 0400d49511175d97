#include "tanh_gelu.h"

#include "xla_pool.h"

using namespace pullback;

using Buffer = ffi::Buffer<ffi::F32>;

// Four numbers, each an operand.
static TanhGelu numbers_of(Buffer half, Buffer one, Buffer c, Buffer a) {
  return {*half.typed_data(), *one.typed_data(), *c.typed_data(), *a.typed_data()};
}

static ffi::Error tanh_gelu_handler(ffi::ThreadPool threads, Buffer x, Buffer half, Buffer one,
                                    Buffer c, Buffer a, ffi::Result<Buffer> y) {
  XlaPool pool(threads);
  tanh_gelu(pool, numbers_of(half, one, c, a), x.typed_data(), y->typed_data(), x.element_count());
  return ffi::Error::Success();
}

static ffi::Error tanh_gelu_gradient_handler(ffi::ThreadPool threads, Buffer g, Buffer x,
                                             Buffer half, Buffer one, Buffer c, Buffer a,
                                             ffi::Result<Buffer> dx) {
  XlaPool pool(threads);
  tanh_gelu_gradient(pool, numbers_of(half, one, c, a), g.typed_data(), x.typed_data(),
                     dx->typed_data(), x.element_count());
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(pullback_tanh_gelu, tanh_gelu_handler,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<Buffer>()
                                  .Arg<Buffer>()
                                  .Arg<Buffer>()
                                  .Arg<Buffer>()
                                  .Arg<Buffer>()
                                  .Ret<Buffer>());

XLA_FFI_DEFINE_HANDLER_SYMBOL(pullback_tanh_gelu_gradient, tanh_gelu_gradient_handler,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<Buffer>()
                                  .Arg<Buffer>()
                                  .Arg<Buffer>()
                                  .Arg<Buffer>()
                                  .Arg<Buffer>()
                                  .Arg<Buffer>()
                                  .Ret<Buffer>());
