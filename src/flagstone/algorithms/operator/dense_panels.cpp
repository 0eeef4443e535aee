#include "flagstone/algorithms/operator/dense_panels.hpp"

#include <algorithm>
#include <utility>

#include "flagstone/base/bytes.hpp"

namespace flagstone::spectral {
namespace {

constexpr std::uint64_t panel_bytes = 8 * MiB, most_panel_bytes = 64 * MiB;
constexpr std::size_t good_run = 128 * KiB;  // below it, reading is bound by requests rather than by bytes

/// In the array's coordinates: which dimension the panels cut.
std::size_t cut_dimension(bool tall, bool transpose) { return tall == transpose ? 1 : 0; }

Index fitting_in(std::uint64_t bytes, std::uint64_t line) {
  return std::max<Index>(1, static_cast<Index>(bytes / line));
}

Index usual_step(std::uint64_t line) {
  Index step = 16;
  while (step * 2 <= fitting_in(panel_bytes, line)) step *= 2;
  return step;
}

}  // namespace

DensePanels::DensePanels(const Array& x, bool transposed, Along along) : array(x), transpose(transposed) {
  const Index m = x.shape()[transposed ? 1 : 0], n = x.shape()[transposed ? 0 : 1];
  tall = along == Along::rows || m >= n;
  side = tall ? n : m, extent = tall ? m : n;
  const std::size_t cut = cut_dimension(tall, transposed);
  const auto line = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(side) * size_of(x.dtype()));
  const auto fitting = [&](std::uint64_t bytes) { return fitting_in(bytes, line); };
  const Index chunk = x.chunks()[cut];
  if (chunk < extent) {  // whole chunks
    step = std::max<Index>(1, fitting(panel_bytes) / chunk) * chunk;
  } else {
    step = usual_step(line);
    const auto run = [&] {
      Shape box = x.shape();
      box[cut] = std::min(step, extent);
      return x.store().run_bytes(box);
    };
    // The array runs across the cut: longer panels make longer requests.
    while (!x.in_memory() && step < extent && step * 2 <= fitting(most_panel_bytes) && run() < good_run) step *= 2;
  }
  step = std::min(step, std::max<Index>(1, extent));
}

Index DensePanels::step_in_memory(Index extent, std::uint64_t line) {
  return std::min(usual_step(line), std::max<Index>(1, extent));
}

Region DensePanels::region(Index panel) const {
  const std::size_t cut = cut_dimension(tall, transpose);
  Box box = whole(array.shape());
  box.start[cut] = first(panel);
  box.shape[cut] = length(panel);
  return {array, box};
}

Tile DensePanels::view(const Tile& tile) const {
  Tile seen = tile;
  if (transpose) std::swap(seen.shape[0], seen.shape[1]), std::swap(seen.strides[0], seen.strides[1]);
  return seen;
}

Index DensePanels::piece(Dtype compute) const {
  const auto line = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(side) * size_of(compute));
  return std::min(step, std::clamp<Index>(static_cast<Index>(2 * MiB / line) / 16 * 16, 16, 1024));
}

}  // namespace flagstone::spectral
