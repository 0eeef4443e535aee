#include "flagstone/algorithms/nuclear/j_basis.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/kernel/dense/blas3.hpp"
#include "flagstone/kernel/dense/cblas.hpp"
#include "flagstone/kernel/dense/lapack.hpp"

namespace flagstone::nuclear {
namespace {

constexpr int lapack_block = 64;                  // columns of work, for each of the matrix
constexpr std::size_t small_pattern = 64 * KiB;   // of its states of all M, which then serve every partner
constexpr std::size_t kept_multiplets = 2 * MiB;  // that a maker holds beside those in use

/// First row of each determinant of protons, among the rows of a total M.
std::vector<std::int32_t> first_rows(const Determinants& p, const Determinants& n, int two_m) {
  std::vector<std::int32_t> first;
  std::int32_t at = 0;
  for (Index d = 0; d < p.count(); ++d) {
    first.push_back(at);
    at += static_cast<std::int32_t>(n.sector(two_m - p.two_m(d)).size());
  }
  return first;
}

/// f(determinant with one nucleon raised, sqrt(j(j+1) - m(m+1))) of all that may be.
template <class F>
void each_raised(const Determinants& all, const Pattern& pattern, Index det, F&& f) {
  for (std::size_t s = 0; s < pattern.size(); ++s) {
    const Mask mask = all.mask(det, s);
    const int two_j = pattern[s].first;
    for (int i = 0; i < two_j; ++i)
      if ((mask >> i & 1) && !(mask >> (i + 1) & 1)) {
        const Mask raised = mask ^ (Mask{3} << i);
        const Index target = det + all.stride(s) * (Subsets::rank(raised) - Subsets::rank(mask));
        f(target, std::sqrt(static_cast<double>((two_j - i) * (i + 1))));  // with m = i - j
      }
  }
}

}  // namespace

std::vector<Raising> raising(const Basis& basis, Index g) {
  const Configuration &pc = basis.protons(g), &nc = basis.neutrons(g);
  const Determinants &p = basis.determinants(pc, false), &n = basis.determinants(nc, true);
  const Pattern &pp = basis.space().protons().patterns[static_cast<std::size_t>(pc.pattern)],
                &np = basis.space().neutrons().patterns[static_cast<std::size_t>(nc.pattern)];
  const int two_m = basis.two_m();
  const auto above = first_rows(p, n, two_m + 2);
  std::vector<Raising> made;
  std::int32_t row = 0;
  for (Index dp = 0; dp < p.count(); ++dp)
    for (const std::int32_t dn : n.sector(two_m - p.two_m(dp))) {
      each_raised(p, pp, dp, [&](Index to, double value) {
        made.push_back({static_cast<std::int32_t>(above[static_cast<std::size_t>(to)] + n.within(dn)), row, value});
      });
      each_raised(n, np, dn, [&](Index to, double value) {
        made.push_back({static_cast<std::int32_t>(above[static_cast<std::size_t>(dp)] + n.within(to)), row, value});
      });
      ++row;
    }
  return made;
}

void j_squared(const Basis& basis, Index width, const double* x, double* y) {
  const double m = 0.5 * basis.two_m();
  const auto add = [width](double factor, const double* from, double* to) {
    for (Index c = 0; c < width; ++c) to[c] += factor * from[c];
  };
  std::vector<double> raised;
  for (Index g = 0; g < basis.groups(); ++g) {
    const double* from = x + basis.first(g) * width;
    double* to = y + basis.first(g) * width;
    for (Index i = 0; i < basis.rows(g) * width; ++i) to[i] = m * (m + 1) * from[i];
    raised.assign(static_cast<std::size_t>(basis.rows_at(g, basis.two_m() + 2) * width), 0.0);
    const auto up = raising(basis, g);
    for (const Raising& e : up) add(e.value, from + e.from * width, raised.data() + e.to * width);
    for (const Raising& e : up) add(e.value, raised.data() + e.to * width, to + e.from * width);
  }
}

namespace {

/// sqrt(j(j+1) - m(m+1)): J+ from m to m + 1, J- back.
double step_up(int two_j, int two_m) {
  return 0.5 * std::sqrt(static_cast<double>((two_j - two_m) * (two_j + two_m + 2)));
}

/// Values of 2M that a species takes in a group, whose other one has at most 2M = `partner`.
struct Sectors {
  int least, most;
};
Sectors sectors_of(const Determinants& all, int two_m, int partner) {
  return {std::max(-all.most(), two_m - partner), std::min(all.most(), two_m + partner)};
}

/// Bytes of the states of these sectors, and of what making them takes.
std::size_t multiplet_bytes(const Determinants& all, const Sectors& of) {
  std::size_t kept = 0, widest = 0;
  for (int two_m = all.most(); two_m >= of.least; two_m -= 2) {
    const std::size_t d = all.sector(two_m).size();
    widest = std::max(widest, d);
    if (two_m <= of.most) kept += 8 * d * d;
  }
  return kept + 8 * widest * (2 * widest + lapack_block + 2);
}

/// Orthonormal states of good J of one species, by sectors of M: in each a square matrix, by columns, whose column c is
/// the same multiplet at every M. J falls with c, so that a sector has the first ones.
class Multiplets {
 public:
  Multiplets(const Determinants& all, const Pattern& pattern, const Sectors& of) : all_(all), of_(of) {
    std::vector<double> above, here;
    for (int two_m = all.most(); two_m >= of.least; two_m -= 2) {
      lower(pattern, two_m, above, here);
      above = here;
      if (two_m <= of.most) kept_.push_back(std::move(here));
      here.clear();
    }
  }
  std::size_t multiplets() const { return two_j_.size(); }
  int two_j(std::size_t column) const { return two_j_[column]; }
  /// Element of a determinant.
  double at(Index det, std::size_t column) const {
    const auto row = static_cast<std::size_t>(all_.within(det)), d = all_.sector(all_.two_m(det)).size();
    return kept_[static_cast<std::size_t>((std::min(of_.most, all_.most()) - all_.two_m(det)) / 2)][row + column * d];
  }

