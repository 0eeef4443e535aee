#include "flagstone/algorithms/nuclear/interaction.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "flagstone/base/error.hpp"
#include "flagstone/kernel/random/philox.hpp"

namespace flagstone::nuclear {
namespace {

constexpr double most_power = 10;

/// Quanta, l and 2j in 16 bits: no number of a list, so that an element does not depend on one.
std::uint64_t code(const Orbit& o) {
  return static_cast<std::uint64_t>(o.quanta()) << 11 | static_cast<std::uint64_t>(o.l) << 6 |
         static_cast<std::uint64_t>(o.two_j);
}

/// Of two exchanged nucleons: -(-1)^(ja + jb - J).
double exchanged(const Orbit& a, const Orbit& b, int two_J) { return (a.two_j + b.two_j - two_J) / 2 % 2 ? 1.0 : -1.0; }

std::string label(const Orbit& o) {
  return "(n " + std::to_string(o.n) + ", l " + std::to_string(o.l) + ", 2j " + std::to_string(o.two_j) + ")";
}

}  // namespace

Interaction::Key Interaction::key_of(Kind kind, const Orbit& a, const Orbit& b, const Orbit& c, const Orbit& d,
                                     int two_J, double& sign) {
  std::uint64_t bra = code(a) << 16 | code(b), ket = code(c) << 16 | code(d);
  sign = 1;
  if (kind != Kind::mixed) {
    if (code(a) > code(b)) bra = code(b) << 16 | code(a), sign *= exchanged(a, b, two_J);
    if (code(c) > code(d)) ket = code(d) << 16 | code(c), sign *= exchanged(c, d, two_J);
  }
  if (bra > ket) std::swap(bra, ket);
  return {bra << 32 | ket, static_cast<std::uint32_t>(kind) << 16 | static_cast<std::uint32_t>(two_J)};
}

Interaction Interaction::random(std::uint64_t seed) {
  Interaction made;
  made.random_ = true, made.seed_ = seed;
  return made;
}

double Interaction::drawn(const Key& key) const {
  const kernel::PhiloxCounter counter{static_cast<std::uint32_t>(key.orbits),
                                      static_cast<std::uint32_t>(key.orbits >> 32), key.kind_and_j, 0};
  const auto words =
      kernel::philox(counter, {static_cast<std::uint32_t>(seed_), static_cast<std::uint32_t>(seed_ >> 32)});
  const double first = (static_cast<double>(words[0]) + 1) * 0x1p-32, second = static_cast<double>(words[1]) * 0x1p-32;
  return std::sqrt(-2 * std::log(first)) * std::cos(2 * std::numbers::pi * second);  // Box and Muller
}

double Interaction::scale(int nucleons) const {
  return mass_ > 0 ? std::pow(static_cast<double>(core_ + nucleons) / mass_, power_) : 1.0;
}

void Interaction::set_scaling(int core, double mass, double power, const std::string& where) {
  if (!(mass > 0) || !std::isfinite(mass) || !(std::abs(power) <= most_power))
    throw FormatError(where + ": scaling needs a mass above 0 and a power between -10 and 10.");
  core_ = core, mass_ = mass, power_ = power;
}

std::uint64_t Interaction::energy_key(bool neutrons, const Orbit& a, const Orbit& b) {
  return static_cast<std::uint64_t>(neutrons) << 32 | std::min(code(a), code(b)) << 16 | std::max(code(a), code(b));
}

double Interaction::one_body(bool neutrons, const Orbit& a, const Orbit& b) const {
  const auto found = energies_.find(energy_key(neutrons, a, b));
  return found == energies_.end() ? 0.0 : found->second;
}

void Interaction::two_body(Kind kind, const Orbit& a, const Orbit& b, const Orbit& c, const Orbit& d,
                           std::vector<double>& to) const {
  const Momenta range = momenta(a, b, c, d);
  const bool only_even = kind != Kind::mixed && (code(a) == code(b) || code(c) == code(d));
  to.assign(static_cast<std::size_t>(std::max(0, (range.last - range.first) / 2 + 1)), 0.0);
  for (std::size_t i = 0; i < to.size(); ++i) {
    const int two_J = range.first + 2 * static_cast<int>(i);
    if (only_even && two_J % 4) continue;
    double sign = 1;
    const Key key = key_of(kind, a, b, c, d, two_J, sign);
    if (random_) {
      to[i] = sign * drawn(key);
    } else if (const auto found = couplings_.find(key); found != couplings_.end()) {
      to[i] = sign * found->second;
    }
  }
}

void Interaction::check_spans(const Space& space) const {
  if (random_) return;
  for (const bool neutrons : {false, true}) {
    const Species& species = neutrons ? space.neutrons() : space.protons();
    const auto& mine = orbits(neutrons);
    for (const Configuration& c : species.configurations)
      for (const Occupied& o : c.orbits)
        if (std::find(mine.begin(), mine.end(), species.orbits[static_cast<std::size_t>(o.orbit)]) == mine.end())
          throw ShapeError("nuclear.Interaction: the space has " + std::string(neutrons ? "neutrons" : "protons") +
                           " in orbit " + label(species.orbits[static_cast<std::size_t>(o.orbit)]) +
                           ", which the file does not list; give one that has it, or a smaller nmax.");
  }
}

void Interaction::enter(Kind kind, const Orbit* o, int J, double value, const std::string& where) {
  const Momenta range = momenta(o[0], o[1], o[2], o[3]);
  if (2 * J < range.first || 2 * J > range.last || (o[0].l + o[1].l + o[2].l + o[3].l) % 2)
    throw FormatError(where + ": orbits " + label(o[0]) + " and " + label(o[1]) + " do not couple with " + label(o[2]) +
                      " and " + label(o[3]) + " to J = " + std::to_string(J) + "; such an element breaks J or parity.");
  double sign = 1;
  const Key key = key_of(kind, o[0], o[1], o[2], o[3], 2 * J, sign);
  const auto [at, fresh] = couplings_.emplace(key, sign * value);
  if (!fresh && std::abs(at->second - sign * value) > 1e-9 * std::max(1.0, std::abs(value)))
    throw FormatError(where + ": the element was given before as " + std::to_string(sign * at->second) + " and is " +
                      std::to_string(value) + " here; a symmetric interaction is needed.");
}

}  // namespace flagstone::nuclear
