#pragma once
// Single-particle orbits of a spherical potential, and which of them a kind of nucleon may occupy.
#include <cstdint>
#include <vector>

namespace flagstone::nuclear {

/// (n, l, j) of protons or of neutrons; its 2j + 1 states are numbered by m, ascending.
struct Orbit {
  int n = 0, l = 0, two_j = 1;
  int quanta() const { return 2 * n + l; }
  int states() const { return two_j + 1; }
  bool operator==(const Orbit&) const = default;
};

/// All orbits of the harmonic oscillator with 2n + l <= most, by quanta, then l, then j.
std::vector<Orbit> oscillator_orbits(int most);
/// The least quanta that so many nucleons of one kind can have.
int least_quanta(const std::vector<Orbit>& orbits, int nucleons);

}  // namespace flagstone::nuclear
