#include "flagstone/algorithms/stencil/scheme_price.hpp"

#include <algorithm>

#include "flagstone/algorithms/stencil/schedules/counts.hpp"
#include "flagstone/algorithms/stencil/skewed/tile_memory.hpp"

namespace flagstone::stencil {

Scheme Prices::of(Method method, const BlockScheme& blocks, const WavefrontScheme& wavefront,
                  std::uint64_t bytes) const {
  Scheme scheme{.method = method, .blocks = blocks, .wavefront = wavefront};
  scheme.depth = method == Method::al4 ? wavefront.depth : blocks.depth;
  const Index held = method == Method::al4 ? wavefront.held : blocks.held;
  const Supersteps each(problem_.left(), scheme.depth);
  scheme.supersteps = each.number();
  scheme.bytes = bytes + static_cast<std::uint64_t>(held) * held_bytes(problem_, each.number());
  const double n = static_cast<double>(problem_.space.shape[first_axis(problem_)]);
  const double away = 1 - std::min(1.0, static_cast<double>(held) / std::max(1.0, n));
  // Of so many supersteps that are alike; those that begin with an operand, and end with a result, move all of it.
  const auto add = [&](Index number, Index depth, double first, double end) {
    if (number == 0) return;
    const Counts counts = method == Method::al4   ? wavefront_counts(problem_, wavefront, depth)
                          : method == Method::al2 ? nested_counts(problem_, blocks, depth)
                                                  : block_counts(problem_, blocks.block, depth);
    const auto all = static_cast<double>(number);
    scheme.read += counts.given * all + counts.read * (first + away * (all - first));
    scheme.written += counts.written * (end + away * (all - end));
    scheme.updates += counts.updates * all;
  };
  const Index longer = each.longer(), number = each.number();
  add(longer, each[0], longer > 0 ? 1 : 0, 0);
  add(number - longer, each[number - 1], longer > 0 ? 0 : 1, 1);
  set_seconds(scheme, method == Method::al4   ? 1 / wavefront_rate(wavefront)
                      : method == Method::al2 ? seconds_an_update(blocks.cache.depth)
                                              : 1 / rates_.streaming);
  return scheme;
}

Scheme Prices::of(const SkewedScheme& skewed, std::uint64_t bytes) const {
  Scheme scheme{.method = Method::al3, .skewed = skewed};
  const Supersteps each(problem_.left(), skewed.depth);
  scheme.depth = skewed.depth, scheme.supersteps = each.number();
  scheme.bytes = bytes + static_cast<std::uint64_t>(skewed.held) * working_bytes(problem_);
  scheme.scratch_bytes = skewed_scratch(problem_, skewed);
  const Skews skews(problem_, skewed, each[0], each[each.number() - 1], unit_);
  const double n = static_cast<double>(problem_.space.shape[first_axis(problem_)]);
  const double away = 1 - std::min(1.0, static_cast<double>(skewed.held) / std::max(1.0, n));
  const double field = static_cast<double>(problem_.order()) * problem_.core_points();
  const auto add = [&](Index number, Index depth, bool first, bool last) {
    if (number <= 0) return;
    const Counts counts = skewed_counts(problem_, skews, depth, first, last);
    // Operands and results travel whole, the working pair where it is not held.
    const double operands = first ? std::min(counts.read, field) : 0, results = last ? field : 0;
    const double images = first ? 0 : static_cast<double>(problem_.order()) * skews.images(skews.levels(depth));
    const auto all = static_cast<double>(number);
    scheme.read += all * (counts.given + operands + away * (counts.read + images - operands));
    scheme.written += all * (results + away * (counts.written + images - results));
    scheme.updates += all * counts.updates;
  };
  const Index longer = each.longer(), number = each.number();
  add(1, each[0], true, number == 1);
  add(longer - 1, each[0], false, false);
  add(number - 1 - std::max<Index>(1, longer), each[number - 1], false, false);
  if (number > 1) add(1, each[number - 1], false, true);
  set_seconds(scheme, 1 / rates_.streaming);
  return scheme;
}

double Prices::seconds(const Scheme& scheme) const {
  if (!problem_.overlap) return scheme.disk_seconds + scheme.compute_seconds;
  const double longer = std::max({scheme.disk_seconds, scheme.compute_seconds, 1e-12});
  double filling = 0;
  if (scheme.method == Method::al4) {
    const auto lag = static_cast<double>(problem_.space.radius[0] * scheme.depth);
    filling = 0.25 * lag / static_cast<double>(problem_.space.shape[0]);
  }
  return longer * (1 + filling + 0.02 * scheme.disk_seconds / longer);
}

bool Prices::too_long(const Scheme& scheme) const {
  return problem_.longest_superstep > 0 && depth_ == 0 && scheme.depth > 1 &&
         seconds(scheme) > problem_.longest_superstep * static_cast<double>(scheme.supersteps);
}

double Prices::seconds_an_update(Index steps) const {
  return 1 / rates_.cached + (1 / rates_.streaming - 1 / rates_.cached) / static_cast<double>(steps);
}

double Prices::wavefront_rate(const WavefrontScheme& scheme) const {
  const auto reach = static_cast<double>(problem_.space.radius[strip_axis(problem_)]);
  const double streamed = 1 / rates_.streaming - 1 / rates_.cached;  // of a plain sweep: two elements an update or more
  const double share = (1 + 2 * reach / static_cast<double>(scheme.strip)) / static_cast<double>(scheme.levels) +
                       reach / static_cast<double>(scheme.planes);
  return 1 / (1 / rates_.cached + streamed * std::min(1.0, share));
}

void Prices::set_seconds(Scheme& scheme, double an_update) const {
  const auto item = static_cast<double>(problem_.item());
  scheme.disk_seconds = item * (scheme.read / rates_.read + scheme.written / rates_.written);
  scheme.compute_seconds = scheme.updates * an_update;
}

}  // namespace flagstone::stencil
