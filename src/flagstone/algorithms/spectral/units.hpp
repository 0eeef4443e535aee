#pragma once
// Powers of two that keep squares in range: an operator is iterated as if its matrix were given in other units.
#include "flagstone/algorithms/operator/operator.hpp"
#include "flagstone/algorithms/spectral/orthonormal_block.hpp"

namespace flagstone::spectral {

/// What is seen is G / 2^exponent, to the bit. What G makes is divided; of AᵀA and A Aᵀ, whose first product would
/// leave the range already, half of the exponent goes to X.
class Units {
 public:
  /// block's F := G X / 2^exponent. The first application that makes anything tells the exponent: 0 where its largest
  /// number lies between 2^-330 and 2^330, whose squares are in range. Of AᵀA another one takes one or two applications
  /// more to be found, of others none.
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
