#include "gelu.h"

#include "xla_pool.h"

using namespace pullback;

static ffi::Error gelu_handler(ffi::ThreadPool threads, ffi::Buffer<ffi::F32> x,
                               ffi::Result<ffi::Buffer<ffi::F32>> y) {
  XlaPool pool(threads);
  gelu(pool, x.typed_data(), y->typed_data(), x.element_count());
  return ffi::Error::Success();
}

static ffi::Error gelu_gradient_handler(ffi::ThreadPool threads, ffi::Buffer<ffi::F32> g,
                                        ffi::Buffer<ffi::F32> x,
                                        ffi::Result<ffi::Buffer<ffi::F32>> dx) {
  XlaPool pool(threads);
  gelu_gradient(pool, g.typed_data(), x.typed_data(), dx->typed_data(), x.element_count());
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(pullback_gelu, gelu_handler,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>());

XLA_FFI_DEFINE_HANDLER_SYMBOL(pullback_gelu_gradient, gelu_gradient_handler,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>());
