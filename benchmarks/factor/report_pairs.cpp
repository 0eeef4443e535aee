// The pairs of "Performance Tuning SLATE" (January 2020) as graphs: what was before, and what came after. One line of
// JSON.
//   report_pairs PAIR before|after TILES EDGE WORKERS run|plan
// PAIR: lookahead (chapter 6: right-looking Cholesky with a barrier after each step, or none), diagonal (chapter 5: the
// diagonal tile of a rank-k update inside the task of its column, or on its own), ttmqr (chapter 3: the tiles of a pair
// one after the other, or side by side), norm (chapter 4: a partial sum for every tile column, or for every worker).
// Matrices of TILES x TILES float64 tiles of EDGE x EDGE, in memory. plan: WORKERS on a virtual clock, at gemm's rate.
#include <cmath>
#include <cstdio>
#include <exception>
#include <map>
#include <string>

#include "flagstone/algorithms/kernels/dense.hpp"
#include "flagstone/algorithms/kernels/factor.hpp"
#include "flagstone/algorithms/kernels/qr.hpp"
#include "flagstone/algorithms/tiled/tile_tasks.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/kernel/dense/blas3.hpp"
#include "flagstone/kernel/factor/qr.hpp"
#include "flagstone/runtime/runtime.hpp"

namespace flagstone {
namespace {

using namespace linalg;

constexpr Dtype f64 = Dtype::float64;

struct Setting {
  Graph& graph;
  Index tiles, edge;
  bool before;

