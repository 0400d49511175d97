#include "convolution.h"

#include <array>

#include "conv_blocks.h"

namespace pullback {

ConvShape ConvShape::transposed() const {
  ConvShape t{batch, groups, out_channels, in_channels, {}};
  for (int i = 0; i < 3; i++) {
    const ConvDim& d = dims[i];
    t.dims[i] = {d.out, d.in, d.taps, d.in_dilation, (d.taps - 1) * d.dilation - d.low, d.stride,
                 d.dilation};
  }
  return t;
}

namespace {

constexpr int64_t kSourceBytes = 192 << 10, kFilterBytes = 128 << 10;
constexpr int64_t kBlocks = 16;         // to balance the threads' work
constexpr int64_t kProducts = 1 << 18;  // that are worth another thread

template <class T> struct Tile {
  const T* source;
  int64_t pixel;  // from a pixel to the next, in the source
  const ConvRun* runs;
  const ConvRun* runs_end;
  const T* filter;  // for each element of the runs, a row of vectors
  T* out;
  int64_t out_pixel, width;  // in the output; the last vector may be incomplete
  bool add;
};

template <class T> inline Vec<T> load_width(const T* p, int64_t n) {
  return n >= kLanes<T> ? load(p) : load_part(p, n);
}

template <class T> inline void store_width(T* p, Vec<T> v, int64_t n) {
  if (n >= kLanes<T>) store(p, v);
  else store_part(p, v, n);
}

// out[p, :] = sum of source[p * pixel + k] * filter[k, :]
template <class T, int Rows, int Vectors> void run_tile(const Tile<T>& t) {
  constexpr int L = kLanes<T>;
  Vec<T> acc[Rows][Vectors];
  for (int p = 0; p < Rows; p++)
    for (int v = 0; v < Vectors; v++)
      acc[p][v] = t.add ? load_width(t.out + p * t.out_pixel + v * L, t.width - v * L) : Vec<T>{};
  const T* w = t.filter;
  const int64_t pixel = t.pixel;
  for (const ConvRun* run = t.runs; run != t.runs_end; run++) {
    const T* s = t.source + run->offset;
    for (const T* end = s + run->length; s != end; s++, w += Vectors * L) {
      Vec<T> row[Vectors];
      for (int v = 0; v < Vectors; v++) row[v] = load(w + v * L);
      for (int p = 0; p < Rows; p++)
        for (int v = 0; v < Vectors; v++) acc[p][v] += row[v] * s[p * pixel];
    }
  }
  for (int p = 0; p < Rows; p++)
    for (int v = 0; v < Vectors; v++)
      store_width(t.out + p * t.out_pixel + v * L, acc[p][v], t.width - v * L);
}

template <class T> using RunTile = void (*)(const Tile<T>&);

template <class T, int Vectors, size_t... I>
constexpr std::array<RunTile<T>, kMostRows> tiles_of(std::index_sequence<I...>) {
  return {(I < most_rows(Vectors) ? &run_tile<T, I < most_rows(Vectors) ? I + 1 : 1, Vectors>
                                  : nullptr)...};
}

template <class T> RunTile<T> find_tile(int64_t rows, int vectors) {
  using Rows = std::make_index_sequence<kMostRows>;
  static constexpr std::array<RunTile<T>, kMostRows> all[kMostVectors] = {
      tiles_of<T, 1>(Rows()), tiles_of<T, 2>(Rows()), tiles_of<T, 3>(Rows()),
      tiles_of<T, 4>(Rows())};
  return all[vectors - 1][rows - 1];
}

// The filter in the order in which tiles read it: by group, phase, panel of output channels, tap
// and input channel. A panel is some vectors wide, the last of a phase as many as it needs.
template <class T> class PackedFilter {
 public:
  PackedFilter(const ConvShape& c, const std::vector<ConvPhase>& phases, int vectors)
      : c_(c), phases_(phases), vectors_(vectors), width_(vectors * kLanes<T>),
        padded_(ceil_div(c.out_channels, kLanes<T>) * kLanes<T>) {
    int64_t taps = 0;
    for (const ConvPhase& phase : phases) {
      starts_.push_back(taps * c.in_channels * padded_);
      taps += phase.taps();
    }
    group_ = taps * c.in_channels * padded_;
  }

  int64_t size() const { return c_.groups * group_; }
  int64_t panels() const { return ceil_div(c_.out_channels, width_); }
  int64_t width(int64_t panel) const {  // output channels
    return std::min(width_, c_.out_channels - panel * width_);
  }
  int vectors(int64_t panel) const { return int(ceil_div(width(panel), kLanes<T>)); }
  // Where element k (of tap and input channel) of a panel begins
  int64_t start(int64_t group, int64_t phase, int64_t panel, int64_t k) const {
    int64_t rows = phases_[phase].taps() * c_.in_channels;
    return group * group_ + starts_[phase] + panel * rows * width_ +
           k * vectors(panel) * kLanes<T>;
  }

  void pack(Pool& pool, const T* w, bool transposed, T* to) const {
    int64_t rows = c_.groups * int64_t(phases_.size()) * panels();
    pool.ranges(rows, kBlocks, (int64_t(1) << 15) / (size() / rows + 1) + 1,
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; i++) pack_panel(i, w, transposed, to);
                });
  }

