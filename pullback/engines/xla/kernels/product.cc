#include "product.h"

#include <algorithm>
#include <vector>

#include "product_pack.h"
#include "product_tile.h"
#include "scratch.h"

namespace pullback {

// A task computes a block of the results of one product, or of several. It packs its own parts of a
// and b into panels of kTileRows rows and of kTileColumns columns, although other tasks pack some of
// them too: memory that several threads have read is slow to write again. A panel of a stays in the
// nearest cache while it meets those of b, which stay in the next one.

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

struct Part {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};

static Part part(Part all, int64_t i, int64_t count) {
  return {all.begin + all.size() * i / count, all.begin + all.size() * (i + 1) / count};
}

// What is summed up in registers, before it is added to the results.
template <class T> class Depths {
 public:
  explicit Depths(int64_t depth) : depth_(depth) {
    constexpr int64_t L = kLanes<T>, kMost = 1536 / sizeof(T);
    size_ = std::max<int64_t>(1, ceil_div(depth, ceil_div(std::max<int64_t>(depth, 1), kMost)));
    size_ = ceil_div(size_, L) * L;
  }
  int64_t count() const { return ceil_div(depth_, size_); }
  int64_t most() const { return std::min(size_, depth_); }
  Part operator[](int64_t i) const { return {i * size_, std::min((i + 1) * size_, depth_)}; }

 private:
  int64_t depth_, size_;
};

// The panels of columns [begin, end) of b, which are side by side for a part of the depth.
template <class T> class Panels {
 public:
  explicit Panels(Part columns) : columns_(columns) {}
  int64_t count() const { return ceil_div(columns_.size(), kTileColumns<T>); }
  int64_t padded() const { return ceil_div(columns_.size(), kLanes<T>) * kLanes<T>; }
  int64_t begin(int64_t i) const { return columns_.begin + i * kTileColumns<T>; }
  int64_t size(int64_t i) const { return std::min<int64_t>(kTileColumns<T>, columns_.end - begin(i)); }
  int64_t vectors(int64_t i) const { return ceil_div(size(i), kLanes<T>); }
  int64_t wide(int64_t i) const { return vectors(i) * kLanes<T>; }
  int64_t offset(int64_t i, int64_t depth) const { return i * kTileColumns<T> * depth; }

 private:
  Part columns_;
};

template <class T>
static void pack_b(const Product<T>& p, const Panels<T>& panels, Part depth, T* to) {
  constexpr int64_t kSteps = 64;  // packed at a time, so that rows of memory are read along
  for (int64_t l = depth.begin; l < depth.end; l += kSteps)
    for (int64_t i = 0; i < panels.count(); i++)
      pack_panel(p.b + l * p.b_step + panels.begin(i) * p.b_column, p.b_column, p.b_step,
                 panels.size(i), std::min(kSteps, depth.end - l),
                 to + panels.offset(i, depth.size()) + (l - depth.begin) * panels.wide(i),
                 panels.wide(i));
}

// Tiles of about the same number of rows.
struct RowTiles {
  Part rows;

