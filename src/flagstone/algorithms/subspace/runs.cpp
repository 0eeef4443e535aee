#include "flagstone/algorithms/subspace/runs.hpp"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "flagstone/base/error.hpp"

namespace flagstone::subspace {

namespace {

// What making H_ij and two products take beside their flops, as bytes copied meanwhile: fitted to the blocks of ⁶Li,
// Nmax 6 and 8 (7 ns a nonzero, 2.4 a search, 6 a row, 0.54 us a block, 1 us a list and 23 ns for each of its
// determinants, at 57 GB/s).
constexpr double bytes_of_nonzero = 400, bytes_of_search = 135, bytes_of_row = 325, bytes_of_block = 31'000,
                 bytes_of_list = 57'000, bytes_of_listed = 1310, bytes_of_dense = 0.8;

}  // namespace

double PairWork::bytes_touched() const {
  return bytes_of_nonzero * nonzeros + bytes_of_search * searches + bytes_of_row * rows + bytes_of_block * blocks +
         bytes_of_list * lists + bytes_of_listed * listed + bytes_of_dense * dense;
}

PairWork pair_work(const Making& making, Index rows_i, Index z_i, Index rows_j, Index z_j) {
  const auto nonzeros = static_cast<double>(making.nonzeros), zi = static_cast<double>(z_i),
             zj = static_cast<double>(z_j), di = static_cast<double>(rows_i), dj = static_cast<double>(rows_j);
  PairWork right;
  right.nonzeros = nonzeros, right.searches = static_cast<double>(making.searches);
  right.lists = static_cast<double>(making.lists), right.listed = static_cast<double>(making.listed);
  right.rows = di + dj;
  PairWork left = right;
  right.sparse = nonzeros * zj, right.dense = di * zi * zj;
  left.sparse = nonzeros * zi, left.dense = dj * zi * zj, left.right = false;
  return right.sparse + right.dense <= left.sparse + left.dense ? right : left;
}

Runs runs_of(const BlockSource& h, const BlockLayout& z, std::size_t item) {
  if (h.groups() != z.groups())
    throw ShapeError("project: H has " + std::to_string(h.groups()) + " groups and Z " + std::to_string(z.groups()) +
                     "; the same groups are needed.");
  std::vector<bool> used;
  for (Index g = 0; g < z.groups(); ++g) {
    if (h.rows(g) != z.rows[static_cast<std::size_t>(g)])
      throw ShapeError("project: group " + std::to_string(g) + " has " + std::to_string(h.rows(g)) + " rows in H and " +
                       std::to_string(z.rows[static_cast<std::size_t>(g)]) + " in Z.");
    used.push_back(z.columns[static_cast<std::size_t>(g)] > 0);
  }
  /// Of one column of stripes the blocks, and where those of each row of stripes begin: rows come in order.
  struct Column {
    std::vector<BlockPlace> places;
    std::vector<std::pair<std::int32_t, std::size_t>> rows;
  };
  std::vector<Column> by_column(static_cast<std::size_t>(z.stripe_count()));
  std::vector<std::int32_t> js;
  Runs made;
  for (Index stripe = 0; stripe < z.stripe_count(); ++stripe) {
    const Index first = z.stripes[static_cast<std::size_t>(stripe)],
                last = z.stripes[static_cast<std::size_t>(stripe) + 1];
    if (last - first > 65536)
      throw ShapeError("project: a stripe holds " + std::to_string(last - first) + " groups; 65536 at most are held.");
    for (Index i = first; i < last; ++i) {
      if (!used[static_cast<std::size_t>(i)]) continue;
      h.couplings(i, used, js);
      for (const std::int32_t j : js) {
        const Index column = z.stripe_of(j);
        Column& to = by_column[static_cast<std::size_t>(column)];
        if (to.rows.empty() || to.rows.back().first != stripe)
          to.rows.emplace_back(static_cast<std::int32_t>(stripe), to.places.size());
        to.places.push_back({static_cast<std::uint16_t>(i - first),
                             static_cast<std::uint16_t>(j - z.stripes[static_cast<std::size_t>(column)])});
      }
    }
  }
  const auto estimate = h.estimate();
  const Index page = run_chunk_bytes / static_cast<Index>(item);
  for (std::size_t column = 0; column < by_column.size(); ++column) {
    auto& [places, rows] = by_column[column];
    rows.emplace_back(-1, places.size());
    for (std::size_t r = 0; r + 1 < rows.size(); ++r) {
      const auto begin = places.begin() + static_cast<std::ptrdiff_t>(rows[r].second),
                 end = places.begin() + static_cast<std::ptrdiff_t>(rows[r + 1].second);
      std::sort(begin, end,
                [](const BlockPlace& a, const BlockPlace& b) { return std::tie(a.j, a.i) < std::tie(b.j, b.i); });
      Run run;
      run.row = rows[r].first, run.col = static_cast<std::int32_t>(column);
      run.first = made.length, run.blocks = static_cast<Index>(made.places.size());
      Index length = 0;
      for (auto at = begin; at != end; ++at) {
        const BlockPlace& block = *at;
        const Index i = z.stripes[static_cast<std::size_t>(run.row)] + block.i, j = z.stripes[column] + block.j;
        const Index zi = z.columns[static_cast<std::size_t>(i)], zj = z.columns[static_cast<std::size_t>(j)],
                    di = h.rows(i), dj = h.rows(j);
        const PairWork work = pair_work(estimate->of(i, j), di, zi, dj, zj);
        run.work += work;
        run.scratch = std::max(run.scratch, static_cast<std::size_t>(work.right ? di * zj : dj * zi) * item);
        made.workspace = std::max(made.workspace, h.workspace_bytes(i, j));
        made.nonzeros += i == j ? zi * (zi + 1) / 2 : zi * zj;
        length += zi * zj;
        made.places.push_back(block);
      }
      run.count = static_cast<Index>(made.places.size()) - run.blocks;
      run.length = (length + page - 1) / page * page;
      made.length += run.length;
      made.runs.push_back(run);
    }
    by_column[column] = {};
  }
  made.length = std::max(made.length, page);
  return made;
}

}  // namespace flagstone::subspace
