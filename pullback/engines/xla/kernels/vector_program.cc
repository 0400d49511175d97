#include "vector_program.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "scratch.h"
#include "vec_math.h"

namespace pullback {
namespace {

// Elements of a value that are computed at a time: enough for the choice of a step to cost little,
// and few enough for some twenty values in the nearest cache.
template <class T> constexpr int64_t kPiece = 2048 / sizeof(T);

template <class T> inline Vec<T> larger(Vec<T> x, Vec<T> y) {  // NaN if either is
  Vec<T> most = x > y ? x : y;
  return x != x ? x : most;
}

template <class T> inline Vec<T> smaller(Vec<T> x, Vec<T> y) {
  Vec<T> least = x < y ? x : y;
  return x != x ? x : least;
}

// 1 / (1 + exp(-x)) within 3 ulp; NaN stays. Subnormal results may be 0.
template <class T> inline Vec<T> logistic(Vec<T> x) {
  using C = ExpConstants<T>;
  constexpr T least = -(C::bias - 1) * T(0.6931);
  constexpr T most = (C::bias + 1) * T(0.6932);  // 2^n is infinite there
  constexpr T shift = C::round + C::bias;
  Vec<T> u = x > -least ? broadcast(least) : -x;  // comparisons with NaN are false
  u = u > most ? broadcast(most) : u;
  Vec<T> shifted = u * C::log2e + shift;
  Vec<T> power = bit_cast<Vec<T>>(bit_cast<VecBits<T>>(shifted) << C::mantissa);  // 2^n
  return T(1) / (exp_near_zero<T>(u, shifted - shift) * power + T(1));
}

// tanh(x) by the quotient of polynomials that XLA uses, within 5 ulp; NaN stays.
inline Vec<float> quick_tanh(Vec<float> x) {
  constexpr float above[] = {-2.76076847742355e-16f, 2.00018790482477e-13f, -8.60467152213735e-11f,
                             5.12229709037114e-08f,  1.48572235717979e-05f, 6.37261928875436e-04f,
                             4.89352455891786e-03f};
  constexpr float below[] = {1.19825839466702e-06f, 1.18534705686654e-04f, 2.26843463243900e-03f,
                             4.89352518554385e-03f};
  constexpr float far = 7.99881172180175781f;  // where the result is 1
  x = x > far ? broadcast(far) : x;
  x = x < -far ? broadcast(-far) : x;
  Vec<float> square = x * x, p = broadcast(above[0]), q = broadcast(below[0]);
  for (int i = 1; i < 7; i++) p = p * square + above[i];
  for (int i = 1; i < 4; i++) q = q * square + below[i];
  return x * p / q;
}
inline Vec<double> quick_tanh(Vec<double> x) { return tanh(x); }

template <class T, class F>
inline void each(T* to, const T* x, const T* y, int64_t n, F f) {
  for (int64_t i = 0; i < n; i += kLanes<T>) store(to + i, f(load(x + i), load(y + i)));
}

template <class T>
void take_step(VectorOp op, T* to, const T* x, const T* y, int64_t n) {
  using V = Vec<T>;
  switch (op) {
    case VectorOp::kAdd: return each(to, x, y, n, [](V a, V b) { return a + b; });
    case VectorOp::kSubtract: return each(to, x, y, n, [](V a, V b) { return a - b; });
    case VectorOp::kMultiply: return each(to, x, y, n, [](V a, V b) { return a * b; });
    case VectorOp::kDivide: return each(to, x, y, n, [](V a, V b) { return a / b; });
    case VectorOp::kMaximum: return each(to, x, y, n, [](V a, V b) { return larger<T>(a, b); });
    case VectorOp::kMinimum: return each(to, x, y, n, [](V a, V b) { return smaller<T>(a, b); });
    case VectorOp::kNegate: return each(to, x, x, n, [](V a, V) { return -a; });
    case VectorOp::kExponential: return each(to, x, x, n, [](V a, V) { return exp<T>(a); });
    case VectorOp::kLogistic: return each(to, x, x, n, [](V a, V) { return logistic<T>(a); });
    case VectorOp::kTanh: return each(to, x, x, n, [](V a, V) { return quick_tanh(a); });
  }
}

template <class T> inline void copy(const T* from, int64_t n, T* to) {
  int64_t i = 0;
  for (; i + kLanes<T> <= n; i += kLanes<T>) store(to + i, load(from + i));
  if (i < n) std::memcpy(to + i, from + i, (n - i) * sizeof(T));
}

template <class T> inline void copy_far(const T* from, int64_t n, T* to) {
  if (n % kLanes<T> || reinterpret_cast<uintptr_t>(to) % kVectorBytes) return copy(from, n, to);
  for (int64_t i = 0; i < n; i += kLanes<T>) stream(to + i, load(from + i));
}

template <class T> inline void fetch(const T* from, int64_t n) {
  for (int64_t i = 0; i < n; i += 64 / sizeof(T)) __builtin_prefetch(from + i, 0, 2);
}

// The memory of a thread: a piece of each value.
template <class T> class Runner {
 public:
  explicit Runner(const VectorProgram<T>& p) : p_(p), memory_(p.values * kPiece<T>), at_(p.values) {
    for (int64_t i = 0; i < p.constant_count; i++)
      std::fill_n(own(p.input_count + i), kPiece<T>, p.constants[i]);
  }

  // Elements of whole rows, or of a part of one.
  void run(int64_t row, int64_t rows, int64_t column, int64_t columns) {
    const int64_t n = rows * columns;
    for (int64_t i = 0; i < p_.values; i++)
      at_[i] = i < p_.input_count ? input(i, row, rows, column, columns) : own(i);
    for (int64_t i = 0; i < p_.output_count; i++) place(p_.outputs[i], row, rows, column, columns);
    for (int64_t i = 0; i < p_.step_count; i++) {
      const VectorStep& s = p_.steps[i];
      if (i < p_.input_count && p_.inputs[i].ahead) fetch(at_[i] + p_.inputs[i].ahead, n);
      take_step<T>(s.op, const_cast<T*>(at_[s.to]), at_[s.x], at_[s.y], n);
    }
    for (int64_t i = 0; i < p_.output_count; i++) {
      const VectorOutput<T>& y = p_.outputs[i];
      T* to = y.data + row * y.row + column;
      const T* from = at_[y.value];
      for (int64_t j = 0; j < rows && to != from; j++, to += y.row, from += columns)
        y.far ? copy_far(from, columns, to) : copy(from, columns, to);
    }
  }

 private:
  T* own(int64_t value) const { return memory_.data() + value * kPiece<T>; }

  // A piece of an input: where it is if that is as good, or a copy.
  const T* input(int64_t i, int64_t row, int64_t rows, int64_t column, int64_t columns) const {
    const VectorInput<T>& x = p_.inputs[i];
    const T* from = x.data + row * x.row + column * x.column;
    const bool together = x.column == 1 && (rows == 1 || x.row == columns);
    if (together && rows * columns % kLanes<T> == 0) return from;
    T* to = own(i);
    for (int64_t j = 0; j < rows; j++, from += x.row, to += columns) {
      if (x.column)
        copy(from, columns, to);
      else
        std::fill_n(to, columns, *from);
    }
    return own(i);
  }

  // Let steps write a result where it belongs, if that is in one piece and no input is there.
  void place(const VectorOutput<T>& y, int64_t row, int64_t rows, int64_t column, int64_t columns) {
    if (y.value < p_.input_count + p_.constant_count) return;
    const bool together = rows == 1 || y.row == columns;
    bool direct = !y.far && together && rows * columns % kLanes<T> == 0;
    for (int64_t i = 0; i < p_.input_count; i++) direct &= p_.inputs[i].data != y.data;
    if (direct) at_[y.value] = y.data + row * y.row + column;
  }

  const VectorProgram<T>& p_;
  Scratch<T> memory_;
  std::vector<const T*> at_;
};

// One long row, if all arrays are without gaps.
template <class T> bool is_flat(const VectorProgram<T>& p) {
  bool flat = true;
  for (int64_t i = 0; i < p.input_count; i++)
    flat &= p.inputs[i].column == 1 && p.inputs[i].row == p.columns;
  for (int64_t i = 0; i < p.output_count; i++) flat &= p.outputs[i].row == p.columns;
  return flat;
}

}  // namespace

template <class T> void run(Pool& pool, const VectorProgram<T>& program) {
  VectorProgram<T> p = program;
  if (is_flat(p)) p.columns *= p.rows, p.rows = 1;
  const int64_t together = std::max<int64_t>(1, kPiece<T> / p.columns);  // rows
  const int64_t parts = (p.columns + kPiece<T> - 1) / kPiece<T>;            // of a row
  const int64_t blocks = (p.rows + together - 1) / together;
  pool.ranges(blocks * parts, 16, 64, [&](int64_t begin, int64_t end) {
    Runner<T> runner(p);
    for (int64_t i = begin; i < end; i++) {
      const int64_t row = i / parts * together, part = i % parts * kPiece<T>;
      runner.run(row, std::min(together, p.rows - row), part,
                 std::min(kPiece<T>, p.columns - part));
    }
    end_streams();
  });
}

template void run<float>(Pool&, const VectorProgram<float>&);
template void run<double>(Pool&, const VectorProgram<double>&);

}  // namespace pullback
