#include <array>

#include "conv_blocks.h"

namespace pullback {
namespace {

constexpr int64_t kSourceBytes = 96 << 10;
constexpr int64_t kTasks = 8;
constexpr int64_t kSumBytes = 8 << 20;  // of all partial sums
constexpr int64_t kProducts = 1 << 18;  // that are worth another thread

// sums[r, :] += source[pixel, r] * gradient[pixel, :], over rows of pixels
template <class T> struct FilterTile {
  const T *source, *gradient;
  int64_t rows, columns;
  int64_t source_row, source_pixel, gradient_row, gradient_pixel;
  T* sums;
  int64_t sum_row;
};

template <class T, int Rows, int Vectors> void run_filter_tile(const FilterTile<T>& t) {
  constexpr int L = kLanes<T>;
  Vec<T> acc[Rows][Vectors];
  for (int r = 0; r < Rows; r++)
    for (int v = 0; v < Vectors; v++) acc[r][v] = load(t.sums + r * t.sum_row + v * L);
  const int64_t source_pixel = t.source_pixel, gradient_pixel = t.gradient_pixel;
  for (int64_t i = 0; i < t.rows; i++) {
    const T *s = t.source + i * t.source_row, *g = t.gradient + i * t.gradient_row;
    for (int64_t j = 0; j < t.columns; j++, s += source_pixel, g += gradient_pixel) {
      Vec<T> row[Vectors];
      for (int v = 0; v < Vectors; v++) row[v] = load(g + v * L);
      for (int r = 0; r < Rows; r++)
        for (int v = 0; v < Vectors; v++) acc[r][v] += row[v] * s[r];
    }
  }
  for (int r = 0; r < Rows; r++)
    for (int v = 0; v < Vectors; v++) store(t.sums + r * t.sum_row + v * L, acc[r][v]);
}

template <class T> using RunFilterTile = void (*)(const FilterTile<T>&);

template <class T, int Vectors, size_t... I>
constexpr std::array<RunFilterTile<T>, kMostRows> filter_tiles_of(std::index_sequence<I...>) {
  return {(I < most_rows(Vectors) ? &run_filter_tile<T, I < most_rows(Vectors) ? I + 1 : 1, Vectors>
                                  : nullptr)...};
}

template <class T> RunFilterTile<T> find_filter_tile(int64_t rows, int vectors) {
  using Rows = std::make_index_sequence<kMostRows>;
  static constexpr std::array<RunFilterTile<T>, kMostRows> all[kMostVectors] = {
      filter_tiles_of<T, 1>(Rows()), filter_tiles_of<T, 2>(Rows()), filter_tiles_of<T, 3>(Rows()),
      filter_tiles_of<T, 4>(Rows())};
  return all[vectors - 1][rows - 1];
}

// Images are divided into parts, whose sums are added in order, and output channels into slices.
template <class T> class FilterConvolver {
 public:
  FilterConvolver(const ConvShape& c, const T* x, const T* g)
      : c_(c), phases_(conv_phases(c)), x_(x), g_(g),
        padded_(ceil_div(c.out_channels, kLanes<T>) * kLanes<T>),
        blocks_(c_, c.in_channels * int64_t(sizeof(T)), kSourceBytes, kTasks) {
    int64_t run = c.dims[2].dilation == 1 ? c.dims[2].taps * c.in_channels : c.in_channels;
    vectors_ = tile_vectors<T>(run, c.out_channels);
    elements_ = c.groups * c.taps() * c.in_channels * padded_;
    int64_t products = c.batch * c.out_pixels() * c.taps() * c.in_channels * c.out_channels;
    int64_t wanted = std::min(kTasks, 1 + products * c.groups / kProducts);
    parts_ = std::clamp<int64_t>(kSumBytes / (elements_ * int64_t(sizeof(T))), 1,
                                 std::min(ceil_div(wanted, c.groups), blocks_.count()));
    slices_ = std::clamp<int64_t>(ceil_div(wanted, c.groups * parts_), 1,
                                  ceil_div(padded_, vectors_ * kLanes<T>));
  }

  void run(Pool& pool, T* w) {
    Scratch<T> sums(parts_ * elements_);
    sums_ = sums.data();
    pool.each(parts_ * c_.groups * slices_, [&](int64_t i) {
      run_task(i / slices_ / c_.groups, i / slices_ % c_.groups, i % slices_);
    });
    int64_t rows = c_.taps() * c_.in_channels;
    pool.ranges(rows, kTasks, (int64_t(1) << 15) / (c_.groups * padded_) + 1,
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; i++) add_row(i, w);
                });
  }

 private:
  T* sums_of(int64_t part, int64_t group, int64_t row) const {
    int64_t rows = c_.taps() * c_.in_channels;
    return sums_ + part * elements_ + (group * rows + row) * padded_;
  }

  void add_row(int64_t row, T* w) const {
    for (int64_t group = 0; group < c_.groups; group++) {
      T* to = w + (row * c_.groups + group) * c_.out_channels;
      std::copy_n(sums_of(0, group, row), c_.out_channels, to);
      for (int64_t part = 1; part < parts_; part++) {
        const T* more = sums_of(part, group, row);
        for (int64_t o = 0; o < c_.out_channels; o++) to[o] += more[o];
      }
    }
  }

