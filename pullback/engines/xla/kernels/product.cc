#include "product.h"

#include <algorithm>
#include <vector>

#include "product_pack.h"
#include "product_tile.h"
#include "scratch.h"

namespace pullback {

// b is packed once, into panels of kTileColumns columns that all threads read. A task multiplies a
// block of rows with a block of columns: it packs its part of a into panels of kTileRows rows, one of
// which stays in the nearest cache while it meets the panels of b.

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

struct Part {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};

static Part part(int64_t n, int64_t i, int64_t count) { return {n * i / count, n * (i + 1) / count}; }

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

// The panels of b: those of a part of the depth are side by side.
template <class T> struct Panels {
  int64_t columns;

  int64_t count() const { return ceil_div(columns, kTileColumns<T>); }
  int64_t padded() const { return ceil_div(columns, kLanes<T>) * kLanes<T>; }
  int64_t begin(int64_t i) const { return i * kTileColumns<T>; }
  int64_t size(int64_t i) const { return std::min<int64_t>(kTileColumns<T>, columns - begin(i)); }
  int64_t wide(int64_t i) const { return std::min<int64_t>(kTileColumns<T>, padded() - begin(i)); }
  int64_t offset(Part depth, int64_t i) const {
    return depth.begin * padded() + begin(i) * depth.size();
  }
};

constexpr int64_t kSteps = 64;  // that are packed at a time, so that rows of memory are read along

template <class T> static void pack_b(const Product<T>& p, Part panels, T* to) {
  const Panels<T> all{p.columns};
  const Depths<T> depths(p.depth);
  for (int64_t d = 0; d < depths.count(); d++) {
    const Part depth = depths[d];
    for (int64_t l = depth.begin; l < depth.end; l += kSteps)
      for (int64_t i = panels.begin; i < panels.end; i++)
        pack_panel(p.b + l * p.b_step + all.begin(i) * p.b_column, p.b_column, p.b_step,
                   all.size(i), std::min(kSteps, depth.end - l),
                   to + all.offset(depth, i) + (l - depth.begin) * all.wide(i), all.wide(i));
  }
}

// Tiles of about the same number of rows.
struct RowTiles {
  Part rows;

