// Convolutions, and their gradients, of images [batch, spatial..., channels], by rows.
#pragma once

#include "pool.h"

namespace pullback {

// A spatial dimension: output r meets input i through tap k of the filter where
// i * in_dilation = r * stride + k * dilation - low.
struct ConvDim {
  int64_t in = 1, out = 1, taps = 1, stride = 1, low = 0, in_dilation = 1, dilation = 1;
};

struct ConvShape {
  int64_t batch, groups, in_channels, out_channels;  // channels of one group
  ConvDim dims[3];

  int64_t taps() const { return dims[0].taps * dims[1].taps * dims[2].taps; }
  int64_t in_pixels() const { return dims[0].in * dims[1].in * dims[2].in; }
  int64_t out_pixels() const { return dims[0].out * dims[1].out * dims[2].out; }
  bool depthwise() const { return groups > 1 && in_channels == 1 && out_channels == 1; }

  // The convolution that gives the gradient of the input from that of the output.
  ConvShape transposed() const;
};

// y from x and the filter w [taps..., in_channels, groups * out_channels]. With `transposed`, w is
// the filter of the convolution that this one is the transpose of.
template <class T>
void convolve(Pool& pool, const ConvShape& c, const T* x, const T* w, bool transposed, T* y);

// The gradient of the filter: the sum over all outputs of inputs times output gradients.
template <class T>
void convolve_filter(Pool& pool, const ConvShape& c, const T* x, const T* g, T* w);

// The same for depthwise convolutions: each channel has a filter w [taps..., channels] of its own.
template <class T>
void convolve_depthwise(Pool& pool, const ConvShape& c, const T* x, const T* w, bool transposed,
                        T* y);
template <class T>
void convolve_depthwise_filter(Pool& pool, const ConvShape& c, const T* x, const T* g, T* w);

}  // namespace pullback
