#include <array>

#include "conv_blocks.h"

namespace pullback {
namespace {

constexpr int64_t kPixels = 1024, kFewChannels = 32, kSlicePanels = 4;
constexpr int64_t kTasks = 16, kParts = 8;
constexpr int64_t kSumBytes = 8 << 20;  // of all partial sums
constexpr int64_t kProducts = 1 << 18;  // that are worth another thread

// sums[r, :] += source[pixel, r] * gradient[pixel, :], over the pixels of images, rows and columns
template <class T> struct FilterTile {
  const T *source, *gradient;
  int64_t sizes[3], source_strides[3], gradient_strides[3];
  T* sums;
  int64_t sum_row;
  bool add;  // to what the sums were before
};

template <class T, int Rows, int Vectors> void run_filter_tile(const FilterTile<T>& t) {
  constexpr int L = kLanes<T>;
  Vec<T> acc[Rows][Vectors];
  for (int r = 0; r < Rows; r++)
    for (int v = 0; v < Vectors; v++)
      acc[r][v] = t.add ? load(t.sums + r * t.sum_row + v * L) : Vec<T>{};
  const int64_t columns = t.sizes[2], pixel = t.source_strides[2], next = t.gradient_strides[2];
  for (int64_t n = 0; n < t.sizes[0]; n++)
    for (int64_t i = 0; i < t.sizes[1]; i++) {
      const T* s = t.source + n * t.source_strides[0] + i * t.source_strides[1];
      const T* g = t.gradient + n * t.gradient_strides[0] + i * t.gradient_strides[1];
      for (int64_t j = 0; j < columns; j++, s += pixel, g += next) {
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

// Images are divided into parts, whose sums are added in order, and output channels into slices of
// some panels. In a block, input channels are copied by slabs that are as wide as a tile, unless
// they are few.
template <class T> class FilterConvolver {
 public:
  FilterConvolver(const ConvShape& c, const T* x, const T* g)
      : c_(c), phases_(conv_phases(c)), x_(x), g_(g),
        padded_(ceil_div(c.out_channels, kLanes<T>) * kLanes<T>),
        blocks_(c_, {kPixels * 4, kPixels, c.batch, most_parts(c)}) {
    bool few = c.in_channels <= kFewChannels;
    int64_t run = few && c.dims[2].dilation == 1 ? c.dims[2].taps * c.in_channels : c.in_channels;
    vectors_ = tile_vectors<T>(run, c.out_channels);
    slab_ = few ? c.in_channels : tile_rows(c.in_channels, vectors_);
    panels_ = ceil_div(padded_, panel());
    elements_ = c.groups * c.taps() * c.in_channels * padded_;
    int64_t products = c.batch * c.out_pixels() * c.taps() * c.in_channels * c.out_channels;
    int64_t wanted = std::min(kTasks, 1 + products * c.groups / kProducts);
    parts_ = std::clamp<int64_t>(kSumBytes / (elements_ * int64_t(sizeof(T))), 1,
                                 std::min(ceil_div(wanted, c.groups), blocks_.count()));
    parts_ = std::min(parts_, most_parts(c));
    packs_ = padded_ != c.out_channels || filter_rows() > 16 * kMostRows;
    slices_ = std::clamp<int64_t>(ceil_div(wanted, c.groups * parts_),
                                  ceil_div(panels_, kSlicePanels), panels_);
  }

  void run(Pool& pool, T* w) {
    bool direct = parts_ == 1 && c_.groups == 1 && padded_ == c_.out_channels;
    Scratch<T> sums(direct ? 0 : parts_ * elements_);
    sums_ = direct ? w : sums.data();
    pool.each(parts_ * c_.groups * slices_, [&](int64_t i) {
      run_task(i / slices_ / c_.groups, i / slices_ % c_.groups, i % slices_);
    });
    if (direct) return;
    pool.ranges(filter_rows(), kTasks, (int64_t(1) << 15) / (c_.groups * padded_) + 1,
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; i++) add_row(i, w);
                });
  }

 private:
  // Adding up the sums of a part costs as much as some pixels.
  static int64_t most_parts(const ConvShape& c) {
    return std::clamp<int64_t>(c.batch * c.out_pixels() / 1024, 1, kParts);
  }
  int64_t panel() const { return vectors_ * kLanes<T>; }
  int64_t filter_rows() const { return c_.taps() * c_.in_channels; }
  T* sums_of(int64_t part, int64_t group, int64_t row) const {
    return sums_ + part * elements_ + (group * filter_rows() + row) * padded_;
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
    const Range channels = {panels_ * slice / slices_ * panel(),
                            std::min(panels_ * (slice + 1) / slices_ * panel(), padded_)};
    bool add = phases_.size() > 1 || phases_[0].taps() < c_.taps();  // some taps may meet nothing
    for (int64_t row = 0; add && row < filter_rows(); row++)
      std::fill_n(sums_of(part, group, row) + channels.begin, channels.size(), T(0));
    const int64_t count = blocks_.count();
    for (int64_t i = count * part / parts_; i < count * (part + 1) / parts_; i++, add = true)
      for (const ConvPhase& phase : phases_)
        run_block(blocks_[i], phase, group, channels, sums_of(part, group, 0), add);
  }

  void run_block(const ConvBlock& block, const ConvPhase& phase, int64_t group, Range channels,
                 T* sums, bool add) const {
    Range at[3];
    for (int j = 0; j < 3; j++) at[j] = phase.dims[j].positions(block.out[j]);
    const int64_t pixels = block.images.size() * at[0].size() * at[1].size() * at[2].size();
    if (!pixels) return;
    Scratch<T> packed(packs_ ? pixels * channels.size() : 0), buffer(block.in_pixels() * slab_);
    FilterTile<T> t;
    t.sum_row = padded_, t.add = add;
    t.sizes[0] = block.images.size(), t.sizes[1] = at[1].size(), t.sizes[2] = at[2].size();
    if (packs_) pack_gradient(block, phase, at, group, channels, pixels, packed.data());
    for (int64_t slab = 0; slab < c_.in_channels; slab += slab_) {
      const int64_t n = std::min(slab_, c_.in_channels - slab);
      ConvSource<T> source =
          conv_source(c_, block, x_, group * c_.in_channels + slab, n, buffer.data());
      for (int64_t o = channels.begin; o < channels.end; o += panel()) {
        const int64_t width = std::min(panel(), padded_ - o), all = c_.groups * c_.out_channels;
        const int64_t row = t.sizes[2] * width;
        const T* g = first_gradient(block.images.begin, phase, at, at[1].begin, group) + o;
        const DimPhase* d = phase.dims;
        if (packs_)
          set_gradient(t, packed.data() + (o - channels.begin) * pixels, t.sizes[1] * row, row, width);
        else
          set_gradient(t, g, c_.out_pixels() * all, d[1].every * c_.dims[2].out * all,
                       d[2].every * all);
        t.sums = sums + slab * padded_ + o;
        run_panel(t, source, phase, at, n, int(width / kLanes<T>));
      }
    }
  }

  static void set_gradient(FilterTile<T>& t, const T* g, int64_t image, int64_t row,
                           int64_t pixel) {
    t.gradient = g;
    t.gradient_strides[0] = image, t.gradient_strides[1] = row, t.gradient_strides[2] = pixel;
  }

  // The gradient of the first output of a row; blocks have one plane.
  const T* first_gradient(int64_t image, const ConvPhase& phase, const Range* at, int64_t row,
                          int64_t group) const {
    const DimPhase* p = phase.dims;
    int64_t pixel = image;
    for (int j = 0; j < 3; j++) {
      int64_t q = j == 1 ? row : at[j].begin;
      pixel = pixel * c_.dims[j].out + p[j].first + q * p[j].every;
    }
    return g_ + (pixel * c_.groups + group) * c_.out_channels;
  }

  // By panel, then by pixel, with zeros for the channels that complete the last vector
  void pack_gradient(const ConvBlock& block, const ConvPhase& phase, const Range* at, int64_t group,
                     Range channels, int64_t pixels, T* to) const {
    const int64_t step = phase.dims[2].every * c_.groups * c_.out_channels;
    int64_t pixel = 0;
    for (int64_t n = block.images.begin; n < block.images.end; n++)
      for (int64_t j = at[1].begin; j < at[1].end; j++) {
        const T* g = first_gradient(n, phase, at, j, group);
        for (int64_t k = at[2].begin; k < at[2].end; k++, pixel++, g += step)
          for (int64_t o = channels.begin; o < channels.end; o += panel()) {
            int64_t width = std::min(panel(), padded_ - o);
            pack_pixel(g + o, std::min(width, c_.out_channels - o), width,
                       to + (o - channels.begin) * pixels + pixel * width);
          }
      }
  }

  static void pack_pixel(const T* g, int64_t n, int64_t width, T* to) {
    constexpr int L = kLanes<T>;
    int64_t i = 0;
    for (; i + L <= n; i += L) store(to + i, load(g + i));
    for (; i < n; i++) to[i] = g[i];
    for (; i < width; i++) to[i] = T(0);
  }

  void run_panel(FilterTile<T> t, const ConvSource<T>& source, const ConvPhase& phase,
                 const Range* at, int64_t channels, int vectors) const {
    const DimPhase* d = phase.dims;
    t.source_strides[0] = source.image;
    const T* corner = source.data;
    for (int j = 0; j < 3; j++) {
      if (j) t.source_strides[j] = d[j].step * source.strides[j];
      corner += at[j].begin * d[j].step * source.strides[j];
    }
    const bool all = channels == c_.in_channels;
    const std::vector<ConvRun> runs =
        conv_runs(phase, source, channels, all ? Adjacent::kOfFilter : Adjacent::kNone);
    T* sums = t.sums;
    size_t run = 0;
    for (int64_t a : d[0].taps)
      for (int64_t b : d[1].taps)
        for (size_t e = 0; e < d[2].taps.size(); run++) {
          int64_t tap = (a * c_.dims[1].taps + b) * c_.dims[2].taps + d[2].taps[e];
          t.source = corner + runs[run].offset;
          t.sums = sums + tap * c_.in_channels * padded_;
          run_rows(t, runs[run].length, vectors);
          e += size_t(runs[run].length / channels);
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
  int64_t padded_, slab_, panels_, elements_, parts_, slices_;
  int vectors_;
  bool packs_;  // whether gradients are copied first
  ConvBlocks blocks_;
  T* sums_ = nullptr;
};

}  // namespace

template <class T>
void convolve_filter(Pool& pool, const ConvShape& c, const T* x, const T* g, T* w) {
  FilterConvolver<T>(c.simplified(), x, g).run(pool, w);
}

template void convolve_filter(Pool&, const ConvShape&, const float*, const float*, float*);
template void convolve_filter(Pool&, const ConvShape&, const double*, const double*, double*);

}  // namespace pullback
