// What forms with coefficients make of complex rows: compiled once, where no instruction fuses a product with a sum.
#include <cmath>
#include <cstring>

#include "flagstone/kernel/stencil/weight_row.hpp"

namespace flagstone::kernel {
namespace {

template <class R>
struct Complex {
  R re, im;
  friend Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
  friend Complex operator-(Complex a, Complex b) { return {a.re - b.re, a.im - b.im}; }
  friend Complex operator*(Complex a, Complex b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
  /// Smith's division (1962), as NumPy and element-wise loops do it.
  friend Complex operator/(Complex a, Complex b) {
    if (std::abs(b.re) >= std::abs(b.im)) {
      if (b.re == 0 && b.im == 0) return {a.re / std::abs(b.re), a.im / std::abs(b.re)};
      const R ratio = b.im / b.re, scale = R(1) / (b.re + b.im * ratio);
      return {(a.re + a.im * ratio) * scale, (a.im - a.re * ratio) * scale};
    }
    const R ratio = b.re / b.im, scale = R(1) / (b.im + b.re * ratio);
    return {(a.re * ratio + a.im) * scale, (a.im * ratio - a.re) * scale};
  }
};

template <class R>
void finish(WeightsForm form, const WeightRow& row, const std::byte* sums) {
  using Z = Complex<R>;
  const auto at = [](const std::byte* from, Index i, Index step) {
    Z value;
    std::memcpy(&value, from + i * step, sizeof(Z));
    return value;
  };
  constexpr auto item = static_cast<Index>(sizeof(Z));
  const bool swings = form == WeightsForm::wave || form == WeightsForm::damped_wave;
  const bool second = form == WeightsForm::grow_source || form == WeightsForm::damped_wave;
  for (Index i = 0; i < row.n; ++i) {
    const Z now = at(row.centre, i, item), step = at(row.coefficients[0], i, row.steps[0]) * at(sums, i, item);
    const Z before = swings ? at(row.before, i, item) : Z{}, one{1, 0};
    const Z s = second ? at(row.coefficients[1], i, row.steps[1]) : Z{};
    Z next = now + step;
    if (form == WeightsForm::grow_source) next = next + s;
    if (form == WeightsForm::wave) next = ((now + now) - before) + step;
    if (form == WeightsForm::damped_wave) next = (((now + now) - (one - s) * before) + step) / (one + s);
    std::memcpy(row.to + i * item, &next, sizeof(Z));
  }
}

}  // namespace

void finish_complex_row(Dtype dtype, WeightsForm form, const WeightRow& row, const std::byte* sums) {
  return dtype == Dtype::complex64 ? finish<float>(form, row, sums) : finish<double>(form, row, sums);
}

}  // namespace flagstone::kernel
