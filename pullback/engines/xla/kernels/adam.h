#pragma once

#include <vector>

#include "pool.h"

namespace pullback {

// The numbers of a step: see AdamStep.
template <class T> struct AdamNumbers {
  T length, correction, keep, take, keep_square, take_square, epsilon;
};

// A parameter, its gradient and its state, each of n elements. New values may take the place of the
// old ones.
template <class T> struct AdamArrays {
  const T *p, *g, *mean, *square;
  T *new_p, *new_mean, *new_square;
  int64_t n;
};

// One step of Adam for all arrays, in a single pass over memory.
template <class T>
void adam_step(Pool& pool, AdamNumbers<T> numbers, const std::vector<AdamArrays<T>>& all);

}  // namespace pullback
