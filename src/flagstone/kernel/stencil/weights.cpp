#include "flagstone/kernel/stencil/weights.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/base/real_types.hpp"
#include "flagstone/kernel/stencil/weight_row.hpp"

namespace flagstone::kernel {
namespace {

WeightRowLoop chosen(Dtype dtype, WeightsForm form) {
#ifdef FLAGSTONE_WIDE_KERNELS
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw"))
    return weight_row_avx512(dtype, form);
  if (__builtin_cpu_supports("avx2")) return weight_row_avx2(dtype, form);
#endif
  return weight_row_baseline(dtype, form);
}

/// W(u) of a complex field is one of real numbers, two a point: weights are real, so both parts go their own ways. With
/// coefficients they belong together: W(u) of some points first, then what the form makes of it.
class WeightsKernel final : public PlaneKernel {
 public:
  WeightsKernel(Dtype dtype, WeightsForm form, std::vector<WeightedNeighbour> neighbours)
      : item_(static_cast<Index>(size_of(dtype))),
        real_(real_part_of(dtype)),
        parts_(is_complex(dtype) ? 2 : 1),
        together_(is_complex(dtype) && form != WeightsForm::sum && form != WeightsForm::swing),
        dtype_(dtype),
        form_(form),
        loop_(chosen(real_, together_ ? WeightsForm::sum : form)) {
    if (!loop_) throw ShapeError("stencil: weights of " + std::string(name_of(dtype)) + " have no such form.");
    std::sort(neighbours.begin(), neighbours.end(), [](auto& a, auto& b) { return a.offset < b.offset; });
    std::vector<bool> taken(neighbours.size());
    for (std::size_t first = 0; first < neighbours.size(); ++first) {
      if (taken[first]) continue;
      for (std::size_t i = first; i < neighbours.size(); ++i) {
        if (taken[i] || (i != first && neighbours[i].weight != neighbours[first].weight)) continue;  // NaN: alone
        taken[i] = true;
        offsets_.push_back(neighbours[i].offset);
      }
      ends_.push_back(static_cast<int>(offsets_.size()));
      enter_weight(neighbours[first].weight);
    }
    for (const Axes& offset : offsets_)
      for (std::size_t d = 0; d < 3; ++d) radius_[d] = std::max(radius_[d], std::abs(offset[d]));
    flops_ = static_cast<double>(offsets_.size() + ends_.size()) + (form == WeightsForm::sum ? -1 : 3);
  }

  void run(const PlaneCall& call, std::byte* scratch) const override {
    auto* const terms = reinterpret_cast<const std::byte**>(scratch);
    std::byte* const sums = scratch + terms_bytes();
    const Index longest = together_ ? piece : call.columns;
    WeightRow row;
    row.terms = terms, row.ends = ends_.data(), row.weights = weights_.data();
    row.groups = static_cast<int>(ends_.size());
    for (Index y = 0; y < call.rows; ++y)
      for (Index x = 0; x < call.columns; x += longest) {
        for (std::size_t i = 0; i < offsets_.size(); ++i) {
          const auto& [dz, dy, dx] = offsets_[i];
          terms[i] = call.planes[dz + radius_[0]] + (y + dy) * call.pitch + (x + dx) * item_;
        }
        std::byte* const to = call.to + y * call.to_pitch + x * item_;
        row.centre = call.planes[radius_[0]] + y * call.pitch + x * item_;
        row.before = call.before + y * call.before_pitch + x * item_;
        for (std::size_t c = 0; c < std::min<std::size_t>(2, call.coefficients.size()); ++c) {
          row.steps[c] = call.coefficients[c].step;
          row.coefficients[c] = call.coefficients[c].data + y * call.coefficients[c].pitch + x * row.steps[c];
        }
        const Index n = std::min(longest, call.columns - x);
        row.to = together_ ? sums : to, row.n = n * parts_;
        loop_(row);
        if (!together_) continue;
        row.to = to, row.n = n;
        finish_complex_row(dtype_, form_, row, sums);
      }
  }

  std::size_t scratch_bytes() const override {
    return terms_bytes() + (together_ ? static_cast<std::size_t>(piece * item_) : 0);
  }
  const Axes& radius() const override { return radius_; }
  double flops() const override { return flops_ * static_cast<double>(parts_); }

 private:
  static constexpr Index piece = 256;  // points: their sums stay in the cache
  std::size_t terms_bytes() const { return align_up(offsets_.size() * sizeof(const std::byte*), 64); }

  void enter_weight(std::complex<double> weight) {
    if (weight.imag() != 0) throw ShapeError("stencil: weights are complex; real ones are needed.");
    visit_real_type(real_, [&](auto zero) {
      using T = decltype(zero);
      if constexpr (std::is_arithmetic_v<T>) {
        if (std::is_integral_v<T> && weight.real() != std::rint(weight.real()))
          throw ShapeError("stencil: a weight is " + std::to_string(weight.real()) + " and the field is " +
                           std::string(name_of(real_)) + "; whole numbers are needed.");
        const T value = std::is_floating_point_v<T> ? static_cast<T>(weight.real())
                                                    : static_cast<T>(static_cast<std::int64_t>(weight.real()));
        const auto at = weights_.size();
        weights_.resize(at + sizeof(T));
        std::memcpy(weights_.data() + at, &value, sizeof(T));
      }
    });
  }

  Index item_;
  Dtype real_;
  Index parts_;
  bool together_;
  Dtype dtype_;
  WeightsForm form_;
  WeightRowLoop loop_;
  std::vector<Axes> offsets_;
  std::vector<int> ends_;
  std::vector<std::byte> weights_;
  Axes radius_{};
  double flops_ = 0;
};

}  // namespace

std::unique_ptr<PlaneKernel> weights_kernel(Dtype dtype, WeightsForm form, std::vector<WeightedNeighbour> neighbours) {
  return std::make_unique<WeightsKernel>(dtype, form, std::move(neighbours));
}

}  // namespace flagstone::kernel
