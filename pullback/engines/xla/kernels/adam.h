#pragma once

#include "pool.h"

namespace pullback {

// The numbers of a step: see AdamStep.
template <class T> struct AdamNumbers {
  T length, correction, keep, take, keep_square, take_square, epsilon;
};

// One step of Adam in a single pass over memory. New values may take the place of the old ones.
template <class T>
void adam_step(Pool& pool, AdamNumbers<T> numbers, const T* p, const T* g, const T* mean,
               const T* square, T* new_p, T* new_mean, T* new_square, int64_t n);

}  // namespace pullback
