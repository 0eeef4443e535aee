#pragma once
// Which groups a two-body Hamiltonian couples, by moves of nucleons and by angular momenta.
#include <vector>

#include "flagstone/algorithms/nuclear/space.hpp"

namespace flagstone::nuclear {

/// Values of J, doubled, that two nucleons in orbits a, b and two in c, d can both have; empty where first > last.
struct Momenta {
  int first = 0, last = -1;
  bool any(bool only_even) const {
    return only_even ? first <= last && (first % 4 == 0 ? first : first + 2) <= last : first <= last;
  }
};
Momenta momenta(const Orbit& a, const Orbit& b, const Orbit& c, const Orbit& d);

/// The groups that each group couples to.
class Coupling {
 public:
  explicit Coupling(const Basis& basis);
  /// The numbers j <= i of groups that a general Hamiltonian couples to i, ascending, of those for which `used`.
  void of(Index i, const std::vector<bool>& used, std::vector<std::int32_t>& js) const;
  /// Whether moves lead from one group to another, and angular momenta allow it.
  bool couples(Index i, Index j) const;

 private:
  struct Near {
    std::int32_t configuration;
    Moves moves;
  };
  using Neighbours = std::vector<std::vector<Near>>;  // of each configuration, itself too
  static Neighbours near(const Species& species);
  bool allowed(Index i, const Moves& protons, const Moves& neutrons) const;

  const Basis& basis_;
  Neighbours protons_, neutrons_;
};

}  // namespace flagstone::nuclear
