#include "flagstone/algorithms/nuclear/nonzeros.hpp"

#include <algorithm>
#include <bit>
#include <map>

namespace flagstone::nuclear {
namespace {

/// One nucleon in an orbit, or what several have together.
struct State {
  int quanta = 0, two_m = 0;
};

/// How many things there are with at most so many quanta, of their parity, and one 2M.
class Table {
 public:
  Table(int most_quanta, int most_two_m)
      : quanta_(most_quanta), most_(most_two_m), width_(static_cast<std::size_t>(2 * most_two_m + 1)) {
    counts_.assign(static_cast<std::size_t>(most_quanta + 1) * width_, 0);
  }
  void add(const State& s, Index number = 1) { counts_[place(s.quanta, s.two_m)] += number; }
  /// From those of exactly so many quanta to those of at most so many.
  void sum() {
    for (int q = 2; q <= quanta_; ++q)
      for (int m = -most_; m <= most_; ++m) counts_[place(q, m)] += counts_[place(q - 2, m)];
  }
  Index at(const State& s) const {
    if (s.quanta < 0 || std::abs(s.two_m) > most_) return 0;
    const int q = s.quanta > quanta_ ? quanta_ - (s.quanta - quanta_) % 2 : s.quanta;
    return q < 0 ? 0 : counts_[place(q, s.two_m)];
  }

 private:
  std::size_t place(int quanta, int two_m) const {
    return static_cast<std::size_t>(quanta) * width_ + static_cast<std::size_t>(two_m + most_);
  }
  int quanta_, most_;
  std::size_t width_;
  std::vector<Index> counts_;
};

std::vector<State> states_of(const Species& species) {
  std::vector<State> all;
  for (const Orbit& o : species.orbits)
    for (int i = 0; i < o.states(); ++i) all.push_back({o.quanta(), 2 * i - o.two_j});
  return all;
}

State operator+(const State& a, const State& b) { return {a.quanta + b.quanta, a.two_m + b.two_m}; }
State operator-(const State& a, const State& b) { return {a.quanta - b.quanta, a.two_m - b.two_m}; }
/// Whether something of these quanta may come where at most `most` may.
bool fits(const State& s, const State& most) {
  return s.two_m == most.two_m && s.quanta <= most.quanta && (most.quanta - s.quanta) % 2 == 0;
}

/// States of one species, and their pairs.
struct Tables {
  explicit Tables(const std::vector<State>& all) {
    int quanta = 1, most = 1;
    for (const State& s : all) quanta = std::max(quanta, s.quanta), most = std::max(most, std::abs(s.two_m));
    one = Table(quanta + 1, most), two = Table(2 * quanta + 1, 2 * most);
    for (std::size_t a = 0; a < all.size(); ++a) {
      one.add(all[a]);
      for (std::size_t b = 0; b < a; ++b) two.add(all[a] + all[b]);
    }
    one.sum(), two.sum();
  }
  Table one{0, 0}, two{0, 0};
};

/// Row by row: neighbours of a determinant.
class Neighbours {
 public:
  explicit Neighbours(const Space& space)
      : protons_(states_of(space.protons())), neutrons_(states_of(space.neutrons())), mixed_(1, 1) {
    int quanta = 1, most = 1;
    for (const auto* all : {&protons_, &neutrons_})
      for (const State& s : *all) quanta = std::max(quanta, s.quanta), most = std::max(most, std::abs(s.two_m));
    mixed_ = Table(2 * quanta + 1, 2 * most);
    std::map<std::pair<int, int>, Index> p, n;
    for (const State& s : protons_) ++p[{s.quanta, s.two_m}];
    for (const State& s : neutrons_) ++n[{s.quanta, s.two_m}];
    for (const auto& [a, x] : p)
      for (const auto& [b, y] : n) mixed_.add({a.first + b.first, a.second + b.second}, x * y);
    mixed_.sum();
    p_ = Tables(protons_), n_ = Tables(neutrons_);
  }

  /// `spare`: quanta that the row could have more; it counts itself.
  Index of(const std::vector<State>& p, const std::vector<State>& n, int spare) const {
    Index sum = 1 + like(p_, p, spare) + like(n_, n, spare);
    for (const State& a : p)
      for (const State& b : n) {
        const State most = a + b + State{spare, 0};
        sum += mixed_.at(most);
        for (const State& x : p) sum -= n_.one.at(most - x);
        for (const State& y : n) sum -= p_.one.at(most - y);
        for (const State& x : p)
          for (const State& y : n) sum += fits(x + y, most);
      }
    return sum;
  }

 private:
  static Index like(const Tables& t, const std::vector<State>& held, int spare) {
    Index sum = 0;
    for (std::size_t a = 0; a < held.size(); ++a) {
      const State most = held[a] + State{spare, 0};
      sum += t.one.at(most);
      for (const State& x : held) sum -= fits(x, most);
      for (std::size_t b = 0; b < a; ++b) {
        const State both = most + held[b];
        sum += t.two.at(both);
        for (std::size_t x = 0; x < held.size(); ++x) {
          sum -= t.one.at(both - held[x]) - fits(held[x] + held[x], both);
          for (std::size_t y = 0; y < x; ++y) sum += fits(held[x] + held[y], both);
        }
      }
    }
    return sum;
  }

