// Rows that a loop reads and writes, one of each stack in an iteration.
#include <cstring>

#include "xla_pool.h"

namespace pullback {

static int64_t iteration(ffi::RemainingArgs operands) {
  auto at = *operands.get<ffi::AnyBuffer>(0);
  if (at.element_type() == ffi::S32) return *at.typed_data<int32_t>();
  return *at.typed_data<int64_t>();
}

// Operands are the iteration and the stacks; results are copies of their rows. A row of a stack is
// read in one place, so that the loops that XLA makes of its users are over plain arrays.
static ffi::Error read_rows(ffi::RemainingArgs operands, ffi::RemainingRets rows) {
  int64_t at = iteration(operands);
  for (size_t i = 0; i < rows.size(); i++) {
    auto row = *rows.get<ffi::AnyBuffer>(i);
    auto stack = static_cast<const char*>(operands.get<ffi::AnyBuffer>(1 + i)->untyped_data());
    std::memcpy(row->untyped_data(), stack + at * row->size_bytes(), row->size_bytes());
  }
  return ffi::Error::Success();
}

// Operands are the iteration, the rows and the stacks; results take the memory of the stacks.
static ffi::Error write_rows(ffi::RemainingArgs operands, ffi::RemainingRets stacks) {
  int64_t at = iteration(operands);
  for (size_t i = 0; i < stacks.size(); i++) {
    auto row = *operands.get<ffi::AnyBuffer>(1 + i);
    auto stack = static_cast<char*>((*stacks.get<ffi::AnyBuffer>(i))->untyped_data());
    std::memcpy(stack + at * row.size_bytes(), row.untyped_data(), row.size_bytes());
  }
  return ffi::Error::Success();
}

// Memory that the program writes before it reads it. The number keeps XLA from merging two calls.
static ffi::Error unwritten(ffi::RemainingRets, int64_t) { return ffi::Error::Success(); }

}  // namespace pullback

XLA_FFI_DEFINE_HANDLER_SYMBOL(pullback_read_rows, pullback::read_rows,
                              xla::ffi::Ffi::Bind().RemainingArgs().RemainingRets());
XLA_FFI_DEFINE_HANDLER_SYMBOL(pullback_write_rows, pullback::write_rows,
                              xla::ffi::Ffi::Bind().RemainingArgs().RemainingRets());
XLA_FFI_DEFINE_HANDLER_SYMBOL(pullback_unwritten, pullback::unwritten,
                              xla::ffi::Ffi::Bind().RemainingRets().Attr<int64_t>("number"));
