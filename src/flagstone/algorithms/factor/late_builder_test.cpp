// Tiles that several tasks change are written once, though a builder that gets no time shows one task at a time.
#include "flagstone/testing/late_builder.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "flagstone/algorithms/factor/cholesky.hpp"
#include "flagstone/algorithms/factor/lu.hpp"
#include "flagstone/algorithms/factor/substitute.hpp"
#include "flagstone/algorithms/factor/triangular_product.hpp"
#include "flagstone/algorithms/linalg/matmul.hpp"
#include "flagstone/algorithms/linalg/rank_k.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/runtime/simulator.hpp"
#include "flagstone/storage/chunk/planned_array.hpp"

namespace flagstone {
namespace {

using namespace linalg;

struct Routine {
  std::string name;
  std::function<void(Graph&)> build;
};

std::uint64_t bytes_written(const Routine& routine, bool late) {
  RuntimeOptions options;
  options.workers = 2;
  Simulator simulator(options, {}, GiB, GiB);
  simulator.run([&](Graph& graph) {
    LateBuilder one_by_one(graph);
    routine.build(late ? one_by_one : graph);
  });
  return simulator.statistics().bytes_written;
}

Array matrix(Index rows, Index cols, Index chunk) {
  return planned_array({rows, cols}, Dtype::float32, {chunk, chunk});
}

std::vector<Routine> routines() {
  constexpr Index n = 4096, m = 1500, wide = 900;
  const Index tile = factor_tile(n, Dtype::float32);
  const Array a = matrix(n, n, 1024), b = matrix(n, wide, 512), c = matrix(n, n, 1024),
              x = planned_array({n, wide}, Dtype::float32, {n, 512}),
              l = planned_array({n, n}, Dtype::float32, {tile, tile}),
              y = planned_array({n, wide}, Dtype::float32, {tile, right_tile(wide)}),
              stack = planned_array({3, m, m}, Dtype::float32, {1, m, m}),
              products = planned_array({3, m, m}, Dtype::float32, {1, m, m});
  const TriangularOperand lower{{l}};
  const LuColumns columns(n, lu_tile(n), [](const char*, Index, const Shape& shape) {
    return planned_array(shape, Dtype::float32, shape);
  });
  std::vector<Routine> all = {
      {"matmul", [=](Graph& graph) { matmul(graph, {a}, {b}, nullptr, x, {}); }},
      {"stacks", [=](Graph& graph) { matmul(graph, {stack}, {stack}, nullptr, products, {}); }},
      {"cholesky", [=](Graph& graph) { cholesky(graph, {a}, {l}, {}); }},
      {"forward half", [=](Graph& graph) { cholesky(graph, {a}, {l}, {.right = Operand{b}, .forward = y}); }},
      {"substitute", [=](Graph& graph) { substitute(graph, "test", {lower}, {b}, y); }},
      {"two substitutions",
       [=](Graph& graph) {
         substitute(graph, "test", {lower, adjoint(TriangularOperand(lower))}, {b}, y);
       }},
      {"triangular product", [=](Graph& graph) { triangular_product(graph, "test", lower, y, 1.0); }},
      {"lu",
       [=](Graph& graph) {
         lu(graph, "test", {a}, columns, graph.allocate({n}, Dtype::int64), {.rows = RowOrder::interleaved});
       }},
      {"lu_solve",
       [=](Graph& graph) {
         lu_solve(graph, "test", columns, graph.allocate({n}, Dtype::int64), RowOrder::interleaved, {b}, x);
       }},
  };
  for (const Half half : {Half::both, Half::lower, Half::upper})
    all.push_back({"rank_k", [=](Graph& graph) { rank_k(graph, {a}, nullptr, nullptr, c, {.half = half}); }});
  all.push_back({"rank_2k", [=](Graph& graph) {
                   const Operand other{matrix(n, n, 1024)};
                   rank_k(graph, {a}, &other, nullptr, c, {.half = Half::lower});
                 }});
  return all;
}

TEST(LateBuilder, WritesEachTileOnce) {
  for (const Routine& routine : routines())
    EXPECT_EQ(bytes_written(routine, true), bytes_written(routine, false)) << routine.name;
}

}  // namespace
}  // namespace flagstone
