// How a convolution is cut into pieces: phases, in which there are no gaps between the inputs that
// outputs meet, and blocks of outputs, whose inputs are copied with their padding.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "convolution.h"
#include "scratch.h"
#include "vec.h"

namespace pullback {

inline int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
inline int64_t ceil_div(int64_t a, int64_t b) { return -floor_div(-a, b); }

struct Range {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};

// Outputs first + every * q of a dimension meet inputs at[j] + step * q through taps[j], for all q.
struct DimPhase {
  int64_t first, every, step;
  std::vector<int64_t> taps, at;

  Range positions(Range outputs) const {  // the q of a range of outputs
    return {ceil_div(outputs.begin - first, every), ceil_div(outputs.end - first, every)};
  }
};

inline std::vector<DimPhase> dim_phases(const ConvDim& d) {
  int64_t count = d.in_dilation / std::gcd(d.stride, d.in_dilation);
  std::vector<DimPhase> phases;
  for (int64_t first = 0; first < std::min(count, d.out); first++) {
    DimPhase phase{first, count, count * d.stride / d.in_dilation, {}, {}};
    for (int64_t k = 0; k < d.taps; k++) {
      int64_t i = first * d.stride + k * d.dilation - d.low;
      if (i % d.in_dilation == 0) {
        phase.taps.push_back(k);
        phase.at.push_back(i / d.in_dilation);
      }
    }
    phases.push_back(phase);
  }
  return phases;
}

// One phase of each dimension.
struct ConvPhase {
  DimPhase dims[3];
  int64_t taps() const {
    return int64_t(dims[0].taps.size() * dims[1].taps.size() * dims[2].taps.size());
  }
};

inline std::vector<ConvPhase> conv_phases(const ConvShape& c) {
  std::vector<ConvPhase> phases;
  for (const DimPhase& i : dim_phases(c.dims[0]))
    for (const DimPhase& j : dim_phases(c.dims[1]))
      for (const DimPhase& k : dim_phases(c.dims[2])) phases.push_back({{i, j, k}});
  return phases;
}

// The same outputs of some images, and the inputs that they meet.
struct ConvBlock {
  Range images, out[3], in[3];

  int64_t in_pixels() const {
    return images.size() * in[0].size() * in[1].size() * in[2].size();
  }
};

// What a block may hold, and how many blocks are wanted at least, if they need not be tiny. Nothing
// here may depend on the number of threads.
struct BlockLimits {
  int64_t in_pixels, out_pixels, images, wanted;
};

class ConvBlocks {
 public:
  ConvBlocks(const ConvShape& c, const BlockLimits& most) : c_(c) {
    sizes_[1] = c.dims[1].out;
    sizes_[2] = c.dims[2].out;
    while ((in_pixels() > most.in_pixels || out_pixels() > most.out_pixels) && halve(16)) {}
    while (c.batch * per_image() < most.wanted && halve(8)) {}
    int64_t pixels = std::min(most.in_pixels / in_pixels(), most.out_pixels / out_pixels());
    int64_t fair = c.batch * per_image() / most.wanted;
    images_ = std::max<int64_t>(1, std::min({pixels, fair, most.images, c.batch}));
  }

  int64_t count() const { return ceil_div(c_.batch, images_) * per_image(); }

  ConvBlock operator[](int64_t i) const {
    int64_t image = i / per_image() * images_;
    ConvBlock block{{image, std::min(image + images_, c_.batch)}, {}, {}};
    i %= per_image();
    int64_t at[3] = {i / (parts(1) * parts(2)), i / parts(2) % parts(1), i % parts(2)};
    for (int j = 0; j < 3; j++) {
      int64_t n = c_.dims[j].out, count = parts(j);
      block.out[j] = {n * at[j] / count, n * (at[j] + 1) / count};
      block.in[j] = inputs(c_.dims[j], block.out[j]);
    }
    return block;
  }

 private:
  static Range inputs(const ConvDim& d, Range out) {
    int64_t last = (out.end - 1) * d.stride + (d.taps - 1) * d.dilation - d.low;
    return {floor_div(out.begin * d.stride - d.low, d.in_dilation),
            floor_div(last, d.in_dilation) + 1};
  }
  int64_t parts(int j) const { return ceil_div(c_.dims[j].out, sizes_[j]); }
  int64_t per_image() const { return parts(0) * parts(1) * parts(2); }
  int64_t out_pixels() const { return sizes_[0] * sizes_[1] * sizes_[2]; }
  int64_t in_pixels() const {
    int64_t n = 1;
    for (int j = 0; j < 3; j++) n *= inputs(c_.dims[j], {0, sizes_[j]}).size();
    return std::max<int64_t>(n, 1);
  }
  bool halve(int64_t least) {  // rows stay whole as long as there are several
    int j = sizes_[1] > 1 ? 1 : 2;
    if (j == 2 && sizes_[2] <= least) return false;
    sizes_[j] = ceil_div(sizes_[j], 2);
    return true;
  }

