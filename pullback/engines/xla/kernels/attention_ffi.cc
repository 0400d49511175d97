#include <cstring>

#include "attention.h"
#include "xla_pool.h"

namespace pullback {

using Numbers = ffi::Span<const int64_t>;

// A tensor from its memory and {offset, distances of batch, head, row, element}.
template <class T, class B> static Strided<T> strided(const B& x, Numbers n, size_t at = 0) {
  auto* data = static_cast<T*>(x.untyped_data()) + n[at];
  return {data, n[at + 1], n[at + 2], n[at + 3], n[at + 4]};
}

static double as_double(int64_t bits) {
  double x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

// Operands: q, k, v, then `more` others, then the bias, the mask, the fill and the number that
// queries are multiplied with or divided by, if there are any.
// numbers: batch, heads, shared, queries, keys, depth, width, lower, upper, zero_rows, scale (the
// bits of a double), whether there are a bias, a mask, a fill, such a number (2 if it divides), and
// a cotangent of the statistics.
// strides: five numbers for each of q, k, v, out, g, bias, mask.
template <class T>
static AttentionInput<T> attention_input(ffi::RemainingArgs xs, size_t more, Numbers n,
                                         Numbers strides) {
  auto given = [&](size_t i) { return *xs.get<ffi::AnyBuffer>(i); };
  AttentionInput<T> in;
  in.size = {n[0], n[1], n[2], n[3], n[4], n[5], n[6]};
  in.lower = n[7], in.upper = n[8], in.zero_rows = n[9];
  in.scale.scale = T(as_double(n[10])), in.scale.divides = n[14] == 2;
  in.q = strided<const T>(given(0), strides, 0);
  in.k = strided<const T>(given(1), strides, 5);
  in.v = strided<const T>(given(2), strides, 10);
  size_t next = 3 + more;
  if (n[11]) in.bias = strided<const T>(given(next++), strides, 25);
  if (n[12]) in.mask = strided<const uint8_t>(given(next++), strides, 30);
  auto number = [&] { return *static_cast<const T*>(given(next++).untyped_data()); };
  if (n[13]) in.fill = number();
  if (n[14]) in.scale.factor = number();
  return in;
}

static ffi::Error attention(ffi::ThreadPool threads, ffi::RemainingArgs xs,
                            ffi::Result<ffi::AnyBuffer> out, ffi::Result<ffi::AnyBuffer> sums,
                            ffi::Result<ffi::AnyBuffer> lost, Numbers numbers, Numbers strides, Numbers results) {
  XlaPool pool(threads);
  return for_dtype(out->element_type(), [&](auto* t) {
    using T = std::remove_pointer_t<decltype(t)>;
    attention_forward<T>(pool, attention_input<T>(xs, 0, numbers, strides),
                         strided<T>(*out, results),
                         AttentionStatistics<T>{sums->typed_data<T>(), lost->typed_data<T>()});
  });
}

static ffi::Error attention_gradient(ffi::ThreadPool threads, ffi::RemainingArgs xs,
                                     ffi::Result<ffi::AnyBuffer> dq, ffi::Result<ffi::AnyBuffer> dk,
                                     ffi::Result<ffi::AnyBuffer> dv, Numbers numbers,
                                     Numbers strides, Numbers results) {
  XlaPool pool(threads);
  return for_dtype(dq->element_type(), [&](auto* t) {
    using T = std::remove_pointer_t<decltype(t)>;
    auto given = [&](size_t i) { return *xs.get<ffi::AnyBuffer>(i); };
    size_t more = numbers[15] ? 5 : 4;
    AttentionCotangent<T> cotangent{
        strided<const T>(given(3), strides, 15), strided<const T>(given(4), strides, 20),
        {static_cast<const T*>(given(5).untyped_data()),
         static_cast<const T*>(given(6).untyped_data())},
        static_cast<const T*>(numbers[15] ? given(7).untyped_data() : nullptr)};
    attention_backward<T>(pool, attention_input<T>(xs, more, numbers, strides), cotangent,
                          strided<T>(*dq, results, 0), strided<T>(*dk, results, 5),
                          strided<T>(*dv, results, 10));
  });
}

}  // namespace pullback

XLA_FFI_DEFINE_HANDLER_SYMBOL(pullback_attention, pullback::attention,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::ThreadPool>()
                                  .RemainingArgs()
                                  .Ret<xla::ffi::AnyBuffer>()
                                  .Ret<xla::ffi::AnyBuffer>()
                                  .Ret<xla::ffi::AnyBuffer>()
                                  .Attr<pullback::Numbers>("numbers")
                                  .Attr<pullback::Numbers>("strides")
                                  .Attr<pullback::Numbers>("results"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(pullback_attention_gradient, pullback::attention_gradient,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::ThreadPool>()
                                  .RemainingArgs()
                                  .Ret<xla::ffi::AnyBuffer>()
                                  .Ret<xla::ffi::AnyBuffer>()
                                  .Ret<xla::ffi::AnyBuffer>()
                                  .Attr<pullback::Numbers>("numbers")
                                  .Attr<pullback::Numbers>("strides")
                                  .Attr<pullback::Numbers>("results"));
