#pragma once
// States of good J: of each group an orthonormal basis of those of its rows' combinations.
#include <memory>

#include "flagstone/algorithms/nuclear/space.hpp"
#include "flagstone/runtime/graph/graph.hpp"

namespace flagstone::nuclear {

/// J+ of a group, its rows of M to those of M + 1: (to, from, value) of every entry. No sign: neighbouring states of
/// an orbit have nothing between them.
struct Raising {
  std::int32_t to, from;
  double value;
};
std::vector<Raising> raising(const Basis& basis, Index group);

/// y (rows x width, C order) := J² x, of all rows of a basis: J-J+ + M(M+1), group by group.
void j_squared(const Basis& basis, Index width, const double* x, double* y);

/// A block of Z to make: for which group, where its d x z elements (C order) lie in the array.
struct ZBlock {
  Index group = 0, offset = 0, columns = 0;
};

/// Blocks of Z, made on all workers. The states of good J of a group are those of its protons coupled to those of its
/// neutrons: of each species J- takes a multiplet from M + 1 to M, and what is orthogonal to all that came from there
/// are the multiplets with J = M, by a QR of the sector; Clebsch-Gordan coefficients join two multiplets. 3 d z flops a
/// block and 8/3 Σ_M d_M³ a pattern of a species, where a QR of the group's own J+ (Aktulga et al., HPCS 2011) takes
/// 4 d³. Any M <= J.
class JBlocks {
 public:
  /// Charges what its makers hold. `all`: the blocks that will be asked for.
  JBlocks(Graph& graph, std::shared_ptr<const Basis> basis, int two_j, const std::vector<ZBlock>& all);
  ~JBlocks();
  /// values := these blocks, which lie in `box`; one task. NumericalError where a group has not as many states as its
  /// dimensions say.
  void add(std::vector<ZBlock> blocks, const Array& values, const Box& box);

 private:
  class Makers;
  Graph& graph_;
  std::shared_ptr<Makers> makers_;
  Charge charge_;
};

}  // namespace flagstone::nuclear