  Index n() const { return tiles * edge; }
  double cube() const { return std::pow(static_cast<double>(edge), 3); }
};

/// Ones on the diagonal of a tile, zeros elsewhere: positive definite, and no denormals on the way.
void identity_tile(Graph& graph, const Region& region) {
  TaskSpec task;
  task.name = "identity";
  task.accesses = {update(region)};
  task.body = [](std::span<const Tile> tiles) {
    const Tile& t = tiles[0];
    for (Index i = 0; i < std::min(t.shape[0], t.shape[1]); ++i)
      *reinterpret_cast<double*>(t.data + i * (t.strides[0] + t.strides[1])) = 1;
  };
  graph.add(std::move(task));
}

Tiled square(const Setting& s, const Array& array) {
  const Cut cut{s.n(), s.edge, s.edge};
  return Tiled({array}, cut, cut);
}

void lookahead(const Setting& s) {
  const Tiled a = square(s, s.graph.allocate({s.n(), s.n()}, f64));
  for (Index k = 0; k < s.tiles; ++k) identity_tile(s.graph, a(k, k).region);
  const auto step = [&] {
    if (s.before) s.graph.barrier();
  };
  for (Index k = 0; k < s.tiles; ++k) {
    potrf(s.graph, a(k, k), {"cholesky", k * s.edge, k * s.edge});
    step();
    for (Index i = k + 1; i < s.tiles; ++i) trsm(s.graph, Side::right, adjoint(lower(a(k, k))), 1.0, a(i, k));
    step();
    for (Index j = k + 1; j < s.tiles; ++j)
      for (Index i = j; i < s.tiles; ++i)
        i == j ? herk(s.graph, -1, a(i, k), 1, a(i, i)) : gemm(s.graph, -1, a(i, k), adjoint(a(j, k)), 1, a(i, j));
    step();
  }
}

void diagonal(const Setting& s) {
  const Tiled c = square(s, s.graph.allocate({s.n(), s.n()}, f64));
  const Cut rows{s.n(), s.edge, s.edge}, depth{s.edge, s.edge, s.edge};
  const Tiled a({s.graph.allocate({s.n(), s.edge}, f64)}, rows, depth);
  for (Index j = 0; j < s.tiles; ++j) {
    if (!s.before) {
      for (Index i = j; i < s.tiles; ++i)
        i == j ? herk(s.graph, 1, a(j, 0), 1, c(j, j)) : gemm(s.graph, 1, a(i, 0), adjoint(a(j, 0)), 1, c(i, j));
      continue;
    }
    TaskSpec task;
    task.name = "panel";
    task.cost = {.flops = s.cube() * static_cast<double>(1 + 2 * (s.tiles - 1 - j)), .float64 = true};
    task.accesses = {read(a(j, 0).region), update(c(j, j).region)};
    task.calls = {call::herk(f64, Uplo::lower, 1, {0}, 1, {1})};
    for (Index i = j + 1; i < s.tiles; ++i) {
      const auto at = static_cast<std::uint32_t>(task.accesses.size());
      task.accesses.insert(task.accesses.end(), {read(a(i, 0).region), update(c(i, j).region)});
      task.calls.push_back(call::gemm(f64, 1, {at}, {0, true, false, {}}, 1, {at + 1}));
    }
    s.graph.add(std::move(task));
  }
}

/// One tile a group: what is left is the tree, and the trailing update down it. Everything is stored transposed.
void ttmqr(const Setting& s) {
  const Index b = s.edge, ib = std::min<Index>(64, b), groups = s.tiles;
  const Array r = s.graph.allocate({b, groups * b}, f64), t = s.graph.allocate({b, groups * ib}, f64);
  const Array c = s.graph.allocate({s.tiles * b, groups * b}, f64);
  const auto triangle = [&](Index q) { return Region{r, {{0, q * b}, {b, b}}}; };
  const auto factors = [&](Index q) { return Region{t, {{0, q * ib}, {b, ib}}}; };
  const auto tile = [&](Index q, Index j) { return Region{c, {{j * b, q * b}, {b, b}}}; };
  const auto part = [&](std::uint32_t access, Index rows) {
    return TilePart{access, true, false, {{0, 0}, {b, rows}}};
  };
  for (Index q = 0; q < groups; ++q) identity_tile(s.graph, triangle(q));
  for (Index step = 1; step < groups; step *= 2)
    for (Index top = 0; top + step < groups; top += 2 * step) {
      const Index low = top + step;
      TaskSpec meet;
      meet.name = "tpqrt";
      meet.cost = {.flops = 2 * s.cube() / 3, .float64 = true};
      meet.accesses = {scratch(kernel::qr_work_bytes(f64, ib, b)), write(factors(low)), update(triangle(low)),
                       update(triangle(top))};
      meet.calls = {call::tpqrt(f64, {.ib = ib, .triangle = true, .work = 0}, part(1, ib), part(2, b), part(3, b))};
      s.graph.add(std::move(meet));
      const Index together = s.before ? s.tiles : 1;
      for (Index j = 0; j < s.tiles; j += together) {
        TaskSpec apply;
        apply.name = "tpmqrt";
        apply.accesses = {scratch(kernel::qr_work_bytes(f64, ib, b)), read(triangle(low)), read(factors(low))};
        for (Index one = j; one < j + together; ++one) {
          const auto at = static_cast<std::uint32_t>(apply.accesses.size());
          apply.accesses.insert(apply.accesses.end(), {update(tile(top, one)), update(tile(low, one))});
          apply.calls.push_back(call::tpmqrt(f64, {.ib = ib, .adjoint = true, .triangle = true, .work = 0}, part(1, b),
                                             part(2, ib), part(at, b), part(at + 1, b)));
        }
        apply.cost = {.flops = 2 * s.cube() * static_cast<double>(together), .float64 = true};
        s.graph.add(std::move(apply));
      }
    }
}

/// Adds sums of absolute values of the rows of a tile.
void row_sums(std::span<const Tile> tiles) {
  const Tile &a = tiles[0], &sums = tiles[1];
  for (Index i = 0; i < a.shape[0]; ++i) {
    const auto* row = reinterpret_cast<const double*>(a.data + i * a.strides[0]);
    double sum = 0;
    for (Index j = 0; j < a.shape[1]; ++j) sum += std::abs(row[j]);
    *reinterpret_cast<double*>(sums.data + i * sums.strides[sums.strides.size() - 1]) += sum;
  }
}

void norm(const Setting& s) {
  const Tiled a = square(s, s.graph.allocate({s.n(), s.n()}, f64));
  const Index partial = s.before ? s.tiles : std::min<Index>(s.tiles, s.graph.workers());
  const Array sums = s.graph.allocate({partial, s.n()}, f64);
  const auto of = [&](Index i, Index j) { return Region{sums, {{j % partial, i * s.edge}, {1, s.edge}}}; };
  const double bytes = 8.0 * static_cast<double>(s.edge);
  for (Index j = 0; j < s.tiles; ++j)
    for (Index i = 0; i < s.tiles; ++i) {
      TaskSpec task;
      task.name = "row_sums";
      task.cost.bytes_touched = bytes * static_cast<double>(s.edge);
      task.accesses = {read(a(i, j).region), update(of(i, j))};
      task.body = row_sums;
      s.graph.add(std::move(task));
    }
  for (Index i = 0; i < s.tiles; ++i)
    for (Index j = 1; j < partial; ++j) {
      TaskSpec task;
      task.name = "sum_up";
      task.cost.bytes_touched = 3 * bytes;
      task.accesses = {read(of(i, j)), update(of(i, 0))};
      task.body = row_sums;
      s.graph.add(std::move(task));
    }
}

const std::map<std::string, void (*)(const Setting&)> pairs = {
    {"lookahead", lookahead}, {"diagonal", diagonal}, {"ttmqr", ttmqr}, {"norm", norm}};

int run(const std::string& pair, bool before, Index tiles, Index edge, int workers, bool plan) {
  kernel::set_blas_threads(1);
  Runtime runtime({.memory = plan ? 64 * GiB : resident_bytes() + 3 * GiB, .workers = workers});
  const auto builder = [&](Graph& graph) { pairs.at(pair)({graph, tiles, edge, before}); };
  const Statistics stats = plan ? runtime.plan(builder) : runtime.run(builder);
  std::printf("{\"seconds\": %.6f, \"idle_share\": %.4f, \"tasks\": %llu}\n", stats.seconds,
              stats.worker_idle_seconds / (stats.seconds * workers), static_cast<unsigned long long>(stats.tasks));
  return 0;
}

}  // namespace
}  // namespace flagstone

int main(int count, char** words) {
  if (count != 7) {
    std::fprintf(stderr, "report_pairs: needs PAIR before|after TILES EDGE WORKERS run|plan\n");
    return 2;
  }
  try {
    return flagstone::run(words[1], std::string(words[2]) == "before", std::stol(words[3]), std::stol(words[4]),
                          std::stoi(words[5]), std::string(words[6]) == "plan");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
