#include "sorting.h"

#include "large_results.h"
#include "xla_pool.h"

using namespace pullback;

// Call f with a null pointer of the C++ type of a dtype of 32 or 64 bits.
template <class F> static ffi::Error for_number(ffi::DataType dtype, F&& f) {
  switch (dtype) {
    case ffi::S32: return f(static_cast<int32_t*>(nullptr)), ffi::Error::Success();
    case ffi::S64: return f(static_cast<int64_t*>(nullptr)), ffi::Error::Success();
    case ffi::U32: return f(static_cast<uint32_t*>(nullptr)), ffi::Error::Success();
    case ffi::U64: return f(static_cast<uint64_t*>(nullptr)), ffi::Error::Success();
    default: return for_dtype(dtype, f);
  }
}

static Slices slices_of(ffi::AnyBuffer x, int64_t axis) {
  Slices found{1, x.dimensions()[axis], 1};
  for (int64_t i = 0; i < int64_t(x.dimensions().size()); i++)
    (i < axis ? found.outer : found.inner) *= i == axis ? 1 : x.dimensions()[i];
  return found;
}

// A result, if the call has so many.
template <class T> static T* result(ffi::RemainingRets results, size_t i) {
  if (i >= results.size()) return nullptr;
  auto y = *results.get<ffi::AnyBuffer>(i);
  expect_writes(y->untyped_data(), y->size_bytes());
  return y->typed_data<T>();
}

// The results are the elements and their indices, or with `only_indices` these alone.
static ffi::Error sort_handler(ffi::ThreadPool threads, ffi::AnyBuffer x,
                               ffi::RemainingRets results, int64_t axis, bool descending,
                               bool only_indices) {
  XlaPool pool(threads);
  return for_number(x.element_type(), [&](auto* t) {
    using T = std::remove_pointer_t<decltype(t)>;
    sort_slices<T>(pool, x.typed_data<T>(), only_indices ? nullptr : result<T>(results, 0),
                   result<int64_t>(results, only_indices ? 0 : 1), slices_of(x, axis), descending);
  });
}

static ffi::Error top_k_handler(ffi::ThreadPool threads, ffi::AnyBuffer x,
                                ffi::RemainingRets results, int64_t axis) {
  XlaPool pool(threads);
  int64_t count = (*results.get<ffi::AnyBuffer>(0))->dimensions()[axis];
  return for_number(x.element_type(), [&](auto* t) {
    using T = std::remove_pointer_t<decltype(t)>;
    top_of_slices<T>(pool, x.typed_data<T>(), result<T>(results, 0), result<int64_t>(results, 1),
                     slices_of(x, axis), count);
  });
}

static ffi::Error order_statistics_handler(ffi::ThreadPool threads, ffi::AnyBuffer x,
                                           ffi::RemainingRets results, int64_t axis,
                                           ffi::Span<const int64_t> ranks, bool only_indices) {
  XlaPool pool(threads);
  return for_number(x.element_type(), [&](auto* t) {
    using T = std::remove_pointer_t<decltype(t)>;
    order_statistics<T>(pool, x.typed_data<T>(), only_indices ? nullptr : result<T>(results, 0),
                        only_indices ? result<int64_t>(results, 0) : nullptr, slices_of(x, axis),
                        ranks.begin(), int64_t(ranks.size()));
  });
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(pullback_sort, sort_handler,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::AnyBuffer>()
                                  .RemainingRets()
                                  .Attr<int64_t>("axis")
                                  .Attr<bool>("descending")
                                  .Attr<bool>("only_indices"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(pullback_top_k, top_k_handler,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::AnyBuffer>()
                                  .RemainingRets()
                                  .Attr<int64_t>("axis"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(pullback_order_statistics, order_statistics_handler,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::AnyBuffer>()
                                  .RemainingRets()
                                  .Attr<int64_t>("axis")
                                  .Attr<ffi::Span<const int64_t>>("ranks")
                                  .Attr<bool>("only_indices"));
