#pragma once
// What a scheme moves, computes and takes, by counts and rates.
#include "flagstone/algorithms/stencil/scheme.hpp"

namespace flagstone::stencil {

class Prices {
 public:
  /// `unit`: extents of the results' chunks. The problem outlives it.
  Prices(const Problem& problem, const Wishes& wishes, const Axes& unit)
      : problem_(problem), rates_(wishes.rates), depth_(wishes.depth), unit_(unit) {}

  /// A scheme of blocks or of a wavefront, whose tasks take so many bytes.
  Scheme of(Method method, const BlockScheme& blocks, const WavefrontScheme& wavefront, std::uint64_t bytes) const;
  Scheme of(const SkewedScheme& skewed, std::uint64_t bytes) const;

  /// Both at once, and a little for the disk that is hidden; filling and draining a wavefront takes planes of their
  /// own, and small batches their tasks.
  double seconds(const Scheme& scheme) const;
  /// Whether a superstep takes longer than what a kill may cost; one of one step never does.
  bool too_long(const Scheme& scheme) const;
  /// An update of what is read from memory once in so many steps.
  double seconds_an_update(Index steps) const;

 private:
  /// Updates a second: the cache's rate, and what a group of levels, a batch and a strip leave of the memory's traffic.
  double wavefront_rate(const WavefrontScheme& scheme) const;
  void set_seconds(Scheme& scheme, double an_update) const;

  const Problem& problem_;
  Rates rates_;
  Index depth_;  // that the caller fixed; 0: none
  Axes unit_;
};

}  // namespace flagstone::stencil
