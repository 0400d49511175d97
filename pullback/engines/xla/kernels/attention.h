// Attention without a matrix of all weights, and its gradient.
#pragma once

#include <limits>

#include "pool.h"

namespace pullback {

// A tensor of four dimensions anywhere in memory: [batch, head, row, element].
template <class T> struct Strided {
  T* data = nullptr;
  int64_t batch = 0, head = 0, row = 0, element = 0;  // distances, in elements

  T* at(int64_t b, int64_t h, int64_t i) const {
    return data + b * batch + h * head + i * row;
  }
};

// What queries are multiplied with: a scale, and a number that they may be divided by instead.
template <class T> struct QueryScale {
  T scale = 1, factor = 1;
  bool divides = false;

  template <class X> X operator()(X x) const {
    return (divides ? x / factor : x * factor) * scale;
  }
};

struct AttentionSizes {
  int64_t batch, heads, shared;  // `heads` of queries, `shared` ones of keys and values
  int64_t queries, keys, depth, width;  // `depth` of queries and keys, `width` of values
};

template <class T> struct AttentionInput {
  AttentionSizes size;
  Strided<const T> q, k, v;
  Strided<const T> bias;  // added to the scores; data may be null
  Strided<const uint8_t> mask;  // 0 where a key is not seen; data may be null
  QueryScale<T> scale;
  T fill = -std::numeric_limits<T>::infinity();  // the score of a key that is not seen
  int64_t lower, upper;  // query i sees key j if lower <= j - i <= upper
  bool zero_rows;  // a row whose scores are all -infinity gives 0, not NaN
};

// Numbers of each query: the logarithm of the sum of exponentials, and what rounding took from it.
template <class T> struct AttentionStatistics {
  T *sums, *lost;
};

template <class T>
void attention_forward(Pool& pool, const AttentionInput<T>& in, Strided<T> out,
                       AttentionStatistics<T> statistics);

template <class T> struct AttentionCotangent {
  Strided<const T> out, g;
  AttentionStatistics<const T> statistics;
  const T* statistics_g;  // may be null
};

template <class T>
void attention_backward(Pool& pool, const AttentionInput<T>& in, const AttentionCotangent<T>& given,
                        Strided<T> dq, Strided<T> dk, Strided<T> dv);

}  // namespace pullback