  void run_task(int64_t part, int64_t group, int64_t slice) const {
    const int64_t panel = vectors_ * kLanes<T>, panels = ceil_div(padded_, panel);
    const Range channels = {panels * slice / slices_ * panel,
                            std::min(panels * (slice + 1) / slices_ * panel, padded_)};
    for (int64_t row = 0; row < c_.taps() * c_.in_channels; row++)
      std::fill_n(sums_of(part, group, row) + channels.begin, channels.size(), T(0));
    const int64_t count = blocks_.count();
    for (int64_t i = count * part / parts_; i < count * (part + 1) / parts_; i++)
      run_block(blocks_[i], part, group, channels);
  }

  void run_block(const ConvBlock& block, int64_t part, int64_t group, Range channels) const {
    Scratch<T> buffer(block_elements(block) * c_.in_channels);
    ConvSource<T> source =
        conv_source(c_, block, x_, group * c_.in_channels, c_.in_channels, buffer.data());
    const bool whole = padded_ == c_.out_channels;
    Scratch<T> copy(whole ? 0 : blocks_.out_pixels() * padded_);
    Gradient g = whole ? gradient_itself(block, group) : gradient_copy(block, group, copy.data());
    for (const ConvPhase& phase : phases_)
      for (int64_t o = channels.begin; o < channels.end; o += vectors_ * kLanes<T>)
        run_panel(block, source, g, phase, sums_of(part, group, 0) + o, o);
  }

  struct Gradient {  // of a block: the element of its first output
    const T* data;
    int64_t plane, row, pixel;
  };

  Gradient gradient_itself(const ConvBlock& b, int64_t group) const {
    const ConvDim* d = c_.dims;
    int64_t pixel = c_.groups * c_.out_channels, row = d[2].out * pixel, plane = d[1].out * row;
    const T* data = g_ + b.image * d[0].out * plane + group * c_.out_channels;
    return {data + b.out[0].begin * plane + b.out[1].begin * row + b.out[2].begin * pixel, plane,
            row, pixel};
  }

  // With zeros for the channels that complete the last vector
  Gradient gradient_copy(const ConvBlock& b, int64_t group, T* to) const {
    Gradient from = gradient_itself(b, group);
    const int64_t rows = b.out[1].size(), columns = b.out[2].size();
    T* p = to;
    for (int64_t i = 0; i < b.out[0].size(); i++)
      for (int64_t j = 0; j < rows; j++)
        for (int64_t k = 0; k < columns; k++) {
          const T* s = from.data + i * from.plane + j * from.row + k * from.pixel;
          p = std::copy(s, s + c_.out_channels, p);
          p = std::fill_n(p, padded_ - c_.out_channels, T(0));
        }
    return {to, rows * columns * padded_, columns * padded_, padded_};
  }

  void run_panel(const ConvBlock& block, const ConvSource<T>& source, const Gradient& g,
                 const ConvPhase& phase, T* sums, int64_t channel) const {
    const DimPhase* d = phase.dims;
    Range at[3];
    for (int j = 0; j < 3; j++) at[j] = d[j].positions(block.out[j]);
    if (!at[1].size() || !at[2].size()) return;
    FilterTile<T> t;
    t.rows = at[1].size(), t.columns = at[2].size();
    t.source_row = d[1].step * source.strides[1], t.source_pixel = d[2].step * source.strides[2];
    t.gradient_row = d[1].every * g.row, t.gradient_pixel = d[2].every * g.pixel;
    t.sum_row = padded_;
    int64_t first[3];
    for (int j = 1; j < 3; j++) first[j] = d[j].first + at[j].begin * d[j].every - block.out[j].begin;
    const T* gradient = g.data + first[1] * g.row + first[2] * g.pixel + channel;
    const T* corner = source.data + at[1].begin * t.source_row + at[2].begin * t.source_pixel;
    std::vector<ConvRun> runs = conv_runs(phase, source, c_.in_channels, false);
    const int vectors = int(std::min<int64_t>(vectors_, (padded_ - channel) / kLanes<T>));
    for (int64_t i = at[0].begin; i < at[0].end; i++) {
      t.gradient = gradient + (d[0].first + i * d[0].every - block.out[0].begin) * g.plane;
      const T* base = corner + i * d[0].step * source.strides[0];
      size_t run = 0;
      for (int64_t a : d[0].taps)
        for (int64_t b : d[1].taps)
          for (size_t e = 0; e < d[2].taps.size(); run++) {
            int64_t tap = (a * c_.dims[1].taps + b) * c_.dims[2].taps + d[2].taps[e];
            t.source = base + runs[run].offset;
            t.sums = sums + tap * c_.in_channels * padded_;
            run_rows(t, runs[run].length, vectors);
            e += size_t(runs[run].length / c_.in_channels);
          }
    }
  }

  static void run_rows(FilterTile<T> t, int64_t n, int vectors) {
    for (int64_t tiles = ceil_div(n, most_rows(vectors)); tiles; tiles--) {
      int64_t rows = ceil_div(n, tiles);
      find_filter_tile<T>(rows, vectors)(t);
      t.source += rows;
      t.sums += rows * t.sum_row;
      n -= rows;
    }
  }

  ConvShape c_;
  std::vector<ConvPhase> phases_;
  const T *x_, *g_;
  int64_t padded_, elements_, parts_, slices_;
  int vectors_;
  ConvBlocks blocks_;
  T* sums_ = nullptr;
};

}  // namespace

template <class T>
void convolve_filter(Pool& pool, const ConvShape& c, const T* x, const T* g, T* w) {
  FilterConvolver<T>(c, x, g).run(pool, w);
}

template void convolve_filter(Pool&, const ConvShape&, const float*, const float*, float*);
template void convolve_filter(Pool&, const ConvShape&, const double*, const double*, double*);

}  // namespace pullback