 private:
  /// here := J- above, each column to norm 1, and the multiplets that begin at this M: orthonormal once more, the
  /// higher J first, since what rounding leaves of a higher J in a column is what J- makes larger.
  void lower(const Pattern& pattern, int two_m, const std::vector<double>& above, std::vector<double>& here) {
    const std::vector<std::int32_t>& sector = all_.sector(two_m);
    const std::size_t d = sector.size(), before = all_.sector(two_m + 2).size(), came = std::min(before, d);
    here.assign(d * d, 0.0);
    for (const std::int32_t det : sector)
      each_raised(all_, pattern, det, [&](Index target, double value) {
        const auto from = static_cast<std::size_t>(all_.within(target)),
                   to = static_cast<std::size_t>(all_.within(det));
        for (std::size_t c = 0; c < came; ++c)
          here[to + c * d] += value / step_up(two_j_[c], two_m) * above[from + c * before];
      });
    while (two_j_.size() < d) two_j_.push_back(two_m);
    std::vector<double> tau(d), work(lapack_block * d);
    const auto n = static_cast<int>(d), k = static_cast<int>(came), size = static_cast<int>(work.size());
    int info = k == 0 ? 0 : blas::dgeqrf_work(LAPACK_COL_MAJOR, n, k, here.data(), n, tau.data(), work.data(), size);
    std::vector<bool> turned(came);  // columns keep the sign that they had: it is the multiplet's at all M
    for (std::size_t c = 0; c < came; ++c) turned[c] = here[c + c * d] < 0;
    if (info == 0 && n > 0)
      info = blas::dorgqr_work(LAPACK_COL_MAJOR, n, n, k, here.data(), n, tau.data(), work.data(), size);
    if (info != 0)
      throw NumericalError("nuclear.basis_of_j: the QR of the states of 2M = " + std::to_string(two_m) + " failed.");
    for (std::size_t c = 0; c < came; ++c)
      if (turned[c])
        for (std::size_t i = 0; i < d; ++i) here[i + c * d] = -here[i + c * d];
  }

