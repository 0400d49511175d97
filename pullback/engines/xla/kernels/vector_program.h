// Programs of elementwise operations, run on pieces of arrays that stay in the nearest cache.
#pragma once

#include <cstdint>

#include "pool.h"

namespace pullback {

// The numbers are part of the interface: _CODES in loop_kernels.py has the same.
enum class VectorOp : int64_t {
  kAdd, kSubtract, kMultiply, kDivide, kMaximum, kMinimum, kNegate, kExponential, kLogistic, kTanh
};

// values[to] = op(values[x], values[y])
struct VectorStep {
  VectorOp op;
  int64_t to, x, y;
};

// Element [i, j] is at data + i * row + j * column, where `column` is 0 or 1. The next program will
// read what is `ahead` elements further, if that is not 0.
template <class T> struct VectorInput {
  const T* data;
  int64_t row, column, ahead;
};

// values[value] goes there: element [i, j] to data + i * row + j. If it is `far`, nothing reads it
// before the caches have been used for much else.
template <class T> struct VectorOutput {
  int64_t value;
  T* data;
  int64_t row;
  bool far;
};

// Arrays of rows x columns. Values are numbered: inputs, then constants, then what steps compute.
// An output may be where an input is, if each element has the same place in both.
template <class T> struct VectorProgram {
  int64_t rows, columns, values;
  const VectorInput<T>* inputs;
  int64_t input_count;
  const T* constants;
  int64_t constant_count;
  const VectorStep* steps;
  int64_t step_count;
  const VectorOutput<T>* outputs;
  int64_t output_count;
};

template <class T> void run(Pool& pool, const VectorProgram<T>& program);

}  // namespace pullback
