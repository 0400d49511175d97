#include "product.h"

#include <vector>

#include "xla_pool.h"

namespace pullback {

using Numbers = ffi::Span<const int64_t>;

// Operands: a, b, and up to kAddends others. sizes: rows, columns, depth. places: offset in a and
// distances along rows and depth, offset in b and distances along depth and columns, distance between
// rows of c, offsets in addends and distances between their rows. If the distance along depth is
// -1 in b, that is the result of pack_product. batch: for each dimension of it, its
// size and the distances along it in a, b, c and all possible addends.
static ffi::Error product(ffi::ThreadPool threads, ffi::RemainingArgs xs,
                          ffi::Result<ffi::AnyBuffer> c, Numbers sizes, Numbers places,
                          Numbers batch) {
  XlaPool pool(threads);
  std::vector<ProductLoop> loops;
  for (size_t i = 0; i < batch.size(); i += 4 + kAddends) {
    const int64_t* n = batch.begin() + i;
    loops.push_back({n[0], n[1], n[2], n[3], {n[4], n[5]}});
  }
  return for_dtype(c->element_type(), [&](auto* t) {
    using T = std::remove_pointer_t<decltype(t)>;
    const Numbers& n = places;
    auto data = [&](size_t i) { return xs.get<ffi::AnyBuffer>(i)->typed_data<T>(); };
    Product<T> p{sizes[0], sizes[1], sizes[2], data(0) + n[0], n[1], n[2], data(1) + n[3],
                 n[4],     n[5],     c->typed_data<T>(), n[6], {}, n[4] < 0};
    for (size_t i = 2; i < xs.size(); i++) p.addends[i - 2] = {data(i) + n[2 * i + 3], n[2 * i + 4]};
    multiply<T>(pool, p, loops.data(), int64_t(loops.size()));
  });
}

// Operand: b. sizes: columns, depth. places: offset in b, distances along depth and columns.
static ffi::Error pack_product(ffi::ThreadPool threads, ffi::AnyBuffer b,
                               ffi::Result<ffi::AnyBuffer> to, Numbers sizes, Numbers places) {
  XlaPool pool(threads);
  return for_dtype(b.element_type(), [&](auto* t) {
    using T = std::remove_pointer_t<decltype(t)>;
    Product<T> p{};
    p.columns = sizes[0], p.depth = sizes[1], p.b = b.typed_data<T>() + places[0];
    p.b_step = places[1], p.b_column = places[2];
    pack<T>(pool, p, to->typed_data<T>());
  });
}

}  // namespace pullback

XLA_FFI_DEFINE_HANDLER_SYMBOL(pullback_pack_product, pullback::pack_product,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::ThreadPool>()
                                  .Arg<xla::ffi::AnyBuffer>()
                                  .Ret<xla::ffi::AnyBuffer>()
                                  .Attr<xla::ffi::Span<const int64_t>>("sizes")
                                  .Attr<xla::ffi::Span<const int64_t>>("places"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(pullback_product, pullback::product,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::ThreadPool>()
                                  .RemainingArgs()
                                  .Ret<xla::ffi::AnyBuffer>()
                                  .Attr<xla::ffi::Span<const int64_t>>("sizes")
                                  .Attr<xla::ffi::Span<const int64_t>>("places")
                                  .Attr<xla::ffi::Span<const int64_t>>("batch"));
