#include "flagstone/algorithms/nuclear/counts.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "flagstone/kernel/dense/cblas.hpp"

namespace flagstone::nuclear {
namespace {

using Matrix = std::vector<double>;  // C order

/// A class: what pairs of configurations are counted by.
struct Class {
  int pattern = 0, quanta = 0;
  auto operator<=>(const Class&) const = default;
};

/// Configurations of one species by class, and how many ordered pairs of them differ by one move and by two.
struct Classes {
  explicit Classes(const Species& species) : patterns(static_cast<int>(species.patterns.size())) {
    std::map<Class, int> numbers;
    for (const Configuration& c : species.configurations) numbers.emplace(Class{c.pattern, c.quanta}, 0);
    for (auto& [one, number] : numbers) number = static_cast<int>(all.size()), all.push_back(one);
    members.assign(all.size(), 0);
    for (const Configuration& c : species.configurations) {
      of.push_back(numbers.at({c.pattern, c.quanta}));
      ++members[static_cast<std::size_t>(of.back())];
    }
    if (species.nucleons >= 1) count_one(species);
    if (species.nucleons >= 2) count_two(species);
  }

  int patterns;
  std::vector<Class> all;
  std::vector<Index> members;
  std::vector<int> of;                                         // of each configuration
  std::map<std::pair<int, int>, Index> one;                    // ordered pairs of classes
  std::map<std::pair<int, int>, Index> two;                    // the same
  std::vector<std::vector<std::pair<int, Index>>> remainders;  // of count_two

 private:
  using Occupation = std::vector<std::pair<int, int>>;  // (orbit, nucleons)

  static Occupation without(const Occupation& from, std::size_t i) {
    Occupation rest = from;
    if (--rest[i].second == 0) rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
    return rest;
  }
  static Occupation occupation(const Configuration& c) {
    Occupation made;
    for (const Occupied& o : c.orbits) made.emplace_back(o.orbit, o.count);
    return made;
  }

  /// Two configurations one move apart share one remainder of all nucleons but one.
  void count_one(const Species& species) {
    std::map<Occupation, std::vector<int>> sharing;
    for (std::size_t c = 0; c < species.configurations.size(); ++c) {
      const Occupation mine = occupation(species.configurations[c]);
      for (std::size_t i = 0; i < mine.size(); ++i) sharing[without(mine, i)].push_back(static_cast<int>(c));
    }
    for (const auto& [rest, list] : sharing) {
      std::map<int, Index> histogram;
      for (const int c : list) ++histogram[of[static_cast<std::size_t>(c)]];
      const auto common = static_cast<Index>(rest.size());
      for (const auto& [a, x] : histogram)
        for (const auto& [b, y] : histogram) {
          const Index pairs = a == b ? x * (x - 1) : x * y;
          if (pairs == 0) continue;
          one[{a, b}] += pairs;
          two[{a, b}] -= pairs * common;  // they share so many remainders of all but two
        }
    }
  }

  /// Pairs that share a remainder of all but two: those two moves apart once, nearer ones several times.
  void count_two(const Species& species) {
    std::map<Occupation, std::map<int, Index>> sharing;
    for (std::size_t c = 0; c < species.configurations.size(); ++c) {
      const Occupation mine = occupation(species.configurations[c]);
      std::vector<Occupation> rests;
      for (std::size_t i = 0; i < mine.size(); ++i) {
        const Occupation less = without(mine, i);
        for (std::size_t k = 0; k < less.size(); ++k) rests.push_back(without(less, k));
      }
      std::sort(rests.begin(), rests.end());
      rests.erase(std::unique(rests.begin(), rests.end()), rests.end());
      const int mine_class = of[c];
      for (const Occupation& rest : rests) ++sharing[rest][mine_class];
      two[{mine_class, mine_class}] -= static_cast<Index>(rests.size());
    }
    for (const auto& [rest, histogram] : sharing) remainders.emplace_back(histogram.begin(), histogram.end());
  }
};

/// What is summed over pairs of groups: for one table x of pattern pairs, Σ x(p, n) x(p', n').
class PairSums {
 public:
  PairSums(const Space& space, const Classes& protons, const Classes& neutrons, Matrix table)
      : space_(space), p_(protons), n_(neutrons), table_(std::move(table)) {}

  /// Over unordered pairs of different groups.
  double sum() const { return 0.5 * (same(p_, n_, false) + same(n_, p_, true) + both()); }

