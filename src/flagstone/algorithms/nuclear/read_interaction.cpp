#include "flagstone/algorithms/nuclear/read_interaction.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "flagstone/algorithms/nuclear/number_lines.hpp"
#include "flagstone/base/error.hpp"

namespace flagstone::nuclear {
namespace {

constexpr int most_orbits = 10'000, most_elements = 1'000'000'000, most_core = 1'000, most_number = 20'000;
constexpr double rounding = 1e-9;  // of an element that is given twice

using Place = std::array<int, 5>;  // orbits a <= b, c <= d, (a, b) <= (c, d), and J
using ByIsospin = std::array<std::optional<double>, 2>;

/// The orbits of an .sps file: "iso", their number, and of each n, l, j and a weight.
std::vector<Orbit> isospin_orbits(const std::string& text, const std::string& name) {
  NumberLines lines(text, name, ".sps");
  if (const std::string kind = lines.word(); kind != "iso")
    throw FormatError(lines.where() + ": orbits are of kind '" + kind.substr(0, 20) +
                      "'; 'iso', equal ones of protons and neutrons, is read.");
  const int count = lines.whole(lines.next(1, "the number of orbits")[0], "the number of orbits", 1, most_orbits);
  std::vector<Orbit> orbits;
  for (int i = 0; i < count; ++i) {
    const auto o = lines.next(3, "an orbit (n, l, j)");
    const Orbit orbit{lines.whole(o[0], "n", 0, 31), lines.whole(o[1], "l", 0, 31), lines.whole(2 * o[2], "2j", 1, 63)};
    if (std::abs(orbit.two_j - 2 * orbit.l) != 1 || orbit.quanta() > 31)
      throw FormatError(lines.where() + ": not an orbit (n, l, j = l ± 1/2, of 31 quanta at most).");
    orbits.push_back(orbit);
  }
  return orbits;
}

/// |ba; JT> = (-1)^(ja + jb + J + T) |ab; JT>.
int exchange_sign(const Orbit& a, const Orbit& b, int J, int T) {
  return ((a.two_j + b.two_j) / 2 + J + T) % 2 ? -1 : 1;
}

/// The element of the next line, at its place.
void enter_line(NumberLines& lines, const std::vector<Orbit>& orbits, std::map<Place, ByIsospin>& known) {
  const auto v = lines.next(7, "a two-body element (a, b, c, d, J, T, value)");
  Place at{};
  for (std::size_t k = 0; k < 4; ++k) at[k] = lines.whole(v[k], "an orbit", 1, static_cast<int>(orbits.size())) - 1;
  const int J = lines.whole(v[4], "J", 0, 63), T = lines.whole(v[5], "T", 0, 1);
  double value = v[6];
  at[4] = J;
  for (const std::size_t side : {0u, 2u}) {
    if (at[side] == at[side + 1] && (J + T) % 2 == 0)
      throw FormatError(lines.where() + ": two nucleons in one orbit have J + T odd; this element is not theirs.");
    if (at[side] > at[side + 1]) {
      value *= exchange_sign(orbits[static_cast<std::size_t>(at[side])], orbits[static_cast<std::size_t>(at[side + 1])],
                             J, T);
      std::swap(at[side], at[side + 1]);
    }
  }
  if (std::pair(at[0], at[1]) > std::pair(at[2], at[3])) at = {at[2], at[3], at[0], at[1], J};
  auto& known_value = known[at][static_cast<std::size_t>(T)];
  if (known_value && std::abs(*known_value - value) > rounding * std::max(1.0, std::abs(value)))
    throw FormatError(lines.where() + ": the element was given before as " + std::to_string(*known_value) + " and is " +
                      std::to_string(value) + " here; a symmetric interaction is needed.");
  known_value = value;
}

}  // namespace

Interaction read_isospin(const std::string& text, const std::string& name, const std::string& orbits_text,
                         const std::string& orbits_name) {
  Interaction made;
  const std::vector<Orbit> orbits = isospin_orbits(orbits_text, orbits_name);
  for (const bool neutrons : {false, true})
    for (const Orbit& orbit : orbits) made.add_orbit(neutrons, orbit);
  const auto count = static_cast<int>(orbits.size());
  NumberLines lines(text, name, "isospin .int");
  const auto header = lines.gather(orbits.size() + 1, "the number of elements and an energy of each orbit");
  const int elements = lines.whole(std::abs(header[0]), "the number of two-body elements", 0, most_elements);
  for (std::size_t i = 0; i < orbits.size(); ++i)
    for (const bool neutrons : {false, true}) made.set_energy(neutrons, orbits[i], orbits[i], header[i + 1]);
  if (const std::size_t more = header.size() - orbits.size() - 1; more == 3) {
    const double* scaling = header.data() + orbits.size() + 1;
    made.set_scaling(lines.whole(scaling[0], "the number of nucleons of the core", 0, most_core), scaling[1],
                     -scaling[2], lines.where());
  } else if (more != 0) {
    throw FormatError(lines.where() + ": behind " + std::to_string(count) + " energies stand " + std::to_string(more) +
                      " numbers; none, or three (nucleons of the core, mass, power) are needed.");
  }
  std::map<Place, ByIsospin> known;
  for (int e = 0; e < elements; ++e) enter_line(lines, orbits, known);
  if (lines.more()) {
    lines.word();
    throw FormatError(lines.where() + ": this line stands behind the " + std::to_string(elements) +
                      " elements that were announced; the file is damaged.");
  }
  for (const auto& [place, values] : known) {
    const auto& [a, b, c, d, J] = place;
    const auto orbit = [&](int number) { return orbits[static_cast<std::size_t>(number)]; };
    const Orbit like[4] = {orbit(a), orbit(b), orbit(c), orbit(d)};
    if (values[1])
      for (const Kind kind : {Kind::protons, Kind::neutrons}) made.enter(kind, like, J, *values[1], name);
    const double root = std::sqrt((a == b ? 2.0 : 1.0) * (c == d ? 2.0 : 1.0)) / 2;
    for (const bool bra : {false, true})
      for (const bool ket : {false, true}) {
        double sum = 0;
        for (int T = 0; T < 2; ++T)
          if (const auto& value = values[static_cast<std::size_t>(T)])
            sum += *value * (bra ? exchange_sign(like[0], like[1], J, T) : 1) *
                   (ket ? exchange_sign(like[2], like[3], J, T) : 1);
        const Orbit mixed[4] = {like[bra], like[!bra], like[2 + ket], like[3 - ket]};
        made.enter(Kind::mixed, mixed, J, root * sum, name);
      }
  }
  return made;
}

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
