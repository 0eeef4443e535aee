#pragma once
// How nucleons of one kind lie in orbits: occupation numbers.
#include <memory>
#include <vector>

#include "flagstone/algorithms/nuclear/orbits.hpp"
#include "flagstone/algorithms/nuclear/pattern.hpp"

namespace flagstone::nuclear {

/// `count` nucleons in an orbit; its slot in the pattern, -1 where it is full.
struct Occupied {
  int orbit = 0, count = 0, slot = -1;
};

struct Configuration {
  std::vector<Occupied> orbits;  // by number
  int quanta = 0;
  int pattern = 0;  // of Species::patterns
  int in(int orbit) const {
    for (const Occupied& o : orbits)
      if (o.orbit == orbit) return o.count;
    return 0;
  }
};

/// Protons or neutrons: their orbits, all configurations with at most so many quanta, ordered by quanta and then
/// lexicographically, and the patterns that occur.
struct Species {
  /// `most_quanta` < 0: all.
  Species(std::vector<Orbit> orbits, int nucleons, int most_quanta);

  std::vector<Orbit> orbits;
  int nucleons = 0;
  int least = 0;  // quanta
  std::vector<Configuration> configurations;
  std::vector<Pattern> patterns;
  std::vector<Distribution> distributions;  // of the patterns
};

/// Where nucleons move between two configurations: removed and added orbits, sorted, with repetitions. More than two
/// are not listed: `moves` says how many, 3 for all beyond.
struct Moves {
  int moves = 0;
  int removed[2] = {-1, -1}, added[2] = {-1, -1};
};
Moves moves_between(const Configuration& from, const Configuration& to);

}  // namespace flagstone::nuclear
