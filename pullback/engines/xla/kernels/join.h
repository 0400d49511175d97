// Arrays that are anywhere in memory, copied into parts of one array.
#pragma once

#include <cstdint>

#include "pool.h"

namespace pullback {

// A dimension: its size, and the distances along it in an operand and in the result.
struct JoinDim {
  int64_t size, from, to;
};

// Copy the elements of an operand, of `bytes` each. There is at least one dimension.
void join(Pool& pool, int64_t bytes, const char* from, char* to, const JoinDim* dims, int64_t rank);

}  // namespace pullback