 private:
  double at(int p, int n) const { return table_[static_cast<std::size_t>(p) * width() + static_cast<std::size_t>(n)]; }
  std::size_t width() const { return static_cast<std::size_t>(n_.patterns); }
  bool allows(int moving, int still, bool turned) const {
    return turned ? space_.allows(still, moving) : space_.allows(moving, still);
  }

  /// One species moves, by one or two; the other one stands still. `turned`: the neutrons move.
  double same(const Classes& moving, const Classes& still, bool turned) const {
    std::map<int, std::vector<std::size_t>> by_quanta;
    for (std::size_t c = 0; c < moving.all.size(); ++c) by_quanta[moving.all[c].quanta].push_back(c);
    double sum = 0;
    const auto patterns = static_cast<std::size_t>(moving.patterns);
    for (const auto& [most, list] : by_quanta) {
      // weight(a, b) := Σ over what may stand beside both, the one with more quanta has `most`
      std::vector<double> beside(static_cast<std::size_t>(still.patterns), 0.0);
      for (std::size_t s = 0; s < still.all.size(); ++s)
        if (allows(most, still.all[s].quanta, turned))
          beside[static_cast<std::size_t>(still.all[s].pattern)] += static_cast<double>(still.members[s]);
      const Matrix weight = weighed(patterns, beside, turned);
      const auto take = [&](int a, int b, Index pairs) {
        const Class &x = moving.all[static_cast<std::size_t>(a)], &y = moving.all[static_cast<std::size_t>(b)];
        if (std::max(x.quanta, y.quanta) != most || (space_.nmax() && (x.quanta - y.quanta) % 2)) return;
        sum += static_cast<double>(pairs) *
               weight[static_cast<std::size_t>(x.pattern) * patterns + static_cast<std::size_t>(y.pattern)];
      };
      for (const auto& [pair, pairs] : moving.one) take(pair.first, pair.second, pairs);
      for (const auto& [pair, pairs] : moving.two)
        if (moving.remainders.size()) take(pair.first, pair.second, pairs);
      for (const auto& histogram : moving.remainders)
        for (const auto& [a, x] : histogram)
          if (moving.all[static_cast<std::size_t>(a)].quanta == most)
            for (const auto& [b, y] : histogram) {
              const int other = moving.all[static_cast<std::size_t>(b)].quanta;
              if (other > most) continue;
              take(a, b, other < most ? 2 * x * y : x * y);
            }
    }
    return sum;
  }

  /// x diag(beside) xᵀ, or of the transpose.
  Matrix weighed(std::size_t patterns, const std::vector<double>& beside, bool turned) const {
    std::vector<int> kept;
    for (std::size_t s = 0; s < beside.size(); ++s)
      if (beside[s] > 0) kept.push_back(static_cast<int>(s));
    Matrix left(patterns * kept.size()), right(left.size()), made(patterns * patterns, 0.0);
    for (std::size_t a = 0; a < patterns; ++a)
      for (std::size_t s = 0; s < kept.size(); ++s) {
        right[a * kept.size() + s] = turned ? at(kept[s], static_cast<int>(a)) : at(static_cast<int>(a), kept[s]);
        left[a * kept.size() + s] = right[a * kept.size() + s] * beside[static_cast<std::size_t>(kept[s])];
      }
    const auto m = static_cast<int>(patterns), k = static_cast<int>(kept.size());
    if (k > 0)
      blas::dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, m, k, 1.0, left.data(), k, right.data(), k, 0.0,
                  made.data(), m);
    return made;
  }

  /// Both species move by one: Σ over classes of protons (a, b) with their quanta of x W xᵀ, W what neutrons may do.
  double both() const {
    std::map<std::pair<int, int>, std::vector<std::tuple<int, int, double>>> moves;  // by quanta: patterns, pairs
    for (const auto& [pair, pairs] : p_.one) {
      const Class &a = p_.all[static_cast<std::size_t>(pair.first)], &b = p_.all[static_cast<std::size_t>(pair.second)];
      moves[{a.quanta, b.quanta}].emplace_back(a.pattern, b.pattern, static_cast<double>(pairs));
    }
    double sum = 0;
    for (const auto& [quanta, list] : moves) {
      if (quanta.first > quanta.second) continue;  // its mirror image
      const double mirror = quanta.first < quanta.second ? 2 : 1;
      sum += mirror * both_with(quanta.first, quanta.second, list);
    }
    return sum;
  }