  const Determinants& all_;
  Sectors of_;
  std::vector<int> two_j_;                 // of the multiplets
  std::vector<std::vector<double>> kept_;  // from the highest sector down
};

/// Clebsch-Gordan coefficients of |J M>, by M of the first: at M = J what J+ takes to zero, a ratio of neighbours; then
/// J-. One sign for all of them.
std::vector<double> coupled(int two_j1, int two_j2, int two_j, int two_m) {
  const auto place = [&](int two_m1) { return static_cast<std::size_t>((two_m1 + two_j1) / 2); };
  std::vector<double> c(static_cast<std::size_t>(two_j1) + 1, 0.0);
  const int least = std::max(-two_j1, two_j - two_j2), most = std::min(two_j1, two_j + two_j2);
  double norm = c[place(most)] = 1;
  for (int m1 = most; m1 > least; m1 -= 2) {
    const double next = -c[place(m1)] * step_up(two_j2, two_j - m1) / step_up(two_j1, m1 - 2);
    c[place(m1 - 2)] = next;
    norm += next * next;
  }
  for (double& value : c) value /= std::sqrt(norm);
  for (int m = two_j; m > two_m; m -= 2)
    for (int m1 = -two_j1; m1 <= two_j1; m1 += 2) {  // upwards: a place needs its own old value and the next one's
      const int m2 = m - m1;
      double sum = m1 < two_j1 ? c[place(m1 + 2)] * step_up(two_j1, m1) : 0;
      if (m2 <= two_j2 && m2 > -two_j2) sum += c[place(m1)] * step_up(two_j2, m2 - 2);
      c[place(m1)] = sum / step_up(two_j, m - 2);
    }
  return c;
}

/// Makes blocks one after the other; keeps the multiplets of patterns, which neighbours share. One thread.
class Maker {
 public:
  Maker(std::shared_ptr<const Basis> basis, int two_j) : basis_(std::move(basis)), two_j_(two_j) {}

  /// z (rows x columns, C order).
  void make(Index g, Index columns, double* z) {
    const Configuration &pc = basis_->protons(g), &nc = basis_->neutrons(g);
    const Determinants &p = basis_->determinants(pc, false), &n = basis_->determinants(nc, true);
    const int two_m = basis_->two_m();
    if (bytes_ > kept_multiplets) kept_.clear(), bytes_ = 0;
    const Multiplets &ps = multiplets(pc, false, n.most()), &ns = multiplets(nc, true, p.most());
    join(ps, ns);
    if (static_cast<Index>(columns_.size()) != columns)
      throw NumericalError("nuclear.basis_of_j: group " + std::to_string(g) + " has " +
                           std::to_string(columns_.size()) + " states of this J and " + std::to_string(columns) +
                           " by dimensions, of " + std::to_string(basis_->rows(g)) + " rows; J² was not diagonalised.");
    std::vector<double> of_protons(columns_.size());
    for (Index dp = 0; dp < p.count(); ++dp) {
      const int m = p.two_m(dp);
      const auto& partners = n.sector(two_m - m);
      if (partners.empty()) continue;
      for (std::size_t c = 0; c < columns_.size(); ++c) {
        const Column& of = columns_[c];
        of_protons[c] = m > of.two_j || m < -of.two_j || std::abs(two_m - m) > of.partner_two_j
                            ? 0
                            : of.coefficients[(m + of.two_j) / 2] * ps.at(dp, of.proton);
      }
      for (const std::int32_t dn : partners)
        for (std::size_t c = 0; c < columns_.size(); ++c)
          *z++ = of_protons[c] == 0 ? 0 : of_protons[c] * ns.at(dn, columns_[c].neutron);
    }
  }

 private:
  /// A state: two multiplets, and what couples them.
  struct Column {
    std::size_t proton, neutron;
    int two_j, partner_two_j;
    const double* coefficients;  // by M of the protons
  };

  /// All pairs of multiplets that couple to J, in order.
  void join(const Multiplets& ps, const Multiplets& ns) {
    columns_.clear(), coefficients_.clear();
    for (std::size_t a = 0; a < ps.multiplets(); ++a)
      for (std::size_t b = 0; b < ns.multiplets(); ++b) {
        const int j1 = ps.two_j(a), j2 = ns.two_j(b);
        if (two_j_ < std::abs(j1 - j2) || two_j_ > j1 + j2) continue;
        auto& known = coefficients_[{j1, j2}];
        if (known.empty()) known = coupled(j1, j2, two_j_, basis_->two_m());
        columns_.push_back({a, b, j1, j2, known.data()});
      }
  }