  int64_t count() const { return ceil_div(rows.size(), kTileRows); }
  Part operator[](int64_t i) const { return part(rows, i, count()); }
};

// [depth][rows] for one tile after the other
template <class T>
static void pack_a(const Product<T>& p, const RowTiles& tiles, Part depth, T* to) {
  for (int64_t i = 0; i < tiles.count(); i++) {
    const Part rows = tiles[i];
    pack_panel(p.a + rows.begin * p.a_row + depth.begin * p.a_step, p.a_row, p.a_step, rows.size(),
               depth.size(), to + (rows.begin - tiles.rows.begin) * depth.size(), rows.size());
  }
}

template <class T> static void sum_addends(const Product<T>& p, Part rows, Part columns) {
  for (int64_t i = rows.begin; i < rows.end; i++)
    for (int64_t j = columns.begin; j < columns.end; j++) {
      T sum = 0;
      for (const Addend<T>& x : p.addends)
        if (x.data) sum += x.data[i * x.row + j];
      p.c[i * p.c_row + j] = sum;
    }
}

// Rows of the result for a part of the depth, from packed b, or from b itself where `packed` is null.
template <class T>
static void multiply_rows(const Product<T>& p, const T* packed, const Panels<T>& panels, Part depth,
                          Part rows, T* a) {
  const RowTiles tiles{rows};
  const bool first = depth.begin == 0, last = depth.end == p.depth;
  pack_a(p, tiles, depth, a);
  for (int64_t i = 0; i < tiles.count(); i++) {
    const Part tile = tiles[i];
    const T* x = a + (tile.begin - rows.begin) * depth.size();
    for (int64_t j = 0; j < panels.count(); j++) {
      const int64_t column = panels.begin(j);
      const bool in_place = packed == nullptr;
      const T* b = in_place ? p.b + depth.begin * p.b_step + column
                            : packed + panels.offset(j, depth.size());
      TileResult<T> out{p.c + tile.begin * p.c_row + column, p.c_row, panels.size(j), !first, {}};
      if (last) out.add_addends(p.addends, tile.begin, column);
      product_tile_of<T>(tile.size(), panels.vectors(j))(x, b, in_place ? p.b_step : panels.wide(j),
                                                         depth.size(), out);
    }
  }
}

// The products of a batch.
template <class T> class Batch {
 public:
  Batch(const Product<T>& first, const ProductLoop* loops, int64_t rank)
      : first_(first), loops_(loops), rank_(rank) {
    for (int64_t i = 0; i < rank; i++) count_ *= loops[i].size, one_b_ &= loops[i].b == 0;
  }
  int64_t count() const { return count_; }
  bool one_b() const { return one_b_; }  // whether all products have the same b

  Product<T> operator[](int64_t index) const {
    Product<T> p = first_;
    for (int64_t i = rank_ - 1; i >= 0; i--) {
      const ProductLoop& loop = loops_[i];
      const int64_t at = index % loop.size;
      index /= loop.size;
      p.a += at * loop.a, p.b += at * loop.b, p.c += at * loop.c;
      for (int k = 0; k < kAddends; k++) p.addends[k] = p.addends[k].at(at * loop.addends[k]);
    }
    return p;
  }

 private:
  const Product<T>& first_;
  const ProductLoop* loops_;
  int64_t rank_, count_ = 1;
  bool one_b_ = true;
};

// Whether tiles read b where it is: its rows are vectors, and few tiles read each of them.
template <class T> static bool is_read_in_place(const Product<T>& p, int64_t rows) {
  return p.b_column == 1 && p.columns % kLanes<T> == 0 && rows <= 3 * kTileRows;
}

// A block of the results of products that have the same b.
template <class T>
static void multiply_block(const Batch<T>& batch, Part products, Part rows, Part columns) {
  constexpr int64_t kRows = 98;  // of a that are packed at a time
  const Product<T> first = batch[products.begin];
  if (first.depth == 0) {
    for (int64_t i = products.begin; i < products.end; i++) sum_addends(batch[i], rows, columns);
    return;
  }
  const Depths<T> depths(first.depth);
  const Panels<T> panels(columns);
  const bool in_place = is_read_in_place(first, rows.size() * products.size());
  const int64_t groups = ceil_div(rows.size(), kRows);
  Scratch<T> b(in_place ? 0 : panels.padded() * depths.most());
  Scratch<T> a(std::min(rows.size(), kRows) * depths.most());
  for (int64_t d = 0; d < depths.count(); d++) {
    if (!in_place) pack_b(first, panels, depths[d], b.data());
    for (int64_t i = products.begin; i < products.end; i++)
      for (int64_t k = 0; k < groups; k++)
        multiply_rows(batch[i], in_place ? nullptr : b.data(), panels, depths[d],
                      part(rows, k, groups), a.data());
  }
}

// A product of few results and many terms, such as the gradient of a small matrix: a task has a part
// of the terms, all of whose results are kept until they are added up in order.
template <class T> static bool is_deep(const Product<T>& p) {
  constexpr int64_t kFewResults = 200000, kManyParts = 8, kMemory = (int64_t(16) << 20) / sizeof(T);
  const int64_t parts = Depths<T>(p.depth).count(), results = p.rows * p.columns;
  return parts >= kManyParts && results <= kFewResults && parts * results <= kMemory;
}

template <class T> static void multiply_deep(Pool& pool, const Product<T>& p) {
  const Depths<T> depths(p.depth);
  const int64_t size = p.rows * p.columns, count = depths.count();
  SharedScratch sums(count * size * sizeof(T));
  T* partial = sums.data<T>();
  pool.each(count, [&](int64_t d) {
    const Part depth = depths[d];
    Product<T> some = p;
    some.depth = depth.size();
    some.a += depth.begin * p.a_step, some.b += depth.begin * p.b_step;
    some.c = partial + d * size, some.c_row = p.columns;
    for (Addend<T>& x : some.addends) x = {};
    multiply_block(Batch<T>(some, nullptr, 0), {0, 1}, {0, p.rows}, {0, p.columns});
  });
  pool.ranges(p.rows, 16, std::max<int64_t>(1, 4096 / p.columns), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      T* c = p.c + i * p.c_row;
      const T* from = partial + i * p.columns;
      std::copy(from, from + p.columns, c);
      for (int64_t d = 1; d < count; d++)
        for (int64_t j = 0; j < p.columns; j++) c[j] += from[d * size + j];
      for (const Addend<T>& x : p.addends)
        for (int64_t j = 0; x.data && j < p.columns; j++) c[j] += x.data[i * x.row + j];
    }
  });
}