  const ConvShape& c_;
  int64_t sizes_[3] = {1, 1, 1}, images_ = 1;
};

// The inputs of a block: an element is at data + sum((i - start) * stride) + channel.
template <class T> struct ConvSource {
  const T* data;
  int64_t image, strides[3], start[3];  // from an image to the next; of spatial dimensions

  int64_t offset(int64_t i, int64_t j, int64_t k) const {
    return (i - start[0]) * strides[0] + (j - start[1]) * strides[1] + (k - start[2]) * strides[2];
  }
};

// `count` channels of n pixels that are `all` elements apart
template <class T>
inline void copy_channels(const T* from, int64_t all, int64_t n, int64_t count, T* to) {
  constexpr int L = kLanes<T>;
  if (count == all) {
    std::copy(from, from + n * all, to);
  } else if (count >= L) {
    for (int64_t i = 0; i < n; i++, from += all, to += count) {
      for (int64_t k = 0; k + L <= count; k += L) store(to + k, load(from + k));
      store(to + count - L, load(from + count - L));
    }
  } else {
    for (int64_t i = 0; i < n; i++, from += all, to += count)
      for (int64_t k = 0; k < count; k++) to[k] = from[k];
  }
}

// `count` channels from `channel` on of a block's inputs, with zeros around the images; they are
// copied to `buffer` unless they are side by side in the images themselves.
template <class T>
ConvSource<T> conv_source(const ConvShape& c, const ConvBlock& b, const T* x, int64_t channel,
                          int64_t count, T* buffer) {
  const ConvDim* d = c.dims;
  const Range *in = b.in, columns = in[2];
  const int64_t all = c.groups * c.in_channels;
  const int64_t strides[3] = {d[0].step * all, d[1].step * all, d[2].step * all};
  const int64_t size = c.image * all;
  x += b.images.begin * size + channel;
  bool inside = count == all;
  for (int j = 0; j < 3; j++) inside &= in[j].begin >= 0 && in[j].end <= d[j].in;
  if (inside)
    return {x + in[0].begin * strides[0] + in[1].begin * strides[1] + columns.begin * strides[2],
            size,
            {strides[0], strides[1], strides[2]},
            {in[0].begin, in[1].begin, columns.begin}};
  const int64_t row = columns.size() * count;
  const int64_t from = std::clamp<int64_t>(columns.begin, 0, d[2].in);
  const int64_t to = std::max(from, std::min(columns.end, d[2].in));
  T* p = buffer;
  for (int64_t n = 0; n < b.images.size(); n++)
    for (int64_t i = in[0].begin; i < in[0].end; i++)
      for (int64_t j = in[1].begin; j < in[1].end; j++, p += row) {
        if (i < 0 || i >= d[0].in || j < 0 || j >= d[1].in || from == to) {
          std::fill(p, p + row, T(0));
          continue;
        }
        T* q = std::fill_n(p, (from - columns.begin) * count, T(0));
        const T* s = x + n * size + i * strides[0] + j * strides[1] + from * strides[2];
        copy_channels(s, strides[2], to - from, count, q);
        std::fill(q + (to - from) * count, p + row, T(0));
      }
  int64_t plane = in[1].size() * row;
  return {buffer, in[0].size() * plane, {plane, row, count},
          {in[0].begin, in[1].begin, columns.begin}};
}

// A stretch of elements, taps and channels, that are adjacent in the source and in the filter.
struct ConvRun {
  int64_t offset, length;
};

// Which taps of a row are side by side in the filter, all channels of one after those of another.
enum class Adjacent { kOfPhase, kOfFilter, kNone };

// The runs of a phase at its position 0.
template <class T>
std::vector<ConvRun> conv_runs(const ConvPhase& phase, const ConvSource<T>& s, int64_t channels,
                               Adjacent taps) {
  const DimPhase& last = phase.dims[2];
  std::vector<ConvRun> runs;
  for (int64_t i : phase.dims[0].at)
    for (int64_t j : phase.dims[1].at)
      for (size_t k = 0; k < last.at.size(); k++) {
        bool joined = k && last.at[k] == last.at[k - 1] + 1 && s.strides[2] == channels &&
                      (taps == Adjacent::kOfPhase ||
                       (taps == Adjacent::kOfFilter && last.taps[k] == last.taps[k - 1] + 1));
        if (joined) runs.back().length += channels;
        else runs.push_back({s.offset(i, j, last.at[k]), channels});
      }
  return runs;
}

// Register tiles have rows (pixels, or elements of a filter) times vectors of output channels.
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int kAccumulators = 24;
#else
constexpr int kAccumulators = 12;
#endif
constexpr int kMostVectors = 4, kMostRows = 12;
constexpr int most_rows(int vectors) {
  return kAccumulators / vectors < kMostRows ? kAccumulators / vectors : kMostRows;
}

// The size of the largest of equal tiles that make up n rows.
inline int64_t tile_rows(int64_t n, int vectors) {
  return n ? ceil_div(n, ceil_div(n, most_rows(vectors))) : 1;
}

// How many vectors wide tiles should be, for so many rows and channels.
template <class T> int tile_vectors(int64_t rows, int64_t channels) {
  int best = 1;
  double least = 0;
  for (int v = 1; v <= kMostVectors; v++) {
    int64_t height = tile_rows(rows, v), wide = ceil_div(channels, kLanes<T>);
    // Products, and loads that do not quite hide behind them
    double tile = double(height * v + v) + 0.5 * double(height);
    if (height * v < 8) tile += double(8 - height * v);  // too few to hide the latency
    double cost = tile * double(ceil_div(wide, v) * ceil_div(rows, height));
    if (v == 1 || cost < least) least = cost, best = v;
  }
  return best;
}

}  // namespace pullback
