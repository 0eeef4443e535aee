#pragma once
// H row by row through a hash of determinants, the usual way: what tests and benchmarks compare pairs of groups with.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "flagstone/algorithms/nuclear/interaction.hpp"
#include "flagstone/algorithms/nuclear/moves.hpp"

namespace flagstone::nuclear {

/// Of each row the columns and values of H. Knows determinants as lists of occupied states and elements of pairs of
/// states alone: neither groups nor ranks nor lists of moves. An element of H costs a search in the hash.
class RowByRow {
 public:
  static constexpr std::size_t most_nucleons = 16;
  using Row = std::vector<std::pair<Index, double>>;  // columns, in no order

  RowByRow(const Basis& basis, const Interaction& interaction)
      : space_(basis.space()),
        interaction_(interaction),
        tables_(space_),
        scale_(interaction.scale(space_.nucleons())) {
    for (const bool neutron : {false, true}) {
      const Species& species = neutron ? space_.neutrons() : space_.protons();
      first_[neutron].push_back(static_cast<State>(states_.size()));
      for (std::size_t o = 0; o < species.orbits.size(); ++o) {
        for (int i = 0; i < species.orbits[o].states(); ++i)
          states_.push_back({neutron, static_cast<int>(o), i, 2 * i - species.orbits[o].two_j});
        first_[neutron].push_back(static_cast<State>(states_.size()));
      }
    }
    for (std::size_t a = 0; a < states_.size(); ++a)
      for (std::size_t b = a + 1; b < states_.size(); ++b)
        pairs_[kind_and_m(static_cast<State>(a), static_cast<State>(b))].emplace_back(a, b);
    list_rows(basis);
    place_.reserve(rows_.size());
    for (std::size_t row = 0; row < rows_.size(); ++row) place_.emplace(rows_[row], static_cast<Index>(row));
    sums_.resize(rows_.size());
    seen_.resize(rows_.size());
  }

  Index rows() const { return static_cast<Index>(rows_.size()); }

  void row(Index number, Row& to) {
    const Determinant& from = rows_[static_cast<std::size_t>(number)];
    const auto n = static_cast<std::size_t>(space_.nucleons());
    int quanta = 0;
    for (std::size_t x = 0; x < n; ++x) quanta += orbit(from[x]).quanta();
    to.clear();
    for (std::size_t x = 0; x < n; ++x) {
      for (const auto& [c, value] : singles(from[x])) put(from, n, x, x, c, c, value);
      for (std::size_t y = x + 1; y < n; ++y) {
        const int most = space_.most_quanta() - quanta + orbit(from[x]).quanta() + orbit(from[y]).quanta();
        for (const Target& t : targets(from[x], from[y])) {
          if (space_.nmax() && t.quanta > most) break;
          put(from, n, x, y, t.c, t.d, t.value);
        }
      }
    }
    for (const Index column : touched_) {
      double& sum = sums_[static_cast<std::size_t>(column)];
      if (sum != 0) to.emplace_back(column, sum);
      sum = 0, seen_[static_cast<std::size_t>(column)] = 0;
    }
    touched_.clear();
  }

 private:
  using State = std::uint16_t;
  using Determinant = std::array<State, most_nucleons>;  // ascending; zeros behind the last nucleon
  struct Hash {
    std::size_t operator()(const Determinant& d) const {
      std::uint64_t h = 0;
      for (const State s : d) h = (h ^ s) * 0x9E3779B97F4A7C15u, h ^= h >> 29;
      return h;
    }
  };
  struct Numbers {
    bool neutron;
    int orbit, state, two_m;
  };
  struct Target {
    State c, d;
    int quanta;
    double value;
  };

  const Orbit& orbit(State s) const {
    const Numbers& of = states_[s];
    return (of.neutron ? space_.neutrons() : space_.protons()).orbits[static_cast<std::size_t>(of.orbit)];
  }
  std::pair<int, int> kind_and_m(State a, State b) const {
    return {states_[a].neutron + states_[b].neutron, states_[a].two_m + states_[b].two_m};
  }

  /// Adds `value` for nucleons x and y gone to c and d (x = y: one nucleon gone to c).
  void put(const Determinant& from, std::size_t n, std::size_t x, std::size_t y, State c, State d, double value) {
    Determinant after{};
    std::size_t kept = 0, passed = x + (x == y ? 0 : y - 1);
    bool c_waits = true, d_waits = x != y;
    for (std::size_t k = 0; k < n; ++k) {
      if (k == x || k == y) continue;
      const State here = from[k];
      if (here == c || here == d) return;
      if (c_waits && c < here) after[kept++] = c, c_waits = false;
      if (d_waits && d < here) after[kept++] = d, d_waits = false;
      passed += c_waits + (x != y && d_waits);
      after[kept++] = here;
    }
    if (c_waits) after[kept++] = c;
    if (d_waits) after[kept++] = d;
    const auto found = place_.find(after);
    if (found == place_.end()) return;  // beyond the quanta that the space has
    const auto column = static_cast<std::size_t>(found->second);
    if (!seen_[column]) seen_[column] = 1, touched_.push_back(found->second);
    sums_[column] += passed % 2 ? -value : value;
  }

