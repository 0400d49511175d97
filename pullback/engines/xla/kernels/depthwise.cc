// Depthwise convolutions: vectors are of channels, in the input, the filter and the output.
#include "conv_blocks.h"

namespace pullback {
namespace {

constexpr int64_t kSourceBytes = 128 << 10;
constexpr int64_t kBlocks = 16, kProducts = 1 << 17;
constexpr int kPixels = 6, kTaps = 9;  // of a register tile

// All channels of all groups as those of one
ConvShape joined(const ConvShape& c) {
  ConvShape all = c.simplified();
  all.in_channels = all.out_channels = c.groups;
  all.groups = 1;
  return all;
}

// The blocks of outputs, as many as are worth a thread.
template <class T> ConvBlocks depthwise_blocks(const ConvShape& c) {
  int64_t products = c.batch * c.out_pixels() * c.taps() * c.in_channels;
  int64_t pixels = kSourceBytes / (c.in_channels * int64_t(sizeof(T)));
  return ConvBlocks(c, {pixels, c.out_pixels(), 1, std::min(kBlocks, 1 + products / kProducts)});
}

// The channel that each vector begins with: the last may overlap the one before.
template <class T> int64_t vector_start(int64_t channels, int64_t i) {
  return std::min(i * kLanes<T>, channels - kLanes<T>);
}

template <class T> struct DepthwiseRow {
  const T* source;
  int64_t pixel;
  std::vector<int64_t> offsets;  // of the taps in the source
  std::vector<const T*> filter;  // of each tap
  T* out;
  int64_t out_pixel;
};

template <class T, int Pixels>
void run_depthwise_pixels(const DepthwiseRow<T>& r, int64_t first, int64_t channel) {
  Vec<T> acc[Pixels] = {};
  const T* s = r.source + first * r.pixel + channel;
  for (size_t k = 0; k < r.offsets.size(); k++) {
    Vec<T> w = load(r.filter[k] + channel);
    for (int p = 0; p < Pixels; p++) acc[p] += load(s + r.offsets[k] + p * r.pixel) * w;
  }
  for (int p = 0; p < Pixels; p++) store(r.out + (first + p) * r.out_pixel + channel, acc[p]);
}

template <class T> void run_depthwise_row(const DepthwiseRow<T>& r, int64_t n, int64_t channels) {
  for (int64_t v = 0; v < ceil_div(channels, kLanes<T>); v++) {
    int64_t channel = vector_start<T>(channels, v), p = 0;
    for (; p + kPixels <= n; p += kPixels) run_depthwise_pixels<T, kPixels>(r, p, channel);
    for (; p + 2 <= n; p += 2) run_depthwise_pixels<T, 2>(r, p, channel);
    for (; p < n; p++) run_depthwise_pixels<T, 1>(r, p, channel);
  }
}

// sums[k, :] += source at tap k * gradient, over a row of pixels
template <class T, int Taps>
void run_depthwise_taps(const T* s, int64_t pixel, const int64_t* offsets, const T* g,
                        int64_t gradient_pixel, int64_t n, T* const* sums, int64_t channel) {
  Vec<T> acc[Taps];
  for (int k = 0; k < Taps; k++) acc[k] = load(sums[k] + channel);
  s += channel, g += channel;
  for (int64_t p = 0; p < n; p++, s += pixel, g += gradient_pixel) {
    Vec<T> row = load(g);
    for (int k = 0; k < Taps; k++) acc[k] += load(s + offsets[k]) * row;
  }
  for (int k = 0; k < Taps; k++) store(sums[k] + channel, acc[k]);
}

// The taps of a phase, in the order of conv_runs without joining.
std::vector<int64_t> phase_taps(const ConvShape& c, const ConvPhase& phase) {
  std::vector<int64_t> taps;
  for (int64_t i : phase.dims[0].taps)
    for (int64_t j : phase.dims[1].taps)
      for (int64_t k : phase.dims[2].taps)
        taps.push_back((i * c.dims[1].taps + j) * c.dims[2].taps + k);
  return taps;
}

template <class T>
std::vector<int64_t> tap_offsets(const ConvPhase& phase, const ConvSource<T>& source) {
  std::vector<int64_t> offsets;
  for (const ConvRun& run : conv_runs(phase, source, 0, Adjacent::kNone))
    offsets.push_back(run.offset);
  return offsets;
}

// Calls f(source row, first output pixel, number of pixels) for each row of a phase in a block.
template <class T, class F>
void each_row(const ConvShape& c, const ConvBlock& block, const ConvPhase& phase,
              const ConvSource<T>& source, F&& f) {
  const DimPhase* d = phase.dims;
  Range at[3];
  for (int j = 0; j < 3; j++) at[j] = d[j].positions(block.out[j]);
  for (int64_t n = block.images.begin; n < block.images.end; n++)
    for (int64_t i = at[0].begin; i < at[0].end; i++)
      for (int64_t j = at[1].begin; j < at[1].end; j++) {
        const T* row = source.data + (n - block.images.begin) * source.image +
                       i * d[0].step * source.strides[0] + j * d[1].step * source.strides[1] +
                       at[2].begin * d[2].step * source.strides[2];
        int64_t out = n * c.dims[0].out + d[0].first + i * d[0].every;
        out = out * c.dims[1].out + d[1].first + j * d[1].every;
        out = out * c.dims[2].out + d[2].first + at[2].begin * d[2].every;
        if (at[2].size() > 0) f(row, out, at[2].size());
      }
}

}  // namespace

template <class T>
void convolve_depthwise(Pool& pool, const ConvShape& given, const T* x, const T* w, bool transposed,
                        T* y) {
  const ConvShape c = joined(given);
  const int64_t channels = c.in_channels;
  const std::vector<ConvPhase> phases = conv_phases(c);
  const ConvBlocks blocks = depthwise_blocks<T>(c);
  pool.each(blocks.count(), [&](int64_t i) {
    const ConvBlock block = blocks[i];
    Scratch<T> buffer(block.in_pixels() * channels);
    ConvSource<T> source = conv_source(c, block, x, 0, channels, buffer.data());
    for (const ConvPhase& phase : phases) {
      DepthwiseRow<T> r;
      r.pixel = phase.dims[2].step * source.strides[2];
      r.out_pixel = phase.dims[2].every * channels;
      r.offsets = tap_offsets(phase, source);
      for (int64_t tap : phase_taps(c, phase))
        r.filter.push_back(w + (transposed ? c.taps() - 1 - tap : tap) * channels);
      each_row(c, block, phase, source, [&](const T* row, int64_t out, int64_t n) {
        r.source = row;
        r.out = y + out * channels;
        run_depthwise_row(r, n, channels);
      });
    }
  });
}

template <class T>
void convolve_depthwise_filter(Pool& pool, const ConvShape& given, const T* x, const T* g, T* w) {
  const ConvShape c = joined(given);
  const int64_t channels = c.in_channels, size = c.taps() * channels;
  const std::vector<ConvPhase> phases = conv_phases(c);
  const ConvBlocks blocks = depthwise_blocks<T>(c);
  const int64_t parts = std::min(kBlocks, blocks.count());
  Scratch<T> all(parts * size);
  // Sums of the overlapping last vector would count twice: it has a row of its own.
  const int64_t whole = channels / kLanes<T> * kLanes<T>, rest = channels - whole;
  Scratch<T> lasts(parts * c.taps() * kLanes<T>);
  pool.each(parts, [&](int64_t part) {
    T *sums = all.data() + part * size, *last = lasts.data() + part * c.taps() * kLanes<T>;
    std::fill_n(sums, size, T(0));
    std::fill_n(last, c.taps() * kLanes<T>, T(0));
    const int64_t count = blocks.count();
    for (int64_t i = count * part / parts; i < count * (part + 1) / parts; i++) {
      const ConvBlock block = blocks[i];
      Scratch<T> buffer(block.in_pixels() * channels);
      ConvSource<T> source = conv_source(c, block, x, 0, channels, buffer.data());
      for (const ConvPhase& phase : phases) {
        const std::vector<int64_t> taps = phase_taps(c, phase), at = tap_offsets(phase, source);
        std::vector<T*> rows, tails;
        for (int64_t tap : taps) {
          rows.push_back(sums + tap * channels);
          tails.push_back(last + tap * kLanes<T> - (channels - kLanes<T>));
        }
        each_row(c, block, phase, source, [&](const T* row, int64_t out, int64_t n) {
          const int64_t pixel = phase.dims[2].step * source.strides[2];
          const int64_t next = phase.dims[2].every * channels;
          auto run = [&](int64_t channel, const std::vector<T*>& to) {
            const T* from = g + out * channels;
            size_t k = 0;
            for (; k + kTaps <= taps.size(); k += kTaps)
              run_depthwise_taps<T, kTaps>(row, pixel, &at[k], from, next, n, &to[k], channel);
            for (; k + 3 <= taps.size(); k += 3)
              run_depthwise_taps<T, 3>(row, pixel, &at[k], from, next, n, &to[k], channel);
            for (; k < taps.size(); k++)
              run_depthwise_taps<T, 1>(row, pixel, &at[k], from, next, n, &to[k], channel);
          };
          for (int64_t channel = 0; channel < whole; channel += kLanes<T>) run(channel, rows);
          if (rest) run(channels - kLanes<T>, tails);
        });
      }
    }
  });
  for (int64_t tap = 0; tap < c.taps(); tap++)
    for (int64_t i = 0; i < channels; i++) {
      T sum = 0;
      for (int64_t part = 0; part < parts; part++)
        sum += i < whole ? all.data()[part * size + tap * channels + i]
                         : lasts.data()[(part * c.taps() + tap) * kLanes<T> + i -
                                        (channels - kLanes<T>)];
      w[tap * channels + i] = sum;
    }
}

template void convolve_depthwise(Pool&, const ConvShape&, const float*, const float*, bool, float*);
template void convolve_depthwise(Pool&, const ConvShape&, const double*, const double*, bool,
                                 double*);
template void convolve_depthwise_filter(Pool&, const ConvShape&, const float*, const float*, float*);
template void convolve_depthwise_filter(Pool&, const ConvShape&, const double*, const double*,
                                        double*);

}  // namespace pullback
