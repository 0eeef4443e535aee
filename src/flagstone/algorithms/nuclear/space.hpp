#pragma once
// Spaces of many nucleons: groups of Slater determinants with the same occupation numbers of orbits.
#include <memory>
#include <optional>
#include <vector>

#include "flagstone/algorithms/nuclear/configuration.hpp"

namespace flagstone::nuclear {

/// Configurations of protons and of neutrons, by number.
struct Group {
  std::int32_t protons = 0, neutrons = 0;
};

/// Protons and neutrons in their orbits: all of them (valence space), or with at most `nmax` quanta of excitation, of
/// nmax's parity (no-core).
class Space {
 public:
  /// ShapeError: more nucleons than states, more states in an orbit than a mask holds, nmax below zero.
  Space(std::vector<Orbit> proton_orbits, std::vector<Orbit> neutron_orbits, int protons, int neutrons,
        std::optional<int> nmax);
  const Species& protons() const { return protons_; }
  const Species& neutrons() const { return neutrons_; }
  std::optional<int> nmax() const { return nmax_; }
  int nucleons() const { return protons_.nucleons + neutrons_.nucleons; }
  /// Quanta that all nucleons may have together.
  int most_quanta() const { return protons_.least + neutrons_.least + nmax_.value_or(0); }
  bool allows(int proton_quanta, int neutron_quanta) const {
    const int over = most_quanta() - proton_quanta - neutron_quanta;
    return !nmax_ || (over >= 0 && over % 2 == 0);
  }
  /// In order of excitation, proton quanta, configuration of protons, of neutrons: the order of rows, which is stored.
  std::vector<Group> groups() const;

 private:
  std::optional<int> nmax_;
  Species protons_, neutrons_;
};

/// The rows of one total M: of each group its determinants of protons, and to each of them those of neutrons with the
/// rest of M, both ascending.
class Basis {
 public:
  Basis(std::shared_ptr<const Space> space, int two_m);
  const Space& space() const { return *space_; }
  int two_m() const { return two_m_; }
  Index groups() const { return static_cast<Index>(groups_.size()); }
  const Group& group(Index g) const { return groups_[static_cast<std::size_t>(g)]; }
  Index rows(Index g) const { return first_[static_cast<std::size_t>(g) + 1] - first_[static_cast<std::size_t>(g)]; }
  Index first(Index g) const { return first_[static_cast<std::size_t>(g)]; }
  Index dimension() const { return first_.back(); }
  const Configuration& protons(Index g) const;
  const Configuration& neutrons(Index g) const;
  /// Determinants of a configuration's pattern.
  const Determinants& determinants(const Configuration& c, bool neutron) const {
    return *(neutron ? neutron_determinants_ : proton_determinants_)[static_cast<std::size_t>(c.pattern)];
  }
  /// The group of two configurations, -1 where the space has none.
  Index find(int protons, int neutrons) const;
  /// Rows of a group that have another M: how many states of J = M there are is the difference of neighbours.
  Index rows_at(Index g, int two_m) const;

 private:
  std::shared_ptr<const Space> space_;
  int two_m_;
  std::vector<Group> groups_;
  std::vector<Index> first_;
  std::vector<std::vector<std::pair<std::int32_t, std::int32_t>>> by_protons_;  // (neutrons, group), sorted
  std::vector<std::shared_ptr<const Determinants>> proton_determinants_, neutron_determinants_;
};

/// Number of states of two patterns with a total M.
Index states(const Distribution& protons, const Distribution& neutrons, int two_m);

}  // namespace flagstone::nuclear
