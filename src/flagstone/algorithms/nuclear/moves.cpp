#include "flagstone/algorithms/nuclear/moves.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>

namespace flagstone::nuclear {
namespace {

Mask full(int two_j) { return (Mask{1} << (two_j + 1)) - 1; }

/// A determinant as masks of all orbits of both configurations, so that nucleons may move.
class Filled {
 public:
  explicit Filled(const Side& side) : side_(side) {
    for (const Occupied& o : side.from->orbits) orbits_.push_back(o.orbit);
    for (const Occupied& o : side.to->orbits)
      if (std::find(orbits_.begin(), orbits_.end(), o.orbit) == orbits_.end()) orbits_.push_back(o.orbit);
    std::sort(orbits_.begin(), orbits_.end());
    masks_.resize(orbits_.size());
    for (const Occupied& o : side.from->orbits) from_.push_back(place(o.orbit));
    for (const Occupied& o : side.to->orbits) to_.push_back(place(o.orbit));
  }

  void load(Index det) {
    std::fill(masks_.begin(), masks_.end(), Mask{0});
    for (std::size_t i = 0; i < from_.size(); ++i) {
      const Occupied& o = side_.from->orbits[i];
      masks_[from_[i]] =
          o.slot < 0 ? full(two_j(from_[i])) : side_.from_determinants->mask(det, static_cast<std::size_t>(o.slot));
    }
  }
  /// The rank of what is filled now, in the other configuration.
  Index rank() const {
    Index rank = 0;
    for (std::size_t i = 0; i < to_.size(); ++i)
      if (const int slot = side_.to->orbits[i].slot; slot >= 0)
        rank += side_.to_determinants->stride(static_cast<std::size_t>(slot)) * Subsets::rank(masks_[to_[i]]);
    return rank;
  }
  std::size_t orbits() const { return orbits_.size(); }
  int orbit(std::size_t place) const { return orbits_[place]; }
  int two_j(std::size_t place) const { return side_.species->orbits[static_cast<std::size_t>(orbits_[place])].two_j; }
  const Orbit& quantum(std::size_t place) const {
    return side_.species->orbits[static_cast<std::size_t>(orbits_[place])];
  }
  Mask& mask(std::size_t place) { return masks_[place]; }
  std::size_t place(int orbit) const {
    return static_cast<std::size_t>(std::find(orbits_.begin(), orbits_.end(), orbit) - orbits_.begin());
  }
  /// Nucleons in states before this one.
  int before(std::size_t place, int state) const {
    int sum = std::popcount(masks_[place] & ((Mask{1} << state) - 1));
    for (std::size_t p = 0; p < place; ++p) sum += std::popcount(masks_[p]);
    return sum;
  }