// How results are cut into blocks, and which products of a batch a task computes together. All choices
// lead to the same bits, so they may depend on the number of threads.
template <class T> struct ProductBlocks {
  int64_t rows, columns, together;

  ProductBlocks(const Batch<T>& batch, int64_t threads) {
    constexpr int64_t kRows = 1024, kColumns = 512, kWide = kTileColumns<T>;
    constexpr double kSmall = 1 << 20;  // products of numbers that a thread of its own is worth
    const Product<T> p = batch[0];
    const int64_t count = batch.count();
    const double work = double(p.rows) * double(p.columns) * double(p.depth);
    const int64_t wanted = std::clamp<int64_t>(int64_t(double(count) * work / kSmall), 1, 2 * threads);
    rows = ceil_div(p.rows, kRows), columns = ceil_div(p.columns, kColumns);
    while (count * rows * columns < wanted) {
      const int64_t high = p.rows / rows, wide = p.columns / columns;
      if (high <= kTileRows && wide <= kWide) break;
      (wide <= kWide || (high >= wide && high > 2 * kTileRows) ? rows : columns) *= 2;
    }
    const int64_t tasks = count * rows * columns;
    const double small = kSmall * double(rows * columns) / std::max(work, 1.0);
    together = std::max<int64_t>(batch.one_b() ? tasks / (2 * wanted) : 1, int64_t(std::min(small, 1e9)));
    together = std::clamp<int64_t>(together, 1, count);
  }
};

template <class T>
void multiply(Pool& pool, const Product<T>& first, const ProductLoop* loops, int64_t rank) {
  const Batch<T> batch(first, loops, rank);
  if (!batch.count() || !first.rows || !first.columns) return;
  if (batch.count() == 1 && is_deep(first)) return multiply_deep(pool, batch[0]);
  const ProductBlocks<T> blocks(batch, pool.threads());
  const int64_t groups = ceil_div(batch.count(), blocks.together);
  const int64_t panels = ceil_div(first.columns, kTileColumns<T>);
  pool.each(groups * blocks.rows * blocks.columns, [&](int64_t task) {
    const Part rows = part({0, first.rows}, task % blocks.rows, blocks.rows);
    const Part wide = part({0, panels}, task / blocks.rows % blocks.columns, blocks.columns);
    const Part columns{wide.begin * kTileColumns<T>,
                       std::min<int64_t>(wide.end * kTileColumns<T>, first.columns)};
    const Part mine = part({0, batch.count()}, task / (blocks.rows * blocks.columns), groups);
    for (int64_t i = mine.begin, end; i < mine.end; i = end) {
      for (end = i + 1; end < mine.end && batch[end].b == batch[i].b;) end++;
      multiply_block(batch, {i, end}, rows, columns);
    }
  });
}

template void multiply<float>(Pool&, const Product<float>&, const ProductLoop*, int64_t);
template void multiply<double>(Pool&, const Product<double>&, const ProductLoop*, int64_t);

}  // namespace pullback
