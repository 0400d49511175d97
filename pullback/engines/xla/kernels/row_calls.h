// Calls of kernels that work on rows; only files that declare handlers include this.
#pragma once

#include "large_results.h"
#include "xla_pool.h"

namespace pullback {

// Operands and results of a call. The last `dims` dimensions of operand 0 make up a row.
struct RowCall {
  XlaPool pool;
  ffi::RemainingArgs operands;
  ffi::RemainingRets results;
  int64_t flags, rows = 0, n = 1;

  RowCall(ffi::ThreadPool threads, ffi::RemainingArgs xs, ffi::RemainingRets ys, int64_t dims,
          int64_t bits)
      : pool(threads), operands(xs), results(ys), flags(bits) {
    auto x = operand(0);
    auto shape = x.dimensions();
    for (size_t i = shape.size() - dims; i < shape.size(); i++) n *= shape[i];
    rows = x.element_count() / n;
    for (size_t i = 0; i < results.size(); i++) {
      auto y = *results.get<ffi::AnyBuffer>(i);
      expect_writes(y->untyped_data(), y->size_bytes());
    }
  }

  ffi::AnyBuffer operand(size_t i) { return *operands.get<ffi::AnyBuffer>(i); }
  ffi::AnyBuffer result(size_t i) { return **results.get<ffi::AnyBuffer>(i); }
  // Null for operands and results that the call does not have.
  template <class T> const T* in(size_t i) {
    return i < operands.size() ? operand(i).typed_data<T>() : nullptr;
  }
  template <class T> T* out(size_t i) {
    return i < results.size() ? (*results.get<ffi::AnyBuffer>(i))->typed_data<T>() : nullptr;
  }
};

// Define the handler pullback_NAME. The rest is a statement about `call`, whose operand 0 has the
// dtype T.
#define PULLBACK_ROW_KERNEL(NAME, ...)                                                        \
  static ::xla::ffi::Error NAME##_handler(::xla::ffi::ThreadPool threads,                     \
                                          ::xla::ffi::RemainingArgs operands,                 \
                                          ::xla::ffi::RemainingRets results, int64_t dims,    \
                                          int64_t flags) {                                    \
    ::pullback::RowCall call(threads, operands, results, dims, flags);                        \
    return ::pullback::for_dtype(call.operand(0).element_type(), [&](auto* t) {               \
      using T = std::remove_pointer_t<decltype(t)>;                                           \
      __VA_ARGS__;                                                                            \
    });                                                                                       \
  }                                                                                           \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(pullback_##NAME, NAME##_handler,                              \
                                ::xla::ffi::Ffi::Bind()                                       \
                                    .Ctx<::xla::ffi::ThreadPool>()                            \
                                    .RemainingArgs()                                          \
                                    .RemainingRets()                                          \
                                    .Attr<int64_t>("dims")                                    \
                                    .Attr<int64_t>("flags"))

}  // namespace pullback