 private:
  void pack_panel(int64_t i, const T* w, bool transposed, T* to) const {
    int64_t panel = i % panels(), phase = i / panels() % int64_t(phases_.size());
    int64_t group = i / panels() / int64_t(phases_.size());
    const DimPhase* d = phases_[phase].dims;
    T* p = to + start(group, phase, panel, 0);
    for (int64_t a : d[0].taps)
      for (int64_t b : d[1].taps)
        for (int64_t e : d[2].taps) {
          int64_t tap = (a * c_.dims[1].taps + b) * c_.dims[2].taps + e;
          p = transposed ? pack_tap_across(w, c_.taps() - 1 - tap, group, panel, p)
                         : pack_tap(w, tap, group, panel, p);
        }
  }

  T* pack_tap(const T* w, int64_t tap, int64_t group, int64_t panel, T* p) const {
    int64_t all = c_.groups * c_.out_channels, n = width(panel);
    w += tap * c_.in_channels * all + group * c_.out_channels + panel * width_;
    for (int64_t k = 0; k < c_.in_channels; k++, w += all) {
      std::copy(w, w + n, p);
      std::fill(p + n, p + vectors(panel) * kLanes<T>, T(0));
      p += vectors(panel) * kLanes<T>;
    }
    return p;
  }

  // From [taps..., out_channels, groups * in_channels]
  T* pack_tap_across(const T* w, int64_t tap, int64_t group, int64_t panel, T* p) const {
    int64_t all = c_.groups * c_.in_channels, n = width(panel), m = vectors(panel) * kLanes<T>;
    w += (tap * c_.out_channels + panel * width_) * all + group * c_.in_channels;
    for (int64_t k = 0; k < c_.in_channels; k += kLanes<T>)  // a few cache lines at a time
      for (int64_t o = 0; o < m; o++)
        for (int64_t i = k; i < std::min(k + kLanes<T>, c_.in_channels); i++)
          p[i * m + o] = o < n ? w[o * all + i] : T(0);
    return p + c_.in_channels * m;
  }

  const ConvShape& c_;
  const std::vector<ConvPhase>& phases_;
  int vectors_;
  int64_t width_, padded_, group_;
  std::vector<int64_t> starts_;
};

// Runs up to `most` elements long together, and the element that they begin with.
struct Chunk {
  int64_t begin;
  std::vector<ConvRun> runs;
};

std::vector<Chunk> chunks_of(const std::vector<ConvRun>& runs, int64_t most) {
  std::vector<Chunk> chunks(1);
  int64_t begin = 0, room = most;
  for (ConvRun run : runs)
    while (run.length) {
      if (!room) {
        chunks.push_back({begin, {}});
        room = most;
      }
      int64_t n = std::min(room, run.length);
      chunks.back().runs.push_back({run.offset, n});
      run.offset += n, run.length -= n, begin += n, room -= n;
    }
  return chunks;
}

