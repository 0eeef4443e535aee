#pragma once
// Kernels that are weights of neighbours: native rows, once per instruction set.
#include <complex>
#include <memory>
#include <vector>

#include "flagstone/base/dtype.hpp"
#include "flagstone/kernel/stencil/plane_kernel.hpp"

namespace flagstone::kernel {

/// What a step makes of W(u), the weighted sum of neighbours; coefficients are k and s, u_before the step before.
///
/// | form | u' |
/// |---|---|
/// | sum | W |
/// | grow | u + k W |
/// | grow_source | u + k W + s |
/// | swing | W - u_before |
/// | wave | (u + u) - u_before + k W |
/// | damped_wave | ((u + u) - (1 - s) u_before + k W) / (1 + s) |
///
/// evaluated from left to right, a product before its sum; of complex fields both are complex numbers, and a product is
/// (ac - bd, ad + bc).
enum class WeightsForm : std::uint8_t { sum, grow, grow_source, swing, wave, damped_wave };

struct WeightedNeighbour {
  Axes offset{};
  std::complex<double> weight;  // rounded to the dtype; real where the dtype is not complex
};

/// W(u): neighbours of equal weight are added up, in C order of their offsets; each of these sums times its weight; the
/// products are added up in the order in which the weights come first. ShapeError: complex weights of a real field,
/// weights of an integer field that are not whole, complex fields with complex weights, forms that divide of integers.
std::unique_ptr<PlaneKernel> weights_kernel(Dtype dtype, WeightsForm form, std::vector<WeightedNeighbour> neighbours);

}  // namespace flagstone::kernel
