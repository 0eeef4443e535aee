#include "flagstone/algorithms/stencil/skewed/tile_memory.hpp"

#include <algorithm>

#include "flagstone/algorithms/stencil/field/cells.hpp"
#include "flagstone/algorithms/stencil/skewed/band_step.hpp"
#include "flagstone/algorithms/stencil/skewed/working_arrays.hpp"
#include "flagstone/base/bytes.hpp"

namespace flagstone::stencil {
namespace {

/// Of what is known of cells, or some more.
std::uint64_t known_bytes(const Problem& problem, const SkewedScheme& scheme, const Axes& unit) {
  const Supersteps supersteps(problem.left(), scheme.depth);
  const Skews skews(problem, scheme, supersteps[0], supersteps[supersteps.number() - 1], unit);
  const std::vector<Index> depths = skews.depths(supersteps);
  const Axes& n = problem.space.shape;
  return cells_bytes(skews.slots().number(), {skews.most_cells(0, depths, scheme.planes),
                                              skews.most_cells(1, depths, n[1]), skews.most_cells(2, depths, n[2])});
}

}  // namespace

Bands::Extents extents_of(const Problem& problem, const SkewedScheme& scheme) {
  const Versions versions(problem);
  const Index stages = versions.stages(), levels = scheme.depth * stages;
  Axes longest;
  for (std::size_t d = 0; d < 3; ++d) {
    const Index n = problem.space.shape[d], reach = versions.radius()[d];
    const Index wide = problem.space.periodic(d) ? n + 2 * reach * levels : n;
    longest[d] = scheme.block[d] >= n ? n : std::min(wide, scheme.block[d] + reach * (levels + 1));
  }
  Bands::Extents extents{.sets = problem.overlap ? 2 : 1, .rows = longest[1], .columns = longest[2]};
  extents.planes = std::min(scheme.planes, longest[0]);
  extents.bands = ceil_div(longest[0], extents.planes) + (problem.window ? 4 : 0);  // ends of sleeves cut more
  const Index block = scheme.block[0], reach = versions.radius()[0];
  if (block >= problem.space.shape[0]) return extents;
  // Bands end where boxes of any tile do: counted on a tile in the middle; edges may cut more.
  extents.seam = std::max<Index>(1, std::min(reach, extents.planes));
  const Supersteps supersteps(problem.left(), scheme.depth);
  const Index deepest = supersteps[0] * stages, lag = reach * deepest;
  std::vector<Index> back{deepest, deepest - 1, 0, -1}, ends;
  if (const Index least = supersteps[supersteps.number() - 1] * stages; least < deepest)
    back.push_back(least), back.push_back(least - 1);
  for (Index k = -ceil_div(lag, block) - 1; k <= ceil_div(lag, block) + 2; ++k)
    for (const Index level : back)
      if (const Index at = k * block - reach * level; at >= -lag && at <= block + reach) ends.push_back(at);
  std::sort(ends.begin(), ends.end());
  extents.bands = problem.space.periodic(0) || problem.window ? 4 : 1;
  for (std::size_t i = 1; i < ends.size(); ++i) {
    const Index length = ends[i] - ends[i - 1];
    if (length > extents.seam) extents.bands += ceil_div(length, extents.planes);
    if (length > 0 && length <= extents.seam) ++extents.seams;
  }
  return extents;
}

std::uint64_t skewed_bytes(const Problem& problem, const SkewedScheme& scheme, const Axes& unit, int workers) {
  const Bands::Extents extents = extents_of(problem, scheme);
  const auto item = static_cast<std::uint64_t>(problem.item());
  // Under way: cells of some bands, what is written of them, results by whole chunks.
  const auto plane = static_cast<std::uint64_t>(extents.rows * extents.columns) * item;
  const auto band = plane * static_cast<std::uint64_t>(extents.planes);
  const auto batches = static_cast<std::uint64_t>(workers) + 2;
  const std::uint64_t parts = Slots(problem).number() + problem.coefficients.size();
  const auto result = plane * static_cast<std::uint64_t>(ceil_div(extents.planes, unit[0]) * unit[0]);
  std::uint64_t staging = 0;
  Range3 first{{0, 0, 0}, scheme.block};
  first.last[0] = std::min(first.last[0], ceil_div(extents.planes, unit[0]) * unit[0]);
  for (const Array& array : problem.to) staging += staging_of(problem, array, first, true);
  for (const auto* arrays : {&problem.from, &problem.coefficients})
    for (const Array& array : *arrays) {
      Axes cell = cell_of(problem, array, {extents.planes, extents.rows, extents.columns});
      for (std::size_t d = 0; d < 3; ++d) cell[d] = std::min(cell[d], problem.space.shape[d]);
      staging += staging_of(problem, array, {{0, 0, 0}, cell}, false);
    }
  const auto padded = static_cast<std::uint64_t>((extents.rows + 64) * (extents.columns + 64)) * item;
  return bands_bytes(problem, extents) + known_bytes(problem, scheme, unit) +
         batches * (band * parts + result * problem.order() + staging) +
         static_cast<std::uint64_t>(workers) * BandStep::scratch_bytes(problem, align_up(padded));
}

std::uint64_t working_bytes(const Problem& problem) {
  const Range3 all = problem.space.whole();
  return Slots(problem).number() *
         static_cast<std::uint64_t>(all.count() / all.extent(first_axis(problem)) * problem.item());
}

std::uint64_t skewed_scratch(const Problem& problem, const SkewedScheme& scheme) {
  const Range3 all = problem.space.whole();
  const Index away = std::max<Index>(0, all.extent(first_axis(problem)) - scheme.held);
  return static_cast<std::uint64_t>(away) * working_bytes(problem) + saved_bytes(problem);
}

std::uint64_t saved_bytes(const Problem& problem) {
  const auto field = static_cast<std::uint64_t>(problem.space.whole().count() * problem.item());
  return problem.saved ? 2 * field * problem.order() : 0;
}

}  // namespace flagstone::stencil
