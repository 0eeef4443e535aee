#include "flagstone/algorithms/nuclear/j_basis.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "flagstone/base/error.hpp"
#include "flagstone/kernel/dense/blas3.hpp"
#include "flagstone/kernel/dense/cblas.hpp"
#include "flagstone/kernel/dense/lapack.hpp"

namespace flagstone::nuclear {
namespace {

constexpr int lapack_block = 64;         // columns of work, for each of the matrix
constexpr double eigenvalue_off = 1e-8;  // of J², from J(J+1); others are J + 1 away at least

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

std::size_t j_block_bytes(const Basis& basis, Index g, int two_j) {
  const auto d = static_cast<std::size_t>(basis.rows(g));
  const std::size_t list = 32 * d * static_cast<std::size_t>(basis.space().nucleons());
  if (basis.two_m() == two_j) return 8 * (d * d + d + lapack_block * d) + list;
  return 8 * (d * d + d) + kernel::symmetric_eigen_bytes(static_cast<Index>(d)) + list;
}

namespace {

void check_columns(const Basis& basis, Index g, Index found, Index columns) {
  if (found != columns)
    throw NumericalError("nuclear.basis_of_j: group " + std::to_string(g) + " has " + std::to_string(found) +
                         " states of this J and " + std::to_string(columns) + " by dimensions, of " +
                         std::to_string(basis.rows(g)) + " rows; J² was not diagonalised.");
}

void kernel_of_raising(const Basis& basis, Index g, Index columns, double* z, double* a) {
  const Index d = basis.rows(g), r = d - columns;
  check_columns(basis, g, d - basis.rows_at(g, basis.two_m() + 2), columns);
  std::fill_n(a, d * d, 0.0);
  for (const Raising& e : raising(basis, g)) a[e.from + d * e.to] += e.value;  // J+ transposed, by columns
  double *tau = a + d * d, *work = tau + d;
  const auto n = static_cast<int>(d), k = static_cast<int>(r), size = static_cast<int>(lapack_block * d);
  int info = 0;
  if (k > 0) info = blas::dgeqrf_work(LAPACK_COL_MAJOR, n, k, a, n, tau, work, size);
  if (info == 0) info = blas::dorgqr_work(LAPACK_COL_MAJOR, n, n, k, a, n, tau, work, size);
  if (info != 0) throw NumericalError("nuclear.basis_of_j: the QR of J+ of group " + std::to_string(g) + " failed.");
  for (Index i = 0; i < d; ++i)
    for (Index j = 0; j < columns; ++j) z[i * columns + j] = a[i + d * (r + j)];
}

void eigenvectors_of_j2(const Basis& basis, Index g, int two_j, Index columns, double* z, double* a) {
  const Index d = basis.rows(g);
  const double m = 0.5 * basis.two_m(), j = 0.5 * two_j;
  std::fill_n(a, d * d, 0.0);
  for (Index i = 0; i < d; ++i) a[i * d + i] = m * (m + 1);
  auto up = raising(basis, g);
  std::sort(up.begin(), up.end(),
            [](const Raising& x, const Raising& y) { return std::pair(x.to, x.from) < std::pair(y.to, y.from); });
  for (std::size_t first = 0; first < up.size();) {
    std::size_t last = first;
    while (last < up.size() && up[last].to == up[first].to) ++last;
    for (std::size_t x = first; x < last; ++x)
      for (std::size_t y = first; y < last; ++y) a[up[x].from * d + up[y].from] += up[x].value * up[y].value;
    first = last;
  }
  double* values = a + d * d;
  if (kernel::symmetric_eigen(d, a, values) != 0)
    throw NumericalError("nuclear.basis_of_j: J² of group " + std::to_string(g) + " has no eigenvectors.");
  Index found = 0;
  for (Index v = 0; v < d; ++v) {
    if (std::abs(values[v] - j * (j + 1)) > eigenvalue_off) continue;
    if (found < columns)
      for (Index i = 0; i < d; ++i) z[i * columns + found] = a[v * d + i];
    ++found;
  }
  check_columns(basis, g, found, columns);
}

}  // namespace

void j_block(const Basis& basis, Index g, int two_j, Index columns, double* z, std::byte* work) {
  auto* numbers = reinterpret_cast<double*>(work);
  if (basis.two_m() == two_j)
    kernel_of_raising(basis, g, columns, z, numbers);
  else
    eigenvectors_of_j2(basis, g, two_j, columns, z, numbers);
}

void add_j_blocks(Graph& graph, std::shared_ptr<const Basis> basis, int two_j, std::vector<ZBlock> blocks,
                  const Array& values, const Box& box) {
  std::size_t work = 0, largest = 0;
  TaskSpec task;
  task.name = "basis_of_j";
  for (const ZBlock& b : blocks) {
    const auto d = static_cast<double>(basis->rows(b.group));
    work = std::max(work, j_block_bytes(*basis, b.group, two_j));
    largest = std::max(largest, static_cast<std::size_t>(8 * basis->rows(b.group) * b.columns));
    task.cost.flops += basis->two_m() == two_j ? 4 * d * d * d : 9 * d * d * d;
  }
  task.cost.float64 = true;
  work = (work + 63) / 64 * 64;
  task.accesses = {once(write({values, box})), scratch(work + largest)};
  task.body = [basis = std::move(basis), two_j, blocks = std::move(blocks), work, start = box.start[0],
               dtype = values.dtype()](std::span<const Tile> tiles) {
    const auto item = static_cast<Index>(size_of(dtype));
    std::memset(tiles[0].data, 0, static_cast<std::size_t>(tiles[0].shape[0] * item));
    for (const ZBlock& b : blocks) {
      auto* z = reinterpret_cast<double*>(tiles[1].data + work);
      j_block(*basis, b.group, two_j, b.columns, z, tiles[1].data);
      const Index n = basis->rows(b.group) * b.columns;
      const Tile from{reinterpret_cast<std::byte*>(z), Dtype::float64, {1, n}, {8 * n, 8}};
      const Tile to{tiles[0].data + (b.offset - start) * item, dtype, {1, n}, {item * n, item}};
      kernel::convert(from, nullptr, to);
    }
  };
  graph.add(std::move(task));
}

}  // namespace flagstone::nuclear
