#pragma once

#include "pool.h"

namespace pullback {

// A table of `rows` rows, and `count` indices of rows. An index out of range is an error that was
// found elsewhere: nothing is added for it, and what is read is some other row.
template <class I> struct RowIndices {
  const I* index;
  int64_t count, rows;
};

// Copy the rows of a table that the indices select; rows have that many bytes.
template <class I>
void take_rows(Pool& pool, RowIndices<I> at, const char* table, char* out, int64_t bytes);

// Add updates to the rows of a table, in their order; rows have n elements. With `clear`, the table
// is set to 0 before.
template <class T, class I>
void add_rows(Pool& pool, RowIndices<I> at, const T* updates, T* table, int64_t n, bool clear);

}  // namespace pullback
