#include "lapack.h"

#include <cstring>

namespace pullback {
namespace {

Lapack<float> single_precision;
Lapack<double> double_precision;

}  // namespace

template <> const Lapack<float>& lapack() { return single_precision; }
template <> const Lapack<double>& lapack() { return double_precision; }

}  // namespace pullback

// Take the addresses of the routines for f32 and then those for f64, in the order of `Lapack`.
extern "C" __attribute__((visibility("default"))) void pullback_take_lapack(void* const* routines) {
  using namespace pullback;
  std::memcpy(&single_precision, routines, sizeof single_precision);
  std::memcpy(&double_precision, routines + sizeof single_precision / sizeof(void*),
              sizeof double_precision);
}
