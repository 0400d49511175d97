#include "product.h"

#include <vector>

#include "xla_pool.h"

namespace pullback {

using Numbers = ffi::Span<const int64_t>;

// sizes: rows, columns, depth. places: offset in a and distances along rows and depth, offset in b
// and distances along depth and columns, distance between rows of c. batch: for each dimension of it,
// its size and the distances along it in a, b and c.
static ffi::Error product(ffi::ThreadPool threads, ffi::AnyBuffer a, ffi::AnyBuffer b,
                          ffi::Result<ffi::AnyBuffer> c, Numbers sizes, Numbers places,
                          Numbers batch) {
  XlaPool pool(threads);
  std::vector<ProductLoop> loops;
  for (size_t i = 0; i < batch.size(); i += 4)
    loops.push_back({batch[i], batch[i + 1], batch[i + 2], batch[i + 3]});
  return for_dtype(c->element_type(), [&](auto* t) {
    using T = std::remove_pointer_t<decltype(t)>;
    const Numbers& n = places;
    multiply<T>(pool,
                {sizes[0], sizes[1], sizes[2], a.typed_data<T>() + n[0], n[1], n[2],
                 b.typed_data<T>() + n[3], n[4], n[5], c->typed_data<T>(), n[6]},
                loops.data(), int64_t(loops.size()));
  });
}

}  // namespace pullback

XLA_FFI_DEFINE_HANDLER_SYMBOL(pullback_product, pullback::product,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::ThreadPool>()
                                  .Arg<xla::ffi::AnyBuffer>()
                                  .Arg<xla::ffi::AnyBuffer>()
                                  .Ret<xla::ffi::AnyBuffer>()
                                  .Attr<xla::ffi::Span<const int64_t>>("sizes")
                                  .Attr<xla::ffi::Span<const int64_t>>("places")
                                  .Attr<xla::ffi::Span<const int64_t>>("batch"));
