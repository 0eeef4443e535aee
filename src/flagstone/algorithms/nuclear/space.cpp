#include "flagstone/algorithms/nuclear/space.hpp"

#include <algorithm>
#include <string>
#include <tuple>

#include "flagstone/base/error.hpp"

namespace flagstone::nuclear {
namespace {

void check_species(const char* who, const std::vector<Orbit>& orbits, int nucleons) {
  int room = 0;
  for (const Orbit& orbit : orbits) {
    if (orbit.states() > 62)
      throw ShapeError("nuclear.Space: an orbit has 2j = " + std::to_string(orbit.two_j) + "; at most 61 is held.");
    room += orbit.states();
  }
  if (nucleons < 0 || nucleons > room)
    throw ShapeError("nuclear.Space: " + std::to_string(nucleons) + " " + who + " in " + std::to_string(room) +
                     " states; between 0 and that many are needed.");
}

int quanta_for(const std::vector<Orbit>& orbits, int nucleons, std::optional<int> nmax) {
  return nmax ? least_quanta(orbits, nucleons) + *nmax : -1;
}

std::vector<std::shared_ptr<const Determinants>> all_determinants(const Species& species) {
  std::vector<std::shared_ptr<const Determinants>> made;
  for (const Pattern& pattern : species.patterns) made.push_back(std::make_shared<const Determinants>(pattern));
  return made;
}

}  // namespace

Space::Space(std::vector<Orbit> proton_orbits, std::vector<Orbit> neutron_orbits, int protons, int neutrons,
             std::optional<int> nmax)
    : nmax_((check_species("protons", proton_orbits, protons), check_species("neutrons", neutron_orbits, neutrons),
             nmax)),
      protons_(proton_orbits, protons, quanta_for(proton_orbits, protons, nmax)),
      neutrons_(neutron_orbits, neutrons, quanta_for(neutron_orbits, neutrons, nmax)) {}

std::vector<Group> Space::groups() const {
  std::vector<Group> made;
  const auto &p = protons_.configurations, &n = neutrons_.configurations;
  for (std::size_t i = 0; i < p.size(); ++i)
    for (std::size_t j = 0; j < n.size(); ++j)
      if (allows(p[i].quanta, n[j].quanta))
        made.push_back({static_cast<std::int32_t>(i), static_cast<std::int32_t>(j)});
  const auto key = [&](const Group& g) {
    const int quanta = p[static_cast<std::size_t>(g.protons)].quanta;
    return std::tuple(quanta + n[static_cast<std::size_t>(g.neutrons)].quanta, quanta, g.protons, g.neutrons);
  };
  std::sort(made.begin(), made.end(), [&](const Group& a, const Group& b) { return key(a) < key(b); });
  return made;
}

Index states(const Distribution& protons, const Distribution& neutrons, int two_m) {
  Index sum = 0;
  for (std::size_t i = 0; i < protons.count.size(); ++i)
    sum += protons.count[i] * neutrons.at(two_m - (2 * static_cast<int>(i) - protons.most));
  return sum;
}

Basis::Basis(std::shared_ptr<const Space> space, int two_m)
    : space_(std::move(space)),
      two_m_(two_m),
      groups_(space_->groups()),
      by_protons_(space_->protons().configurations.size()),
      proton_determinants_(all_determinants(space_->protons())),
      neutron_determinants_(all_determinants(space_->neutrons())) {
  first_.push_back(0);
  for (Index g = 0; g < groups(); ++g) {
    first_.push_back(first_.back() + rows_at(g, two_m));
    by_protons_[static_cast<std::size_t>(group(g).protons)].emplace_back(group(g).neutrons, static_cast<int>(g));
  }
  for (auto& row : by_protons_) std::sort(row.begin(), row.end());
}

const Configuration& Basis::protons(Index g) const {
  return space_->protons().configurations[static_cast<std::size_t>(group(g).protons)];
}

const Configuration& Basis::neutrons(Index g) const {
  return space_->neutrons().configurations[static_cast<std::size_t>(group(g).neutrons)];
}

Index Basis::find(int protons, int neutrons) const {
  const auto& row = by_protons_[static_cast<std::size_t>(protons)];
  const auto at = std::lower_bound(row.begin(), row.end(), std::pair(neutrons, std::int32_t{0}));
  return at != row.end() && at->first == neutrons ? at->second : -1;
}

Index Basis::rows_at(Index g, int two_m) const {
  return states(space_->protons().distributions[static_cast<std::size_t>(protons(g).pattern)],
                space_->neutrons().distributions[static_cast<std::size_t>(neutrons(g).pattern)], two_m);
}

}  // namespace flagstone::nuclear