 private:
  const Side& side_;
  std::vector<int> orbits_;
  std::vector<std::size_t> from_, to_;
  std::vector<Mask> masks_;
};

template <class F>
void each_bit(Mask mask, F&& f) {
  for (; mask; mask &= mask - 1) f(std::countr_zero(mask));
}

}  // namespace

ClebschTables::ClebschTables(const Space& space) {
  int most = 1;
  for (const Species* s : {&space.protons(), &space.neutrons()})
    for (const Configuration& c : s->configurations)
      for (const Occupied& o : c.orbits) most = std::max(most, s->orbits[static_cast<std::size_t>(o.orbit)].two_j);
  width_ = most / 2 + 1;
  for (int j1 = 1; j1 <= most; j1 += 2)
    for (int j2 = 1; j2 <= most; j2 += 2) tables_.emplace_back(j1, j2);
}

void Jumps::list(const Side& side) {
  const Moves moves = moves_between(*side.from, *side.to);
  Filled filled(side);
  channels_.clear(), sorted_.clear();
  if (moves.moves == 1) {
    channels_.push_back({moves.removed[0], moves.added[0]});
  } else {
    for (const Occupied& o : side.from->orbits) channels_.push_back({o.orbit, o.orbit});
  }
  most_ = 0;
  for (const Channel& c : channels_)
    most_ = std::max(most_, (filled.two_j(filled.place(c.from)) + filled.two_j(filled.place(c.to))) / 2);
  const auto steps = static_cast<std::size_t>(2 * most_ + 1);
  const Index dets = side.from_determinants->count();
  starts_.assign(static_cast<std::size_t>(dets) * steps + 1, 0);
  std::vector<std::int32_t> counts(steps + 1);
  for (Index det = 0; det < dets; ++det) {
    filled.load(det);
    jumps_.clear();
    for (std::size_t ch = 0; ch < channels_.size(); ++ch) {
      const std::size_t a = filled.place(channels_[ch].from), b = filled.place(channels_[ch].to);
      each_bit(filled.mask(a), [&](int from) {
        const int below = filled.before(a, from);
        filled.mask(a) ^= Mask{1} << from;
        each_bit(full(filled.two_j(b)) & ~filled.mask(b), [&](int to) {
          const int sign = (below + filled.before(b, to)) % 2 ? -1 : 1;
          filled.mask(b) ^= Mask{1} << to;
          jumps_.push_back({static_cast<std::int32_t>(filled.rank()), static_cast<std::uint8_t>(ch),
                            static_cast<std::uint8_t>(from), static_cast<std::uint8_t>(to),
                            static_cast<std::int8_t>(sign)});
          filled.mask(b) ^= Mask{1} << to;
        });
        filled.mask(a) ^= Mask{1} << from;
      });
    }
    const auto step_of = [&](const Jump& j) {
      const Channel& c = channels_[j.channel];
      const int two_from = 2 * j.from - filled.two_j(filled.place(c.from)),
                two_to = 2 * j.to - filled.two_j(filled.place(c.to));
      return static_cast<std::size_t>((two_to - two_from) / 2 + most_);
    };
    std::fill(counts.begin(), counts.end(), 0);
    for (const Jump& j : jumps_) ++counts[step_of(j) + 1];
    const std::size_t base = static_cast<std::size_t>(det) * steps;
    const auto begin = static_cast<std::int32_t>(sorted_.size());
    for (std::size_t s = 0; s < steps; ++s) counts[s + 1] += counts[s], starts_[base + s] = begin + counts[s];
    sorted_.resize(sorted_.size() + jumps_.size());
    for (const Jump& j : jumps_) sorted_[static_cast<std::size_t>(begin + counts[step_of(j)]++)] = j;
  }
  starts_.back() = static_cast<std::int32_t>(sorted_.size());
  jumps_.swap(sorted_);
}

namespace {

/// The quadruples of orbits that one pair of configurations meets: few.
class Quadruples {
 public:
  Quadruples(const Side& side, const Interaction& interaction, double scale, const ClebschTables& tables)
      : side_(side), interaction_(interaction), scale_(scale), tables_(tables) {}

  const Quadruple& of(int a, int b, int c, int d) {
    for (const Quadruple& q : all_)
      if (q.a == a && q.b == b && q.c == c && q.d == d) return q;
    const auto orbit = [&](int number) -> const Orbit& {
      return side_.species->orbits[static_cast<std::size_t>(number)];
    };
    Quadruple made;
    made.a = a, made.b = b, made.c = c, made.d = d;
    made.bra = &tables_.of(orbit(a).two_j, orbit(b).two_j), made.ket = &tables_.of(orbit(c).two_j, orbit(d).two_j);
    made.first = momenta(orbit(a), orbit(b), orbit(c), orbit(d)).first;
    interaction_.two_body(side_.neutron ? Kind::neutrons : Kind::protons, orbit(a), orbit(b), orbit(c), orbit(d),
                          made.values);
    const double root = std::sqrt((a == b ? 2.0 : 1.0) * (c == d ? 2.0 : 1.0));
    for (double& value : made.values) value *= root * scale_;
    all_.push_back(std::move(made));
    return all_.back();
  }

