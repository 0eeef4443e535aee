#include <cmath>

#include "flagstone/algorithms/nuclear/interaction.hpp"
#include "flagstone/algorithms/nuclear/number_lines.hpp"
#include "flagstone/base/error.hpp"

namespace flagstone::nuclear {
namespace {

constexpr int most_orbits = 10'000, most_core = 1'000, most_number = 20'000, most_elements = 1'000'000'000;

}  // namespace

Interaction Interaction::read_snt(const std::string& text, const std::string& name) {
  NumberLines lines(text, name, ".snt");
  Interaction made;
  const auto header = lines.next(4, "a line of orbits of protons and neutrons and the core");
  const int protons = lines.whole(header[0], "the number of orbits of protons", 0, most_orbits),
            neutrons = lines.whole(header[1], "the number of orbits of neutrons", 0, most_orbits);
  made.core_ = lines.whole(header[2], "the number of protons of the core", 0, most_core) +
               lines.whole(header[3], "the number of neutrons of the core", 0, most_core);
  const auto whole = [&](double value) { return lines.whole(value, "a number", -most_number, most_number); };
  std::vector<Orbit> orbits;
  for (int i = 0; i < protons + neutrons; ++i) {
    const auto o = lines.next(5, "an orbit (number, n, l, 2j, 2tz)");
    const Orbit orbit{whole(o[1]), whole(o[2]), whole(o[3])};
    if (whole(o[0]) != i + 1 || std::abs(orbit.two_j - 2 * orbit.l) != 1 || orbit.two_j < 1 || orbit.n < 0 ||
        orbit.l < 0 || orbit.quanta() > 31 || whole(o[4]) != (i < protons ? -1 : 1))
      throw FormatError(lines.where() + ": not an orbit (number " + std::to_string(i + 1) +
                        ", n, l, 2j = 2l ± 1, 2tz = -1 of protons, which come first).");
    orbits.push_back(orbit);
    (i < protons ? made.proton_orbits_ : made.neutron_orbits_).push_back(orbit);
  }
  const auto orbit_at = [&](double number) -> const Orbit& {
    return orbits[static_cast<std::size_t>(lines.whole(number, "an orbit", 1, protons + neutrons)) - 1];
  };
  const auto singles = lines.next(1, "a line of the number of single-particle elements");
  const int energies = lines.whole(singles[0], "the number of single-particle elements", 0, most_elements);
  for (int i = 0; i < energies; ++i) {
    const auto v = lines.next(3, "a single-particle element (a, b, value)");
    const Orbit &a = orbit_at(v[0]), &b = orbit_at(v[1]);
    const bool neutron = whole(v[0]) > protons;
    if (a.l != b.l || a.two_j != b.two_j || neutron != (whole(v[1]) > protons))
      throw FormatError(lines.where() + ": the element breaks J, parity or charge.");
    made.set_energy(neutron, a, b, v[2]);
  }
  const auto pairs = lines.next(2, "a line of the number of two-body elements and their method");
  if (whole(pairs[1]) == 1) {
    if (pairs.size() < 4) throw FormatError(lines.where() + ": method 1 needs a mass and a power.");
    made.set_scaling(made.core_, pairs[2], pairs[3], lines.where());
  }
  const int elements = lines.whole(pairs[0], "the number of two-body elements", 0, most_elements);
  for (int i = 0; i < elements; ++i) {
    const auto v = lines.next(6, "a two-body element (a, b, c, d, J, value)");
    Orbit o[4];
    int heavy[2] = {0, 0};
    double value = v[5];
    for (int k = 0; k < 4; ++k)
      o[k] = orbit_at(v[static_cast<std::size_t>(k)]), heavy[k / 2] += v[static_cast<std::size_t>(k)] > protons;
    if (heavy[0] != heavy[1]) throw FormatError(lines.where() + ": the element breaks charge.");
    for (int k = 0; k < 4 && heavy[0] == 1; k += 2)
      if (v[static_cast<std::size_t>(k)] > protons) {  // the neutron first: exchanged
        value *= (o[k].two_j + o[k + 1].two_j - 2 * whole(v[4])) / 2 % 2 ? 1 : -1;
        std::swap(o[k], o[k + 1]);
      }
    const Kind kind = heavy[0] == 0 ? Kind::protons : heavy[0] == 2 ? Kind::neutrons : Kind::mixed;
    made.enter(kind, o, whole(v[4]), value, lines.where());
  }
  return made;
}

}  // namespace flagstone::nuclear