  int64_t count() const { return ceil_div(rows.size(), kTileRows); }
  Part operator[](int64_t i) const {
    Part within = part(rows.size(), i, count());
    return {rows.begin + within.begin, rows.begin + within.end};
  }
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

template <class T> static void sum_addends(const Product<T>& p, Part rows, Part panels) {
  const int64_t begin = panels.begin * kTileColumns<T>;
  const int64_t end = std::min<int64_t>(panels.end * kTileColumns<T>, p.columns);
  for (int64_t i = rows.begin; i < rows.end; i++)
    for (int64_t j = begin; j < end; j++) {
      T sum = 0;
      for (const Addend<T>& x : p.addends)
        if (x.data) sum += x.data[i * x.row + j];
      p.c[i * p.c_row + j] = sum;
    }
}

// Rows and panels of the result, from packed b, or from b itself where `packed` is null.
template <class T>
static void multiply_block(const Product<T>& p, const T* packed, Part rows, Part panels) {
  const Panels<T> all{p.columns};
  const Depths<T> depths(p.depth);
  const RowTiles tiles{rows};
  if (p.depth == 0) return sum_addends(p, rows, panels);
  Scratch<T> a(rows.size() * depths.most());
  for (int64_t d = 0; d < depths.count(); d++) {
    const Part depth = depths[d];
    pack_a(p, tiles, depth, a.data());
    for (int64_t i = 0; i < tiles.count(); i++) {
      const Part tile = tiles[i];
      const T* x = a.data() + (tile.begin - rows.begin) * depth.size();
      const ProductTile<T> whole = product_tile_of<T>(tile.size(), kTileVectors);
      for (int64_t j = panels.begin; j < panels.end; j++) {
        const int64_t vectors = all.wide(j) / kLanes<T>;
        auto* f = vectors == kTileVectors ? whole : product_tile_of<T>(tile.size(), vectors);
        TileResult<T> out{p.c + tile.begin * p.c_row + all.begin(j), p.c_row, all.size(j), d > 0, {}};
        if (d + 1 == depths.count()) out.add_addends(p.addends, tile.begin, all.begin(j));
        if (packed)
          f({x, 0, 0}, packed + all.offset(depth, j), all.wide(j), depth.size(), out);
        else
          f({x, 0, 0}, p.b + depth.begin * p.b_step + all.begin(j), p.b_step, depth.size(), out);
      }
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

constexpr double kSmall = 1 << 20;  // products of numbers that a thread of its own is worth

// Small products, some of them for each task.
template <class T> static void multiply_small(Pool& pool, const Batch<T>& batch, double work) {
  const int64_t most = std::max<int64_t>(1, int64_t(double(batch.count()) * work / kSmall));
  const int64_t tasks = std::min<int64_t>({batch.count(), most, 256});
  pool.each(tasks, [&](int64_t task) {
    const Panels<T> panels{batch[0].columns};
    Scratch<T> b(panels.padded() * batch[0].depth);
    const T* packed = nullptr;
    const Part mine = part(batch.count(), task, tasks);
    for (int64_t i = mine.begin; i < mine.end; i++) {
      const Product<T> p = batch[i];
      if (p.b != packed) pack_b(p, {0, panels.count()}, b.data());
      packed = p.b;
      multiply_block(p, b.data(), {0, p.rows}, {0, panels.count()});
    }
  });
}

// Whether tiles read b where it is: its rows are vectors, and few tiles read each of them.
template <class T> static bool is_read_in_place(const Product<T>& p) {
  return p.b_column == 1 && p.columns % kLanes<T> == 0 && p.rows <= 3 * kTileRows;
}

// A product of few rows, some of its columns for each task, which packs a, and its own part of b.
template <class T> static void multiply_columns(Pool& pool, const Product<T>& whole, double work) {
  constexpr int64_t kTasks = 64, kPanels = 4, kPacked = 1 << 20;
  const Panels<T> panels{whole.columns};
  const int64_t most = std::clamp<int64_t>(int64_t(work / kSmall), 1, kTasks);
  const int64_t least = std::min(panels.count(), 1 + panels.padded() * whole.depth / kPacked);
  const int64_t tasks = std::max(least, std::min(most, panels.count() / kPanels));
  pool.each(tasks, [&](int64_t task) {
    const Part mine = part(panels.count(), task, tasks);
    const int64_t begin = panels.begin(mine.begin);
    Product<T> p = whole.from_column(begin);
    p.columns = std::min(panels.begin(mine.end), whole.columns) - begin;
    const Panels<T> own{p.columns};
    const Part all{0, own.count()};
    if (is_read_in_place(p)) return multiply_block<T>(p, nullptr, {0, p.rows}, all);
    Scratch<T> b(own.padded() * p.depth);
    pack_b(p, all, b.data());
    multiply_block<T>(p, b.data(), {0, p.rows}, all);
  });
}

// A product of so few columns that packing a would take as long as multiplying. A task has some of
// the rows.
template <class T> static bool is_narrow(const Product<T>& p) {
  return p.columns <= kTileColumns<T> && p.rows >= 2 * kNarrowRows && p.depth > 0;
}

template <class T> static void multiply_narrow(Pool& pool, const Product<T>& p, double work) {
  const int64_t most = ceil_div(p.rows, kNarrowRows);
  const int64_t tasks = std::clamp<int64_t>(int64_t(2 * work / kSmall), 1, std::min<int64_t>(64, most));
  const Panels<T> panel{p.columns};
  const Depths<T> depths(p.depth);
  const int64_t vectors = panel.padded() / kLanes<T>;
  pool.each(tasks, [&](int64_t task) {
    const Part tiles = part(most, task, tasks);
    Scratch<T> b(panel.padded() * depths.most());
    for (int64_t d = 0; d < depths.count(); d++) {
      const Part depth = depths[d];
      pack_panel(p.b + depth.begin * p.b_step, p.b_column, p.b_step, p.columns, depth.size(),
                 b.data(), panel.padded());
      for (int64_t i = tiles.begin; i < tiles.end; i++) {
        const int64_t first = i * kNarrowRows, rows = std::min<int64_t>(kNarrowRows, p.rows - first);
        TileResult<T> out{p.c + first * p.c_row, p.c_row, p.columns, d > 0, {}};
        if (d + 1 == depths.count()) out.add_addends(p.addends, first, 0);
        const TileRows<T> a{p.a + first * p.a_row + depth.begin * p.a_step, p.a_row, p.a_step};
        product_tile_of<T, false>(rows, vectors)(a, b.data(), panel.padded(), depth.size(), out);
      }
    }
  });
}

constexpr int64_t kBlockRows = 96;

// How the results of one product are cut into blocks.
template <class T> struct ProductBlocks {
  int64_t rows = 1, columns = 1;

  explicit ProductBlocks(const Product<T>& p) {
    columns = std::max<int64_t>(1, p.columns / 512);
    while (rows * kBlockRows < p.rows) rows *= 2;
  }
  int64_t count() const { return rows * columns; }
};

// A product of few results and many terms, such as the gradient of a small matrix: a task has a part
// of the terms, all of whose results are kept until they are added up in order.
template <class T> static bool is_deep(const Product<T>& p) {
  constexpr int64_t kFewBlocks = 4, kManyParts = 8, kMemory = (int64_t(16) << 20) / sizeof(T);
  const int64_t parts = Depths<T>(p.depth).count();
  return parts >= kManyParts && ProductBlocks<T>(p).count() <= kFewBlocks &&
         parts * p.rows * p.columns <= kMemory;
}

template <class T> static void multiply_deep(Pool& pool, const Product<T>& p) {
  const Depths<T> depths(p.depth);
  const Panels<T> panels{p.columns};
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
    Scratch<T> b(panels.padded() * some.depth);
    pack_b(some, {0, panels.count()}, b.data());
    multiply_block(some, b.data(), {0, p.rows}, {0, panels.count()});
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

// A product whose b is packed already, some of its columns or rows for each task.
template <class T> static void multiply_packed(Pool& pool, const Product<T>& p, double work) {
  constexpr int64_t kTasks = 64, kPanels = 4;
  const Panels<T> panels{p.columns};
  ProductBlocks<T> blocks(p);
  if (p.rows <= kBlockRows) {
    const int64_t most = std::clamp<int64_t>(int64_t(work / kSmall), 1, kTasks);
    blocks.columns = std::clamp<int64_t>(panels.count() / kPanels, 1, most);
  }
  pool.each(blocks.count(), [&](int64_t task) {
    multiply_block(p, p.b, part(p.rows, task % blocks.rows, blocks.rows),
                   part(panels.count(), task / blocks.rows, blocks.columns));
  });
}

template <class T> void pack(Pool& pool, const Product<T>& p, T* to) {
  const int64_t count = Panels<T>{p.columns}.count();
  const int64_t pieces = std::clamp<int64_t>(p.columns * p.depth >> 15, 1, count);
  pool.each(pieces, [&](int64_t i) { pack_b(p, part(count, i, pieces), to); });
}

// Products [begin, end), which have packed b of their own, or share it.
template <class T>
static void multiply_large(Pool& pool, const Batch<T>& batch, Part mine, T* packed) {
  const Product<T> first = batch[mine.begin];
  const Panels<T> panels{first.columns};
  const int64_t size = batch.one_b() ? 0 : panels.padded() * first.depth;
  const int64_t pieces = std::clamp<int64_t>(panels.padded() * first.depth >> 15, 1, panels.count());
  pool.each((batch.one_b() ? 1 : mine.size()) * pieces, [&](int64_t task) {
    const int64_t i = task / pieces;
    pack_b(batch[mine.begin + i], part(panels.count(), task % pieces, pieces), packed + i * size);
  });
  const ProductBlocks<T> blocks(first);
  pool.each(mine.size() * blocks.count(), [&](int64_t task) {
    const int64_t i = task / blocks.count(), block = task % blocks.count();
    multiply_block(batch[mine.begin + i], packed + i * size,
                   part(first.rows, block % blocks.rows, blocks.rows),
                   part(panels.count(), block / blocks.rows, blocks.columns));
  });
}

template <class T>
void multiply(Pool& pool, const Product<T>& first, const ProductLoop* loops, int64_t rank) {
  const Batch<T> batch(first, loops, rank);
  if (!batch.count() || !first.rows || !first.columns) return;
  const double work = double(first.rows) * double(first.columns) * double(first.depth);
  if (first.packed) return multiply_packed(pool, batch[0], work);
  if (batch.count() == 1) {
    const bool deep = is_deep(first);
    if (deep && work > 2 * kSmall) return multiply_deep(pool, batch[0]);
    if (is_narrow(first)) return multiply_narrow(pool, batch[0], work);
    if (!deep && first.rows <= kBlockRows) return multiply_columns(pool, batch[0], work);
  }
  if (work <= 2 * kSmall) return multiply_small(pool, batch, work);

  // b is packed for some products at a time, or for some columns of one.
  constexpr int64_t kMemory = (int64_t(16) << 20) / sizeof(T), kWide = kTileColumns<T>;
  const int64_t fits = std::max<int64_t>(1, kMemory / first.depth / kWide) * kWide;
  const int64_t columns = std::min(first.columns, fits);
  const int64_t size = Panels<T>{columns}.padded() * first.depth;
  const int64_t together = batch.one_b() ? batch.count()
                                         : std::clamp<int64_t>(kMemory / size, 1, batch.count());
  SharedScratch packed((batch.one_b() ? 1 : together) * size * sizeof(T));
  for (int64_t j = 0; j < first.columns; j += columns) {
    Product<T> some = first.from_column(j);
    some.columns = std::min(columns, first.columns - j);
    const Batch<T> these(some, loops, rank);
    for (int64_t i = 0; i < batch.count(); i += together)
      multiply_large(pool, these, {i, std::min(i + together, batch.count())}, packed.data<T>());
  }
}

template void pack<float>(Pool&, const Product<float>&, float*);
template void pack<double>(Pool&, const Product<double>&, double*);
template void multiply<float>(Pool&, const Product<float>&, const ProductLoop*, int64_t);
template void multiply<double>(Pool&, const Product<double>&, const ProductLoop*, int64_t);

}  // namespace pullback
