#pragma once
// Powers of two that keep squares in range: an operator is iterated as if its matrix were given in other units.
#include "flagstone/algorithms/operator/operator.hpp"
#include "flagstone/algorithms/spectral/orthonormal_block.hpp"

namespace flagstone::spectral {

/// What is seen is G / 2^exponent: half of it divides X, the other half what G makes of that, so that nothing on the
/// way leaves float64 for any finite G, subnormal ones too. Powers of two round nothing; what is lost lies 2^-69 below
/// the largest number of X. The first product of AᵀA is in range for A between 2^-1005 and 2^1005: others are refused
/// (NumericalError), or, below 2^-1037 and above 2^1010, not told from zeros and from what is not finite.
class Units {
 public:
  /// block's F := G X / 2^exponent. The first application that makes anything tells the exponent: 0 where its largest
  /// number lies between 2^-330 and 2^330, whose squares are in range. Up to 2^±900 it costs nothing else; beyond, and
  /// where there is nothing to see (zeros too), one or two applications more.
  void apply(Graph& graph, const Operator& op, TallBlock& block);

  int exponent() const { return exponent_; }
  /// Applications beside those that were asked for.
  int beside() const { return beside_; }
  void list_parts(StateParts& parts);

 private:
  double applied(Graph& graph, const Operator& op, TallBlock& block) const;

  int exponent_ = 0, beside_ = 0;
  bool known_ = false;
};

}  // namespace flagstone::spectral