template <class T> class Convolver {
 public:
  Convolver(const ConvShape& c, const T* x, T* y)
      : c_(c), phases_(conv_phases(c)), x_(x), y_(y),
        packed_(c_, phases_, tile_vectors<T>(row_length(), c.out_channels)) {}

  void run(Pool& pool, const T* w, bool transposed) {
    Scratch<T> filter(packed_.size());
    packed_.pack(pool, w, transposed, filter.data());
    filter_ = filter.data();
    int64_t products = c_.batch * c_.out_pixels() * c_.taps() * c_.in_channels * c_.out_channels;
    int64_t wanted = std::min(kBlocks, 1 + products / kProducts);
    ConvBlocks blocks(c_, c_.in_channels * int64_t(sizeof(T)), kSourceBytes, wanted);
    pool.each(blocks.count() * c_.groups,
              [&](int64_t i) { run_block(blocks[i / c_.groups], i % c_.groups); });
  }

 private:
  int64_t row_length() const {
    const DimPhase& d = phases_[0].dims[2];
    return d.positions({0, c_.dims[2].out}).size();
  }

  void run_block(const ConvBlock& block, int64_t group) {
    Scratch<T> buffer(block_elements(block) * c_.in_channels);
    ConvSource<T> source =
        conv_source(c_, block, x_, group * c_.in_channels, c_.in_channels, buffer.data());
    for (size_t i = 0; i < phases_.size(); i++) {
      int64_t most = kFilterBytes / (packed_.vectors(0) * kVectorBytes);
      auto runs = conv_runs(phases_[i], source, c_.in_channels, true);
      for (const Chunk& chunk : chunks_of(runs, most))
        for (int64_t panel = 0; panel < packed_.panels(); panel++)
          run_panel(block, source, group, int64_t(i), chunk, panel);
    }
  }

  void run_panel(const ConvBlock& block, const ConvSource<T>& source, int64_t group, int64_t phase,
                 const Chunk& chunk, int64_t panel) {
    const DimPhase* d = phases_[phase].dims;
    const Range rows = d[1].positions(block.out[1]), columns = d[2].positions(block.out[2]);
    const int64_t all = c_.groups * c_.out_channels, width = c_.dims[2].out * all;
    Tile<T> t;
    t.pixel = d[2].step * source.strides[2];
    t.runs = chunk.runs.data();
    t.runs_end = t.runs + chunk.runs.size();
    t.filter = filter_ + packed_.start(group, phase, panel, chunk.begin);
    t.out_pixel = d[2].every * all;
    t.width = packed_.width(panel);
    t.add = chunk.begin > 0;
    T* out = y_ + block.image * c_.out_pixels() * all + group * c_.out_channels +
             panel * packed_.width(0);
    const Range planes = d[0].positions(block.out[0]);
    for (int64_t i = planes.begin; i < planes.end; i++)
      for (int64_t j = rows.begin; j < rows.end; j++) {
        t.source = source.data + i * d[0].step * source.strides[0] +
                   j * d[1].step * source.strides[1] + columns.begin * t.pixel;
        int64_t row = (d[0].first + i * d[0].every) * c_.dims[1].out + d[1].first + j * d[1].every;
        t.out = out + row * width + (d[2].first + columns.begin * d[2].every) * all;
        run_row(t, columns.size(), packed_.vectors(panel));
      }
  }

  static void run_row(Tile<T> t, int64_t n, int vectors) {
    for (int64_t tiles = ceil_div(n, most_rows(vectors)); tiles; tiles--) {
      int64_t rows = ceil_div(n, tiles);
      find_tile<T>(rows, vectors)(t);
      t.source += rows * t.pixel;
      t.out += rows * t.out_pixel;
      n -= rows;
    }
  }

  ConvShape c_;
  std::vector<ConvPhase> phases_;
  const T* x_;
  T* y_;
  PackedFilter<T> packed_;
  const T* filter_ = nullptr;
};

// Where each output meets one input, all pixels of all images make up one row.
ConvShape flattened(ConvShape c) {
  for (const ConvDim& d : c.dims)
    if (d.taps != 1 || d.stride != 1 || d.low || d.in_dilation != 1 || d.in != d.out) return c;
  int64_t pixels = c.batch * c.in_pixels();
  c.batch = 1;
  c.dims[0] = c.dims[1] = ConvDim{};
  c.dims[2].in = c.dims[2].out = pixels;
  return c;
}

}  // namespace

template <class T>
void convolve(Pool& pool, const ConvShape& c, const T* x, const T* w, bool transposed, T* y) {
  Convolver<T>(flattened(c), x, y).run(pool, w, transposed);
}

template void convolve(Pool&, const ConvShape&, const float*, const float*, bool, float*);
template void convolve(Pool&, const ConvShape&, const double*, const double*, bool, double*);

}  // namespace pullback