  const Multiplets& multiplets(const Configuration& c, bool neutron, int partner) {
    const Determinants& all = basis_->determinants(c, neutron);
    const Species& species = neutron ? basis_->space().neutrons() : basis_->space().protons();
    Sectors of{-all.most(), all.most()};
    if (multiplet_bytes(all, of) > small_pattern) of = sectors_of(all, basis_->two_m(), partner);
    auto& held = kept_[{neutron, c.pattern, of.least, of.most}];
    if (!held) {
      held = std::make_unique<Multiplets>(all, species.patterns[static_cast<std::size_t>(c.pattern)], of);
      bytes_ += multiplet_bytes(all, of);
    }
    return *held;
  }

  std::shared_ptr<const Basis> basis_;
  int two_j_;
  std::map<std::tuple<bool, int, int, int>, std::unique_ptr<Multiplets>> kept_;
  std::size_t bytes_ = 0;
  std::vector<Column> columns_;
  std::map<std::pair<int, int>, std::vector<double>> coefficients_;
};

/// Bytes of the multiplets that a block takes, and of its list of columns.
std::size_t block_bytes(const Basis& basis, const ZBlock& block) {
  const Determinants &p = basis.determinants(basis.protons(block.group), false),
                     &n = basis.determinants(basis.neutrons(block.group), true);
  const auto of = [&](const Determinants& all, int partner) {
    const std::size_t whole = multiplet_bytes(all, {-all.most(), all.most()});
    return whole <= small_pattern ? whole : multiplet_bytes(all, sectors_of(all, basis.two_m(), partner));
  };
  return of(p, n.most()) + of(n, p.most()) + 48 * static_cast<std::size_t>(block.columns) +
         static_cast<std::size_t>(8 * (p.most() + n.most()) * (p.most() + n.most()));
}

}  // namespace

/// Tasks borrow them: never more than there are workers.
class JBlocks::Makers {
 public:
  Makers(std::shared_ptr<const Basis> basis, int two_j) : basis_(std::move(basis)), two_j_(two_j) {}
  const Basis& basis() const { return *basis_; }
  std::unique_ptr<Maker> take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return std::make_unique<Maker>(basis_, two_j_);
    auto held = std::move(free_.back());
    free_.pop_back();
    return held;
  }
  void give(std::unique_ptr<Maker> held) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(held));
  }

 private:
  std::shared_ptr<const Basis> basis_;
  int two_j_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Maker>> free_;
};

JBlocks::JBlocks(Graph& graph, std::shared_ptr<const Basis> basis, int two_j, const std::vector<ZBlock>& all)
    : graph_(graph), makers_(std::make_shared<Makers>(std::move(basis), two_j)) {
  std::size_t most = 0;
  for (const ZBlock& block : all) most = std::max(most, block_bytes(makers_->basis(), block));
  charge_ = graph.charge(static_cast<std::uint64_t>(graph.workers()) * (kept_multiplets + 2 * most));
}

JBlocks::~JBlocks() = default;

void JBlocks::add(std::vector<ZBlock> blocks, const Array& values, const Box& box) {
  std::size_t largest = 64;
  TaskSpec task;
  task.name = "basis_of_j";
  for (const ZBlock& b : blocks) {
    const Index numbers = makers_->basis().rows(b.group) * b.columns;
    largest = std::max(largest, static_cast<std::size_t>(8 * numbers));
    task.cost.flops += 3.0 * static_cast<double>(numbers);
    task.cost.bytes_touched += 100.0 * static_cast<double>(numbers);
  }
  task.cost.float64 = true;
  task.accesses = {once(write({values, box})), scratch(largest)};
  task.body = [makers = makers_, blocks = std::move(blocks), start = box.start[0],
               dtype = values.dtype()](std::span<const Tile> tiles) {
    const auto item = static_cast<Index>(size_of(dtype));
    std::memset(tiles[0].data, 0, static_cast<std::size_t>(tiles[0].shape[0] * item));
    auto maker = makers->take();
    for (const ZBlock& b : blocks) {
      auto* z = reinterpret_cast<double*>(tiles[1].data);
      maker->make(b.group, b.columns, z);
      const Index n = makers->basis().rows(b.group) * b.columns;
      const Tile from{reinterpret_cast<std::byte*>(z), Dtype::float64, {1, n}, {8 * n, 8}};
      const Tile to{tiles[0].data + (b.offset - start) * item, dtype, {1, n}, {item * n, item}};
      kernel::convert(from, nullptr, to);
    }
    makers->give(std::move(maker));
  };
  graph_.add(std::move(task));
}

}  // namespace flagstone::nuclear
