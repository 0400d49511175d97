// Which keys queries see.
#pragma once

#include "attention_tile.h"

namespace pullback {
namespace attention {

enum class Seen { none, some, all };

// Adds biases to the scores of a tile and hides the keys that are not seen.
template <class T> class Mask {
 public:
  static constexpr int L = kLanes<T>;
  static constexpr int64_t W = kTile<T>;

  Mask(const AttentionInput<T>& in, const Queries& q) : in_(in), q_(q) {
    using Integer = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
    Integer at[W];
    for (int64_t r = 0; r < W; r++) at[r] = q.position(std::min(q.begin + r, q.end - 1));
    for (int i = 0; i < 2; i++) positions_[i] = load(at + i * L);
    // The weights of hidden keys are 0, unless there are only hidden ones.
    bool known = in.zero_rows && in.fill == -kInfinity<T>;
    skips_ = known || (in.fill <= T(-1e8) && all_rows_see());
    begin = skips_ ? std::clamp<int64_t>(q.first() + in.lower, 0, in.size.keys) : 0;
    end = skips_ ? std::clamp<int64_t>(q.last() + in.upper + 1, begin, in.size.keys) : in.size.keys;
  }

  int64_t begin, end;  // outside of these, all keys are hidden by their positions

  // Let hidden keys count with the weight 0, which matters if something is not finite.
  void skip_nothing() { skips_ = false, begin = 0, end = in_.size.keys; }

  // Look for keys [first, last) that are seen; the range gets smaller if those at an end are not.
  Seen look(int64_t& first, int64_t& last) const {
    if (first >= last) return Seen::none;
    if (!in_.mask.data) return Seen::all;
    uint8_t any[kKeys] = {}, every[kKeys];
    std::fill(every, every + kKeys, 1);
    for (int64_t r = 0; r < (alike(in_.mask) ? 1 : q_.count()); r++) {
      const uint8_t* p = row_of(in_.mask, r) + first * in_.mask.element;
      if (in_.mask.element == 1)
        for (int64_t j = 0; j < last - first; j++) any[j] |= p[j], every[j] &= p[j];
      else
        for (int64_t j = 0; j < last - first; j++)
          any[j] |= p[j * in_.mask.element], every[j] &= p[j * in_.mask.element];
    }
    int64_t begin = 0, end = last - first;
    if (skips_) {
      while (end > 0 && !any[end - 1]) end--;
      while (begin < end && !any[begin]) begin++;
    }
    last = first + end, first += begin;
    bool all = std::all_of(every + begin, every + end, [](uint8_t x) { return x; });
    return begin == end ? Seen::none : all ? Seen::all : Seen::some;
  }

  // The scores of keys [first, last), stored from `s` on; rows up to `stop` are for no key.
  void apply(T* s, int64_t first, int64_t last, int64_t stop, Seen seen) const {
    if (in_.bias.data) add(s, first, last);
    if (seen == Seen::some) hide(s, first, last, in_.fill);
    if (!in_band(first, last)) band(s, first, last, in_.fill);
    std::fill(s + (last - first) * W, s + (stop - first) * W, -kInfinity<T>);
  }

  // The gradients of scores, 0 where a score is hidden and in rows that are for no key.
  void clear(T* ds, int64_t first, int64_t last, int64_t stop, Seen seen) const {
    std::fill(ds + (last - first) * W, ds + (stop - first) * W, T(0));
    if (seen == Seen::some) hide(ds, first, last, T(0));
    if (!in_band(first, last)) band(ds, first, last, T(0));
  }

 private:
  // Whether all queries see all of these keys by their positions.
  bool in_band(int64_t first, int64_t last) const {
    return last - 1 - q_.first() <= in_.upper && first - q_.last() >= in_.lower;
  }

  bool all_rows_see() const {
    for (int64_t r = 0; r < q_.count(); r++) {
      int64_t i = q_.position(q_.begin + r), keys = in_.size.keys;
      int64_t j = std::max<int64_t>(i + in_.lower, 0), stop = std::min(i + in_.upper + 1, keys);
      const Strided<const uint8_t>& m = in_.mask;
      while (m.data && j < stop && !row_of(m, r)[j * m.element]) j++;
      if (j >= stop) return false;
    }
    return true;
  }

  void band(T* s, int64_t first, int64_t last, T fill) const {
    constexpr int64_t far = int64_t(1) << 30;
    int32_t lower = int32_t(std::max(in_.lower, -far)), upper = int32_t(std::min(in_.upper, far));
    for (int64_t j = first; j < last; j++, s += W)
      for (int i = 0; i < 2; i++) {
        VecBits<T> away = int32_t(j) - positions_[i];
        Vec<T> x = load(s + i * L);
        x = away > upper ? broadcast(fill) : x;
        x = away < lower ? broadcast(fill) : x;
        store(s + i * L, x);
      }
  }

  template <class M> const M* row_of(const Strided<const M>& x, int64_t r) const {
    int64_t row = q_.begin + std::min(r, q_.count() - 1);
    return x.at(q_.batch, q_.head_of(row), q_.position(row));
  }

  // Whether all queries of the tile have the same values.
  template <class M> bool alike(const Strided<const M>& x) const {
    return x.row == 0 && (x.head == 0 || q_.one_head());
  }

  void hide(T* s, int64_t first, int64_t last, T fill) const {
    const auto& x = in_.mask;
    if (alike(x)) {
      const uint8_t* p = row_of(x, 0);
      for (int64_t j = first; j < last; j++, s += W)
        if (!p[j * x.element]) std::fill(s, s + W, fill);
      return;
    }
    for (int64_t r = 0; r < q_.count(); r++) {
      const uint8_t* p = row_of(x, r);
      for (int64_t j = first; j < last; j++) {
        T& y = s[(j - first) * W + r];
        y = p[j * x.element] ? y : fill;
      }
    }
  }

  void add(T* s, int64_t first, int64_t last) const {
    const auto& x = in_.bias;
    if (alike(x)) {
      const T* p = row_of(x, 0);
      for (int64_t j = first; j < last; j++, s += W)
        for (int i = 0; i < 2; i++) store(s + i * L, load(s + i * L) + p[j * x.element]);
      return;
    }
    for (int64_t r = 0; r < q_.count(); r++) {
      const T* p = row_of(x, r);
      for (int64_t j = first; j < last; j++) s[(j - first) * W + r] += p[j * x.element];
    }
  }

  const AttentionInput<T>& in_;
  const Queries& q_;
  bool skips_;
  VecBits<T> positions_[2];
};

}  // namespace attention
}  // namespace pullback
