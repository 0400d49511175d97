#include "convolution.h"
#include "xla_pool.h"

namespace pullback {

using Numbers = ffi::Span<const int64_t>;

// Images [batch, spatial..., channels] and a filter [taps..., channels of a group, outputs]. For
// each spatial dimension, `motion` has stride, low padding, and dilations of input and filter.
static ConvShape shape_of(const ffi::AnyBuffer& x, const ffi::AnyBuffer& w, const ffi::AnyBuffer& y,
                          Numbers motion, int64_t groups) {
  auto in = x.dimensions(), filter = w.dimensions(), out = y.dimensions();
  ConvShape c{in.front(), groups, in.back() / groups, out.back() / groups, {}};
  size_t rank = in.size() - 2;
  for (size_t i = 0; i < rank; i++) {
    const int64_t* m = motion.begin() + 4 * i;
    c.dims[3 - rank + i] = {in[i + 1], out[i + 1], filter[i], m[0], m[1], m[2], m[3]};
  }
  return c;
}

static ffi::Error convolution(ffi::ThreadPool threads, ffi::AnyBuffer x, ffi::AnyBuffer w,
                              ffi::Result<ffi::AnyBuffer> y, Numbers motion, int64_t groups) {
  XlaPool pool(threads);
  ConvShape c = shape_of(x, w, *y, motion, groups);
  return for_dtype(x.element_type(), [&](auto* t) {
    using T = std::remove_pointer_t<decltype(t)>;
    convolve<T>(pool, c, x.typed_data<T>(), w.typed_data<T>(), false, y->typed_data<T>());
  });
}

static ffi::Error convolution_input(ffi::ThreadPool threads, ffi::AnyBuffer g, ffi::AnyBuffer w,
                                    ffi::Result<ffi::AnyBuffer> x, Numbers motion,
                                    int64_t groups) {
  XlaPool pool(threads);
  ConvShape c = shape_of(*x, w, g, motion, groups).transposed();
  return for_dtype(g.element_type(), [&](auto* t) {
    using T = std::remove_pointer_t<decltype(t)>;
    convolve<T>(pool, c, g.typed_data<T>(), w.typed_data<T>(), true, x->typed_data<T>());
  });
}

static ffi::Error convolution_filter(ffi::ThreadPool threads, ffi::AnyBuffer x, ffi::AnyBuffer g,
                                     ffi::Result<ffi::AnyBuffer> w, Numbers motion,
                                     int64_t groups) {
  XlaPool pool(threads);
  ConvShape c = shape_of(x, *w, g, motion, groups);
  return for_dtype(x.element_type(), [&](auto* t) {
    using T = std::remove_pointer_t<decltype(t)>;
    convolve_filter<T>(pool, c, x.typed_data<T>(), g.typed_data<T>(), w->typed_data<T>());
  });
}

}  // namespace pullback

#define PULLBACK_CONVOLUTION(name)                                                       \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(pullback_##name, pullback::name,                         \
                                xla::ffi::Ffi::Bind()                                    \
                                    .Ctx<xla::ffi::ThreadPool>()                         \
                                    .Arg<xla::ffi::AnyBuffer>()                          \
                                    .Arg<xla::ffi::AnyBuffer>()                          \
                                    .Ret<xla::ffi::AnyBuffer>()                          \
                                    .Attr<xla::ffi::Span<const int64_t>>("motion")       \
                                    .Attr<int64_t>("groups"))
PULLBACK_CONVOLUTION(convolution);
PULLBACK_CONVOLUTION(convolution_input);
PULLBACK_CONVOLUTION(convolution_filter);
