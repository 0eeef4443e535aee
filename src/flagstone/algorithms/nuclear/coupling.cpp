#include "flagstone/algorithms/nuclear/coupling.hpp"

#include <algorithm>
#include <cstdlib>

namespace flagstone::nuclear {
namespace {

const Orbit& orbit(const Species& species, int number) { return species.orbits[static_cast<std::size_t>(number)]; }

bool like_pair(const Species& s, int a, int b, int c, int d) {
  return momenta(orbit(s, a), orbit(s, b), orbit(s, c), orbit(s, d)).any(a == b || c == d);
}

bool parity_kept(const Orbit& a, const Orbit& b, const Orbit& c, const Orbit& d) {
  return (a.l + b.l + c.l + d.l) % 2 == 0;
}

/// One nucleon moves from a to b: by itself, or with any other one beside it.
bool one_move(const Species& own, const Configuration& in, const Species& other, const Configuration& beside, int a,
              int b) {
  const Orbit &from = orbit(own, a), &to = orbit(own, b);
  if ((from.l + to.l) % 2) return false;
  if (from.l == to.l && from.two_j == to.two_j) return true;
  for (const Occupied& o : beside.orbits)
    if (momenta(from, orbit(other, o.orbit), to, orbit(other, o.orbit)).any(false)) return true;
  for (const Occupied& o : in.orbits)
    if (o.count > (o.orbit == a) && like_pair(own, a, o.orbit, b, o.orbit)) return true;
  return false;
}

}  // namespace

Momenta momenta(const Orbit& a, const Orbit& b, const Orbit& c, const Orbit& d) {
  return {std::max(std::abs(a.two_j - b.two_j), std::abs(c.two_j - d.two_j)),
          std::min(a.two_j + b.two_j, c.two_j + d.two_j)};
}

Coupling::Coupling(const Basis& basis)
    : basis_(basis), protons_(near(basis.space().protons())), neutrons_(near(basis.space().neutrons())) {}

Coupling::Neighbours Coupling::near(const Species& species) {
  const auto& all = species.configurations;
  Neighbours made(all.size());
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t j = 0; j < all.size(); ++j) {
      const Moves moves = moves_between(all[i], all[j]);
      if (moves.moves <= 2) made[i].push_back({static_cast<std::int32_t>(j), moves});
    }
  for (auto& of_one : made)  // few moves first: with two of protons go none of neutrons
    std::stable_sort(of_one.begin(), of_one.end(),
                     [](const Near& a, const Near& b) { return a.moves.moves < b.moves.moves; });
  return made;
}

bool Coupling::allowed(Index i, const Moves& p, const Moves& n) const {
  const Species &protons = basis_.space().protons(), &neutrons = basis_.space().neutrons();
  if (p.moves + n.moves > 2) return false;
  if (p.moves == 1 && n.moves == 1) {
    const Orbit &a = orbit(protons, p.removed[0]), &b = orbit(neutrons, n.removed[0]), &c = orbit(protons, p.added[0]),
                &d = orbit(neutrons, n.added[0]);
    return parity_kept(a, b, c, d) && momenta(a, b, c, d).any(false);
  }
  const auto two = [](const Species& s, const Moves& m) {
    return parity_kept(orbit(s, m.removed[0]), orbit(s, m.removed[1]), orbit(s, m.added[0]), orbit(s, m.added[1])) &&
           like_pair(s, m.removed[0], m.removed[1], m.added[0], m.added[1]);
  };
  if (p.moves == 2) return two(protons, p);
  if (n.moves == 2) return two(neutrons, n);
  if (p.moves == 1) return one_move(protons, basis_.protons(i), neutrons, basis_.neutrons(i), p.removed[0], p.added[0]);
  if (n.moves == 1) return one_move(neutrons, basis_.neutrons(i), protons, basis_.protons(i), n.removed[0], n.added[0]);
  return true;
}

bool Coupling::couples(Index i, Index j) const {
  return allowed(i, moves_between(basis_.protons(i), basis_.protons(j)),
                 moves_between(basis_.neutrons(i), basis_.neutrons(j)));
}

void Coupling::of(Index i, const std::vector<bool>& used, std::vector<std::int32_t>& js) const {
  js.clear();
  const Group& g = basis_.group(i);
  for (const Near& p : protons_[static_cast<std::size_t>(g.protons)])
    for (const Near& n : neutrons_[static_cast<std::size_t>(g.neutrons)]) {
      if (p.moves.moves + n.moves.moves > 2) break;
      const Index j = basis_.find(p.configuration, n.configuration);
      if (j >= 0 && j <= i && used[static_cast<std::size_t>(j)] && allowed(i, p.moves, n.moves))
        js.push_back(static_cast<std::int32_t>(j));
    }
  std::sort(js.begin(), js.end());
}

}  // namespace flagstone::nuclear
