#include "table_rows.h"

#include "large_results.h"
#include "xla_pool.h"

using namespace pullback;

// Call f with the indices as they are stored.
template <class F> static ffi::Error with_indices(ffi::AnyBuffer index, int64_t rows, F&& f) {
  int64_t count = index.element_count();
  if (index.element_type() == ffi::S32)
    return f(RowIndices<int32_t>{index.typed_data<int32_t>(), count, rows});
  if (index.element_type() == ffi::S64)
    return f(RowIndices<int64_t>{index.typed_data<int64_t>(), count, rows});
  return ffi::Error::InvalidArgument("indices of rows must be int32 or int64");
}

static ffi::Error take_rows_handler(ffi::ThreadPool threads, ffi::AnyBuffer table,
                                    ffi::AnyBuffer index, ffi::Result<ffi::AnyBuffer> out) {
  XlaPool pool(threads);
  int64_t rows = table.dimensions()[0], bytes = table.size_bytes() / rows;
  return with_indices(index, rows, [&](auto at) {
    take_rows(pool, at, static_cast<const char*>(table.untyped_data()),
              static_cast<char*>(out->untyped_data()), bytes);
    return ffi::Error::Success();
  });
}

// A third operand is the table to add to, in the memory of the result; else it starts from 0.
static ffi::Error add_rows_handler(ffi::ThreadPool threads, ffi::AnyBuffer updates,
                                   ffi::AnyBuffer index, ffi::RemainingArgs table,
                                   ffi::Result<ffi::AnyBuffer> out) {
  XlaPool pool(threads);
  int64_t rows = out->dimensions()[0], n = out->element_count() / rows;
  if (table.size() == 0) expect_writes(out->untyped_data(), out->size_bytes());
  return with_indices(index, rows, [&](auto at) {
    return for_dtype(updates.element_type(), [&](auto* t) {
      using T = std::remove_pointer_t<decltype(t)>;
      add_rows(pool, at, updates.typed_data<T>(), out->typed_data<T>(), n, table.size() == 0);
    });
  });
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(pullback_take_rows, take_rows_handler,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Ret<ffi::AnyBuffer>());

XLA_FFI_DEFINE_HANDLER_SYMBOL(pullback_add_rows, add_rows_handler,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .RemainingArgs()
                                  .Ret<ffi::AnyBuffer>());