  const std::vector<std::pair<State, double>>& singles(State a) {
    const auto [at, fresh] = singles_.try_emplace(a);
    if (fresh)
      for (std::size_t c = 0; c < states_.size(); ++c) {
        const Numbers &from = states_[a], &to = states_[c];
        const Orbit &o = orbit(a), &p = orbit(static_cast<State>(c));
        if (from.neutron != to.neutron || from.two_m != to.two_m || o.l != p.l || o.two_j != p.two_j) continue;
        const double value = interaction_.one_body(from.neutron, o, p);
        if (value != 0) at->second.emplace_back(c, value);
      }
    return at->second;
  }

  const std::vector<Target>& targets(State a, State b) {
    const auto [at, fresh] = targets_.try_emplace(static_cast<std::uint32_t>(a) << 16 | b);
    if (!fresh) return at->second;
    std::vector<Target>& made = at->second;
    for (const auto& [c, d] : pairs_[kind_and_m(a, b)]) {
      const int quanta = orbit(c).quanta() + orbit(d).quanta();
      if (space_.nmax() && quanta > space_.most_quanta()) continue;
      if (const double value = element(a, b, c, d); value != 0) made.push_back({c, d, quanta, value});
    }
    std::stable_sort(made.begin(), made.end(), [](const Target& s, const Target& t) { return s.quanta < t.quanta; });
    return made;
  }

  double element(State a, State b, State c, State d) const {
    const bool mixed = states_[a].neutron != states_[b].neutron;
    const Orbit &oa = orbit(a), &ob = orbit(b), &oc = orbit(c), &od = orbit(d);
    std::vector<double> coupled;
    interaction_.two_body(mixed                ? Kind::mixed
                          : states_[a].neutron ? Kind::neutrons
                                               : Kind::protons,
                          oa, ob, oc, od, coupled);
    const int first = momenta(oa, ob, oc, od).first;
    const double *bra = tables_.of(oa.two_j, ob.two_j).row(states_[a].state, states_[b].state, first),
                 *ket = tables_.of(oc.two_j, od.two_j).row(states_[c].state, states_[d].state, first);
    double sum = 0;
    for (std::size_t k = 0; k < coupled.size(); ++k) sum += bra[k] * coupled[k] * ket[k];
    const double same =
        (states_[a].orbit == states_[b].orbit ? 2.0 : 1.0) * (states_[c].orbit == states_[d].orbit ? 2.0 : 1.0);
    return scale_ * sum * (mixed ? 1 : std::sqrt(same));
  }

  void list_rows(const Basis& basis) {
    for (Index g = 0; g < basis.groups(); ++g) {
      const Configuration &pc = basis.protons(g), &nc = basis.neutrons(g);
      const Determinants &p = basis.determinants(pc, false), &n = basis.determinants(nc, true);
      for (Index dp = 0; dp < p.count(); ++dp)
        for (const std::int32_t dn : n.sector(basis.two_m() - p.two_m(dp))) {
          Determinant& row = rows_.emplace_back();
          std::size_t filled = 0;
          fill(row, filled, false, pc, p, dp);
          fill(row, filled, true, nc, n, dn);
        }
    }
  }
  void fill(Determinant& row, std::size_t& filled, bool neutron, const Configuration& c, const Determinants& all,
            Index det) const {
    for (const Occupied& o : c.orbits)
      for (int i = 0;
           i < (neutron ? space_.neutrons() : space_.protons()).orbits[static_cast<std::size_t>(o.orbit)].states(); ++i)
        if (o.slot < 0 || (all.mask(det, static_cast<std::size_t>(o.slot)) >> i & 1))
          row.at(filled++) = static_cast<State>(first_[neutron][static_cast<std::size_t>(o.orbit)] + i);
  }

  const Space& space_;
  const Interaction& interaction_;
  ClebschTables tables_;
  double scale_;
  std::vector<Numbers> states_;  // protons, then neutrons, by orbit and m
  std::array<std::vector<State>, 2> first_;
  std::map<std::pair<int, int>, std::vector<std::pair<State, State>>> pairs_;
  std::vector<Determinant> rows_;
  std::unordered_map<Determinant, Index, Hash> place_;
  std::unordered_map<State, std::vector<std::pair<State, double>>> singles_;
  std::unordered_map<std::uint32_t, std::vector<Target>> targets_;
  std::vector<double> sums_;
  std::vector<std::uint8_t> seen_;
  std::vector<Index> touched_;
};

}  // namespace flagstone::nuclear
