#include "vector_program.h"

#include <cstring>
#include <vector>

#include "xla_pool.h"

namespace pullback {

using Numbers = ffi::Span<const int64_t>;

// The elements before a row of a stack; `iteration` is the operand that says which row, or -1.
static int64_t row_start(ffi::RemainingArgs xs, int64_t iteration, int64_t size) {
  if (iteration < 0) return 0;
  auto at = *xs.get<ffi::AnyBuffer>(iteration);
  if (at.element_type() == ffi::S32) return *at.typed_data<int32_t>() * size;
  return *at.typed_data<int64_t>() * size;
}

constexpr size_t kCached = 8 << 20;  // bytes of stacks that may be in the caches when they are read

// sizes: rows, columns, values. inputs: for each, its operand, the operand with the iteration or
// -1, elements of a stack's row, offset, distances along rows, columns and to the next row of the
// stack. constants: bits of f64. steps: op, to, x, y. outputs: value, result, iteration, elements of
// a stack's row, offset, distance along rows.
static ffi::Error vector_program(ffi::ThreadPool threads, ffi::RemainingArgs xs,
                                 ffi::RemainingRets ys, Numbers sizes, Numbers inputs,
                                 Numbers constants, Numbers steps, Numbers outputs) {
  XlaPool pool(threads);
  return for_dtype((*ys.get<ffi::AnyBuffer>(0))->element_type(), [&](auto* t) {
    using T = std::remove_pointer_t<decltype(t)>;
    std::vector<VectorInput<T>> from;
    for (const int64_t* n = inputs.begin(); n != inputs.end(); n += 7) {
      const T* data = xs.get<ffi::AnyBuffer>(n[0])->typed_data<T>();
      from.push_back({data + row_start(xs, n[1], n[2]) + n[3], n[4], n[5], n[6]});
    }
    size_t written = 0;
    for (const int64_t* n = outputs.begin(); n != outputs.end(); n += 6)
      if (n[2] >= 0) written += (*ys.get<ffi::AnyBuffer>(n[1]))->size_bytes();
    std::vector<VectorOutput<T>> to;
    for (const int64_t* n = outputs.begin(); n != outputs.end(); n += 6) {
      T* data = (*ys.get<ffi::AnyBuffer>(n[1]))->typed_data<T>();
      to.push_back({n[0], data + row_start(xs, n[2], n[3]) + n[4], n[5],
                    n[2] >= 0 && written > kCached});
    }
    std::vector<T> numbers;
    for (int64_t bits : constants) {
      double x;
      std::memcpy(&x, &bits, sizeof x);
      numbers.push_back(T(x));
    }
    std::vector<VectorStep> code;
    for (const int64_t* n = steps.begin(); n != steps.end(); n += 4)
      code.push_back({VectorOp(n[0]), n[1], n[2], n[3]});
    run<T>(pool, {sizes[0], sizes[1], sizes[2], from.data(), int64_t(from.size()), numbers.data(),
                  int64_t(numbers.size()), code.data(), int64_t(code.size()), to.data(),
                  int64_t(to.size())});
  });
}

}  // namespace pullback

XLA_FFI_DEFINE_HANDLER_SYMBOL(pullback_vector_program, pullback::vector_program,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::ThreadPool>()
                                  .RemainingArgs()
                                  .RemainingRets()
                                  .Attr<xla::ffi::Span<const int64_t>>("sizes")
                                  .Attr<xla::ffi::Span<const int64_t>>("inputs")
                                  .Attr<xla::ffi::Span<const int64_t>>("constants")
                                  .Attr<xla::ffi::Span<const int64_t>>("steps")
                                  .Attr<xla::ffi::Span<const int64_t>>("outputs"));
