#include "flagstone/algorithms/nuclear/orbits.hpp"

#include <algorithm>
#include <cstdlib>

namespace flagstone::nuclear {

std::vector<Orbit> oscillator_orbits(int most) {
  std::vector<Orbit> made;
  for (int quanta = 0; quanta <= most; ++quanta)
    for (int l = quanta % 2; l <= quanta; l += 2)
      for (int two_j = std::abs(2 * l - 1); two_j <= 2 * l + 1; two_j += 2) {
        made.push_back({(quanta - l) / 2, l, two_j});
        if (l == 0) break;
      }
  return made;
}

int least_quanta(const std::vector<Orbit>& orbits, int nucleons) {
  std::vector<Orbit> sorted = orbits;
  std::sort(sorted.begin(), sorted.end(), [](const Orbit& a, const Orbit& b) { return a.quanta() < b.quanta(); });
  int quanta = 0;
  for (const Orbit& orbit : sorted) {
    const int taken = std::min(nucleons, orbit.states());
    quanta += taken * orbit.quanta(), nucleons -= taken;
  }
  return quanta;
}

}  // namespace flagstone::nuclear
