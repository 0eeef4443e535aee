#include <cmath>
#include <sstream>

#include "flagstone/algorithms/nuclear/interaction.hpp"
#include "flagstone/base/error.hpp"

namespace flagstone::nuclear {
namespace {

/// Lines with numbers, without comments ('!' and '#').
class Lines {
 public:
  Lines(const std::string& text, std::string name) : text_(text), name_(std::move(name)) {}

  std::string where() const { return "nuclear.Interaction: '" + name_ + "', line " + std::to_string(number_); }
  /// At least so many numbers of the next line; FormatError names it else.
  std::vector<double> next(std::size_t least, const std::string& what) {
    std::string line;
    while (std::getline(text_, line)) {
      ++number_;
      std::istringstream words(line.substr(0, line.find_first_of("!#")));
      std::vector<double> numbers;
      for (double value; words >> value;) numbers.push_back(value);
      if (numbers.empty() && words.eof()) continue;
      if (!words.eof() || numbers.size() < least) break;
      for (const double value : numbers)
        if (!std::isfinite(value)) throw FormatError(where() + ": a value is not finite.");
      return numbers;
    }
    throw FormatError(where() + ": " + what + " of " + std::to_string(least) +
                      " numbers is needed; the file is damaged" + " or no .snt.");
  }

  /// A number of the last line that must be whole, and lie in a range.
  int whole(double value, const char* what, int least, int most) const {
    if (value != std::floor(value) || value < least || value > most) {
      std::ostringstream text;
      text << where() << ": " << what << " is " << value << "; a whole number from " << least << " to " << most
           << " is needed.";
      throw FormatError(text.str());
    }
    return static_cast<int>(value);
  }

 private:
  std::istringstream text_;
  std::string name_;
  int number_ = 0;
};

constexpr int most_orbits = 10'000, most_core = 1'000, most_number = 20'000, most_elements = 1'000'000'000;
constexpr double most_power = 10;

}  // namespace

Interaction Interaction::read_snt(const std::string& text, const std::string& name) {
  Lines lines(text, name);
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
    const auto packed = [](const Orbit& o) {
      return static_cast<std::uint64_t>(o.quanta() << 11 | o.l << 6 | o.two_j);
    };
    made.energies_[static_cast<std::uint64_t>(neutron) << 32 | std::min(packed(a), packed(b)) << 16 |
                   std::max(packed(a), packed(b))] = v[2];
  }
  const auto pairs = lines.next(2, "a line of the number of two-body elements and their method");
  if (whole(pairs[1]) == 1) {
    if (pairs.size() < 4 || !(pairs[2] > 0) || std::abs(pairs[3]) > most_power)
      throw FormatError(lines.where() + ": method 1 needs a mass above 0 and a power between -10 and 10.");
    made.mass_ = pairs[2], made.power_ = pairs[3];
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