  std::vector<State> protons_, neutrons_;
  Table mixed_;
  Tables p_{{}}, n_{{}};
};

/// Determinants of one species by number, without a list of them.
class Numbered {
 public:
  explicit Numbered(const Species& species) : species_(species) {
    for (const Pattern& pattern : species.patterns) {
      std::vector<Distribution> behind;
      for (std::size_t s = 0; s <= pattern.size(); ++s)
        behind.push_back(distribution_of({pattern.begin() + static_cast<std::ptrdiff_t>(s), pattern.end()}));
      behind_.push_back(std::move(behind));
    }
  }

  /// The states of determinant `number` of those of one M of a configuration.
  void states(const Configuration& c, int two_m, Index number, std::vector<State>& to) {
    const Pattern& pattern = species_.patterns[static_cast<std::size_t>(c.pattern)];
    const auto& behind = behind_[static_cast<std::size_t>(c.pattern)];
    std::vector<Mask> masks;
    for (std::size_t s = 0; s < pattern.size(); ++s) {
      const Subsets& subsets = of(pattern[s]);
      for (Index k = 0;; ++k) {
        const Index with = behind[s + 1].at(two_m - subsets.two_m(k));
        if (number < with) {
          masks.push_back(subsets.mask(k)), two_m -= subsets.two_m(k);
          break;
        }
        number -= with;
      }
    }
    to.clear();
    for (const Occupied& o : c.orbits) {
      const Orbit& orbit = species_.orbits[static_cast<std::size_t>(o.orbit)];
      for (int i = 0; i < orbit.states(); ++i)
        if (o.slot < 0 || (masks[static_cast<std::size_t>(o.slot)] >> i & 1))
          to.push_back({orbit.quanta(), 2 * i - orbit.two_j});
    }
  }

 private:
  const Subsets& of(const std::pair<int, int>& slot) {
    const auto known = subsets_.find(slot);
    return known != subsets_.end() ? known->second
                                   : subsets_.emplace(slot, Subsets(slot.first, slot.second)).first->second;
  }
  const Species& species_;
  std::vector<std::vector<Distribution>> behind_;  // of each pattern, of its slots from s on
  std::map<std::pair<int, int>, Subsets> subsets_;
};

/// Configurations of one species that have the same pattern and quanta.
std::map<std::pair<int, int>, std::vector<const Configuration*>> classes_of(const Species& species) {
  std::map<std::pair<int, int>, std::vector<const Configuration*>> made;
  for (const Configuration& c : species.configurations) made[{c.quanta, c.pattern}].push_back(&c);
  return made;
}

}  // namespace

double nonzeros(const Space& space, int two_m, Index most_rows) {
  const auto protons = classes_of(space.protons()), neutrons = classes_of(space.neutrons());
  const auto each = [&](auto&& visit) {  // of each pair of classes that a space allows
    for (const auto& [a, p] : protons)
      for (const auto& [b, n] : neutrons)
        if (space.allows(a.first, b.first)) visit(a, p, b, n);
  };
  const auto rows_of = [&](const auto& a, const auto& b) {
    return states(space.protons().distributions[static_cast<std::size_t>(a.second)],
                  space.neutrons().distributions[static_cast<std::size_t>(b.second)], two_m);
  };
  Index dimension = 0;
  each([&](const auto& a, const auto& p, const auto& b, const auto& n) {
    dimension += static_cast<Index>(p.size() * n.size()) * rows_of(a, b);
  });
  const Index counted = std::min(dimension, most_rows);
  if (counted == 0) return 0;
  const Neighbours neighbours(space);
  Numbered proton_rows(space.protons()), neutron_rows(space.neutrons());
  std::vector<State> p_states, n_states;
  Index before = 0, next = 0;  // rows of classes before, number of the next one that is counted
  double sum = 0;
  const auto place = [&](Index k) {  // in the middle of its share
    return static_cast<Index>((static_cast<double>(k) + 0.5) * static_cast<double>(dimension) /
                              static_cast<double>(counted));
  };
  each([&](const auto& a, const auto& p, const auto& b, const auto& n) {
    const Index rows = rows_of(a, b), all = static_cast<Index>(p.size() * n.size()) * rows;
    const Distribution& of_p = space.protons().distributions[static_cast<std::size_t>(a.second)];
    const Distribution& of_n = space.neutrons().distributions[static_cast<std::size_t>(b.second)];
    for (; next < counted && place(next) < before + all; ++next) {
      const Index at = place(next) - before, group = at / rows;
      Index row = at % rows;
      int m = -of_p.most;
      for (;; m += 2) {
        const Index with = of_p.at(m) * of_n.at(two_m - m);
        if (row < with) break;
        row -= with;
      }
      const Index others = of_n.at(two_m - m);
      proton_rows.states(*p[static_cast<std::size_t>(group) / n.size()], m, row / others, p_states);
      neutron_rows.states(*n[static_cast<std::size_t>(group) % n.size()], two_m - m, row % others, n_states);
      int quanta = 0;
      for (const auto* held : {&p_states, &n_states})
        for (const State& s : *held) quanta += s.quanta;
      const int spare = space.nmax() ? space.most_quanta() - quanta : 2 * 1000;
      sum += static_cast<double>(neighbours.of(p_states, n_states, spare));
    }
    before += all;
  });
  const double whole = sum * static_cast<double>(dimension) / static_cast<double>(counted);
  return (whole + static_cast<double>(dimension)) / 2;
}

}  // namespace flagstone::nuclear
