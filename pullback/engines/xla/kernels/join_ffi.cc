#include "join.h"

#include <vector>

#include "xla_pool.h"

namespace pullback {

using Numbers = ffi::Span<const int64_t>;

// For each operand, `places` has the positions of its first element in it and in the result, and
// `dims` the number of its dimensions, and for each its size and the distances along it.
static ffi::Error join_all(ffi::ThreadPool threads, ffi::RemainingArgs xs,
                           ffi::Result<ffi::AnyBuffer> out, Numbers places, Numbers dims) {
  XlaPool pool(threads);
  const auto bytes = int64_t(out->size_bytes() / out->element_count());
  auto to = static_cast<char*>(out->untyped_data());
  const int64_t* next = dims.begin();
  for (size_t i = 0; i < xs.size(); i++) {
    std::vector<JoinDim> own(*next++);
    for (JoinDim& dim : own) dim = {next[0], next[1], next[2]}, next += 3;
    auto from = static_cast<const char*>(xs.get<ffi::AnyBuffer>(i)->untyped_data());
    join(pool, bytes, from + places[2 * i] * bytes, to + places[2 * i + 1] * bytes, own.data(),
         int64_t(own.size()));
  }
  return ffi::Error::Success();
}

}  // namespace pullback

XLA_FFI_DEFINE_HANDLER_SYMBOL(pullback_join, pullback::join_all,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::ThreadPool>()
                                  .RemainingArgs()
                                  .Ret<xla::ffi::AnyBuffer>()
                                  .Attr<xla::ffi::Span<const int64_t>>("places")
                                  .Attr<xla::ffi::Span<const int64_t>>("dims"));