  double both_with(int from, int to, const std::vector<std::tuple<int, int, double>>& list) const {
    std::vector<int> rows(width(), -1), cols(width(), -1), row_of, col_of;
    std::vector<std::tuple<int, int, double>> entries;
    const auto place = [](std::vector<int>& places, std::vector<int>& list, int pattern) {
      int& place = places[static_cast<std::size_t>(pattern)];
      if (place < 0) place = static_cast<int>(list.size()), list.push_back(pattern);
      return place;
    };
    for (const auto& [pair, pairs] : n_.one) {
      const Class &c = n_.all[static_cast<std::size_t>(pair.first)], &d = n_.all[static_cast<std::size_t>(pair.second)];
      if (space_.allows(from, c.quanta) && space_.allows(to, d.quanta))
        entries.emplace_back(place(rows, row_of, c.pattern), place(cols, col_of, d.pattern),
                             static_cast<double>(pairs));
    }
    if (entries.empty()) return 0;
    std::vector<int> left(static_cast<std::size_t>(p_.patterns), -1), right(left), left_of, right_of;
    for (const auto& [a, b, pairs] : list) place(left, left_of, a), place(right, right_of, b);
    const std::size_t r = row_of.size(), c = col_of.size(), m = left_of.size(), k = right_of.size();
    Matrix between(r * c, 0.0), x(m * r), y(k * c), xw(m * c), made(m * k);
    for (const auto& [i, j, pairs] : entries)
      between[static_cast<std::size_t>(i) * c + static_cast<std::size_t>(j)] += pairs;
    for (std::size_t a = 0; a < m; ++a)
      for (std::size_t i = 0; i < r; ++i) x[a * r + i] = at(left_of[a], row_of[i]);
    for (std::size_t b = 0; b < k; ++b)
      for (std::size_t j = 0; j < c; ++j) y[b * c + j] = at(right_of[b], col_of[j]);
    const auto in = [](std::size_t n) { return static_cast<int>(n); };
    blas::dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, in(m), in(c), in(r), 1.0, x.data(), in(r), between.data(),
                in(c), 0.0, xw.data(), in(c));
    blas::dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, in(m), in(k), in(c), 1.0, xw.data(), in(c), y.data(), in(c),
                0.0, made.data(), in(k));
    double sum = 0;
    for (const auto& [a, b, pairs] : list)
      sum += pairs * made[static_cast<std::size_t>(left[static_cast<std::size_t>(a)]) * k +
                          static_cast<std::size_t>(right[static_cast<std::size_t>(b)])];
    return sum;
  }

  const Space& space_;
  const Classes &p_, &n_;
  Matrix table_;
};

}  // namespace

Counts counts(const Space& space, int two_j) {
  const Species &protons = space.protons(), &neutrons = space.neutrons();
  const Classes p(protons), n(neutrons);
  const std::size_t wide = neutrons.patterns.size();
  Matrix rows(protons.patterns.size() * wide), used(rows.size()), columns(rows.size());
  for (std::size_t a = 0; a < protons.patterns.size(); ++a)
    for (std::size_t b = 0; b < wide; ++b) {
      const auto &x = protons.distributions[a], &y = neutrons.distributions[b];
      const auto d = static_cast<double>(states(x, y, two_j)), above = static_cast<double>(states(x, y, two_j + 2));
      rows[a * wide + b] = d, columns[a * wide + b] = d - above, used[a * wide + b] = d > above;
    }
  Counts found;
  std::vector<bool> seen(rows.size(), false);
  for (std::size_t a = 0; a < p.all.size(); ++a)
    for (std::size_t b = 0; b < n.all.size(); ++b) {
      if (!space.allows(p.all[a].quanta, n.all[b].quanta)) continue;
      const Index groups = p.members[a] * n.members[b];
      const std::size_t at =
          static_cast<std::size_t>(p.all[a].pattern) * wide + static_cast<std::size_t>(n.all[b].pattern);
      const auto d = static_cast<Index>(rows[at]), z = static_cast<Index>(columns[at]);
      found.groups += groups, found.dimension += groups * d, found.columns += groups * z;
      found.z_numbers += groups * d * z;
      found.h_prime_numbers += static_cast<double>(groups) * static_cast<double>(z * (z + 1) / 2);
      if (z > 0) found.groups_used += groups;
      if (z > 0 && !seen[at]) found.distinct_numbers += d * z;
      seen[at] = true;
    }
  found.tasks = found.groups_used + static_cast<Index>(PairSums(space, p, n, used).sum());
  found.h_prime_numbers += PairSums(space, p, n, columns).sum();
  return found;
}

}  // namespace flagstone::nuclear