 private:
  const Side& side_;
  const Interaction& interaction_;
  double scale_;
  const ClebschTables& tables_;
  std::vector<Quadruple> all_;
};

}  // namespace

void OwnElements::list(const Side& side, const Interaction& interaction, double scale, const ClebschTables& tables,
                       int center, int reach) {
  const Moves moves = moves_between(*side.from, *side.to);
  Filled filled(side);
  Quadruples quadruples(side, interaction, scale, tables);
  row_.assign(static_cast<std::size_t>(side.to_determinants->count()), 0.0);
  seen_.assign(row_.size(), 0);
  elements_.clear(), starts_.assign(1, 0);
  struct State {
    std::size_t place;
    int state;
  };
  std::vector<State> occupied;
  const auto add = [&](double value) {
    const auto target = static_cast<std::int32_t>(filled.rank());
    double& sum = row_[static_cast<std::size_t>(target)];
    if (!seen_[static_cast<std::size_t>(target)])
      touched_.push_back(target), seen_[static_cast<std::size_t>(target)] = 1;
    sum += value;
  };
  const auto put_two = [&](const State& x, const State& y, std::size_t c, std::size_t d, int sign) {
    const int two_m = 2 * (x.state + y.state) - filled.two_j(x.place) - filled.two_j(y.place);
    const int together = (two_m + filled.two_j(c) + filled.two_j(d)) / 2;  // number of c's state + number of d's
    const Quadruple& q = quadruples.of(filled.orbit(x.place), filled.orbit(y.place), filled.orbit(c), filled.orbit(d));
    if (q.values.empty()) return;
    each_bit(full(filled.two_j(c)) & ~filled.mask(c), [&](int gamma) {
      const int delta = together - gamma;
      if (delta < 0 || delta > filled.two_j(d) || (filled.mask(d) >> delta & 1) || (c == d && delta <= gamma)) return;
      const int passed = filled.before(c, gamma) + filled.before(d, delta);
      const double value = q.element(x.state, y.state, gamma, delta);
      filled.mask(c) ^= Mask{1} << gamma, filled.mask(d) ^= Mask{1} << delta;
      add((sign + passed) % 2 ? -value : value);
      filled.mask(c) ^= Mask{1} << gamma, filled.mask(d) ^= Mask{1} << delta;
    });
  };
  /// Where two nucleons from orbits o and p may go: what is removed is among them, what is added stands in its place.
  const auto targets = [&](int o, int p, int& c, int& d) {
    int now[2] = {o, p};
    bool moved[2] = {false, false};
    for (int k = 0; k < moves.moves; ++k) {
      const int which = !moved[0] && o == moves.removed[k] ? 0 : !moved[1] && p == moves.removed[k] ? 1 : -1;
      if (which < 0) return false;
      now[which] = moves.added[k], moved[which] = true;
    }
    c = std::min(now[0], now[1]), d = std::max(now[0], now[1]);
    return true;
  };
  for (Index det = 0; det < side.from_determinants->count(); ++det) {
    if (std::abs(side.from_determinants->two_m(det) - center) <= reach && moves.moves <= 2) {
      filled.load(det);
      occupied.clear();
      for (std::size_t p = 0; p < filled.orbits(); ++p)
        each_bit(filled.mask(p), [&](int state) { occupied.push_back({p, state}); });
      for (std::size_t i = 0; i < occupied.size(); ++i)
        for (std::size_t k = i + 1; k < occupied.size(); ++k) {
          int c = 0, d = 0;
          if (!targets(filled.orbit(occupied[i].place), filled.orbit(occupied[k].place), c, d)) continue;
          filled.mask(occupied[i].place) ^= Mask{1} << occupied[i].state;
          filled.mask(occupied[k].place) ^= Mask{1} << occupied[k].state;
          put_two(occupied[i], occupied[k], filled.place(c), filled.place(d), static_cast<int>(i + k - 1));
          filled.mask(occupied[i].place) ^= Mask{1} << occupied[i].state;
          filled.mask(occupied[k].place) ^= Mask{1} << occupied[k].state;
        }
      for (std::size_t i = 0; i < occupied.size() && moves.moves <= 1; ++i) {
        const State& x = occupied[i];
        const int from = filled.orbit(x.place);
        if (moves.moves == 1 && from != moves.removed[0]) continue;
        const std::size_t to = moves.moves == 1 ? filled.place(moves.added[0]) : x.place;
        const Orbit &a = filled.quantum(x.place), &b = filled.quantum(to);
        if (a.l != b.l || a.two_j != b.two_j) continue;
        const double value = interaction.one_body(side.neutron, a, b);
        if (value == 0) continue;
        filled.mask(x.place) ^= Mask{1} << x.state;
        if (!(filled.mask(to) >> x.state & 1)) {
          const int passed = static_cast<int>(i) + filled.before(to, x.state);
          filled.mask(to) ^= Mask{1} << x.state;
          add(passed % 2 ? -value : value);
          filled.mask(to) ^= Mask{1} << x.state;
        }
        filled.mask(x.place) ^= Mask{1} << x.state;
      }
    }
    std::sort(touched_.begin(), touched_.end());
    for (const std::int32_t target : touched_) {
      if (row_[static_cast<std::size_t>(target)] != 0)
        elements_.push_back({target, row_[static_cast<std::size_t>(target)]});
      row_[static_cast<std::size_t>(target)] = 0, seen_[static_cast<std::size_t>(target)] = 0;
    }
    touched_.clear();
    starts_.push_back(static_cast<std::int32_t>(elements_.size()));
  }
}

}  // namespace flagstone::nuclear
