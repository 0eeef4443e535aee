#include "flagstone/algorithms/subspace/multiply.hpp"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "flagstone/base/error.hpp"
#include "flagstone/kernel/dense/blas3.hpp"

namespace flagstone::subspace {
namespace {

Tile matrix(std::byte* data, Index rows, Index cols, Dtype dtype) {
  const auto item = static_cast<Index>(size_of(dtype));
  return {data, dtype, {rows, cols}, {cols * item, item}};
}

/// Columns before each group, and where stripes begin among them.
std::shared_ptr<const std::vector<Index>> first_columns(const StoredMatrix& h) {
  std::vector<Index> first{0};
  for (const Index columns : h.columns) first.push_back(first.back() + columns);
  return std::make_shared<const std::vector<Index>>(std::move(first));
}

/// What visits a block: its float64 values, its first row and column, counted from those of the stripes.
using Visit = std::function<void(const Tile& block, Index i, Index j, std::span<const Tile> tiles)>;

/// The task of one run; its tiles: values, blocks, scratch, then what the caller adds. float32 is converted.
TaskSpec task_of(const std::shared_ptr<const StoredMatrix>& h, const std::shared_ptr<const std::vector<Index>>& columns,
                 const StoredRun& run, Visit visit) {
  const std::vector<Index>& first = *columns;
  Index largest = 1;
  for (const auto stripe : {run.row, run.col})
    for (Index g = h->stripes[static_cast<std::size_t>(stripe)]; g < h->stripes[static_cast<std::size_t>(stripe) + 1];
         ++g)
      largest = std::max(largest, h->columns[static_cast<std::size_t>(g)]);
  TaskSpec task;
  task.name = "project_read";
  task.accesses = {read({h->values, {{run.first}, {run.length}}}), read({h->blocks, {{run.blocks, 0}, {run.count, 2}}}),
                   scratch(static_cast<std::size_t>(8 * largest * largest))};
  task.body = [h, run, first_row = first[static_cast<std::size_t>(h->stripes[static_cast<std::size_t>(run.row)])],
               first_col = first[static_cast<std::size_t>(h->stripes[static_cast<std::size_t>(run.col)])],
               visit = std::move(visit), columns](std::span<const Tile> tiles) {
    const std::vector<Index>& first = *columns;
    const std::byte* at = tiles[0].data;
    const auto* pair = tiles[1].as<const std::int32_t>();
    const Index item = static_cast<Index>(size_of(h->values.dtype()));
    const std::byte* end = at + run.length * item;
    for (Index b = 0; b < run.count; ++b, pair += tiles[1].strides[0] / 4) {
      const auto inside = [&](std::int32_t group, std::int32_t stripe) {
        return group >= h->stripes[static_cast<std::size_t>(stripe)] &&
               group < h->stripes[static_cast<std::size_t>(stripe) + 1];
      };
      if (!inside(pair[0], run.row) || !inside(pair[1], run.col))
        throw FormatError("subspace: the list of blocks names a group that its run does not hold; it is damaged.");
      const Index zi = h->columns[static_cast<std::size_t>(pair[0])],
                  zj = h->columns[static_cast<std::size_t>(pair[1])];
      const Index i = first[static_cast<std::size_t>(pair[0])] - first_row,
                  j = first[static_cast<std::size_t>(pair[1])] - first_col;
      if (zi * zj > (end - at) / item)
        throw FormatError("subspace: a block of H' lies beyond its run; the index is damaged.");
      Tile block = matrix(const_cast<std::byte*>(at), zi, zj, h->values.dtype());
      if (block.dtype != Dtype::float64) {
        const Tile wide = matrix(tiles[2].data, zi, zj, Dtype::float64);
        kernel::convert(block, nullptr, wide);
        block = wide;
      }
      visit(block, i, j, tiles);
      at += zi * zj * item;
    }
  };
  return task;
}

Tile rows_of(const Tile& all, Index first, Index rows) {
  return {all.data + first * all.strides[0], all.dtype, {rows, all.shape[1]}, all.strides};
}

}  // namespace

/// Of a group: squares of it, and sums over 2^31 groups, are numbers of 64 bits.
constexpr Index most_columns = Index{1} << 31;

void check_stored(const StoredMatrix& h) {
  const auto groups = static_cast<Index>(h.columns.size());
  bool good = h.values.ndim() == 1 && h.blocks.ndim() == 2 && h.blocks.dtype() == Dtype::int32 &&
              h.blocks.shape()[1] == 2 && !h.stripes.empty() && h.stripes.front() == 0 && h.stripes.back() == groups &&
              std::is_sorted(h.stripes.begin(), h.stripes.end()) &&
              std::all_of(h.columns.begin(), h.columns.end(), [](Index z) { return z >= 0 && z < most_columns; });
  const auto stripes = static_cast<std::int32_t>(h.stripes.size()) - 1;
  for (const StoredRun& run : h.runs)
    good = good && run.row >= run.col && run.col >= 0 && run.row < stripes && run.first >= 0 && run.length >= 0 &&
           run.count >= 0 && run.blocks >= 0 && run.first <= h.values.shape()[0] - run.length &&
           run.blocks <= h.blocks.shape()[0] - run.count;
  if (!good) throw FormatError("subspace: the parts of the index of H' do not fit each other; it is damaged.");
}

void multiply(Graph& graph, std::shared_ptr<const StoredMatrix> h, const Array& x, const Array& y) {
  if (!graph.planning()) kernel::set_blas_threads(graph.threads_per_task());
  const auto held = first_columns(*h);
  const std::vector<Index>& first = *held;
  const Index width = x.shape()[1];
  const auto rows = [&](std::int32_t stripe) {
    const Index begin = first[static_cast<std::size_t>(h->stripes[static_cast<std::size_t>(stripe)])],
                end = first[static_cast<std::size_t>(h->stripes[static_cast<std::size_t>(stripe) + 1])];
    return Box{{begin, 0}, {end - begin, width}};
  };
  graph.trust_order(true);
  for (const StoredRun& run : h->runs) {
    const bool diagonal = run.row == run.col;
    // Tiles 3 and 4: x and y of the rows; 5 and 6: of the columns.
    TaskSpec task = task_of(h, held, run, [diagonal](const Tile& block, Index i, Index j, std::span<const Tile> tiles) {
      const Index zi = block.shape[0], zj = block.shape[1];
      const Tile &x_cols = tiles[diagonal ? 3 : 5], &y_cols = tiles[diagonal ? 4 : 6];
      kernel::gemm(1, block, {}, rows_of(x_cols, j, zj), {}, 1, rows_of(tiles[4], i, zi), nullptr);
      if (!diagonal || i != j)
        kernel::gemm(1, block, {.transpose = true}, rows_of(tiles[3], i, zi), {}, 1, rows_of(y_cols, j, zj), nullptr);
    });
    for (const std::int32_t stripe : {run.row, run.col}) {
      task.accesses.push_back(read({x, rows(stripe)}));
      task.accesses.push_back(update({y, rows(stripe)}));
      if (diagonal) break;
    }
    task.cost.flops = 4.0 * static_cast<double>(run.length * width), task.cost.float64 = true;
    graph.add(std::move(task));
  }
  graph.barrier();
  graph.trust_order(false);
}

void to_dense(Graph& graph, std::shared_ptr<const StoredMatrix> h, const Array& to) {
  const auto held = first_columns(*h);
  const std::vector<Index>& first = *held;
  std::byte* memory = graph.planning() ? nullptr : to.store().memory();
  const Index n = first.back();
  graph.trust_order(true);
  for (const StoredRun& run : h->runs) {
    const Index row = first[static_cast<std::size_t>(h->stripes[static_cast<std::size_t>(run.row)])],
                col = first[static_cast<std::size_t>(h->stripes[static_cast<std::size_t>(run.col)])];
    // Every element is written by one task: nobody has to wait.
    TaskSpec task =
        task_of(h, held, run, [memory, n, row, col](const Tile& block, Index i, Index j, std::span<const Tile>) {
          auto* all = reinterpret_cast<double*>(memory);
          for (Index a = 0; a < block.shape[0]; ++a)
            for (Index b = 0; b < block.shape[1]; ++b) {
              const double value = block.as<const double>()[a * block.shape[1] + b];
              all[(row + i + a) * n + col + j + b] = value;
              all[(col + j + b) * n + row + i + a] = value;
            }
        });
    task.cost.bytes_touched = 24.0 * static_cast<double>(run.length);
    graph.add(std::move(task));
  }
  graph.barrier();
  graph.trust_order(false);
}

}  // namespace flagstone::subspace
