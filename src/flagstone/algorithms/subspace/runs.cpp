#include "flagstone/algorithms/subspace/runs.hpp"

#include <algorithm>
#include <string>
#include <tuple>

#include "flagstone/base/error.hpp"

namespace flagstone::subspace {

double pair_work(double nonzeros, Index rows_i, Index z_i, Index rows_j, Index z_j, bool& right) {
  const auto zi = static_cast<double>(z_i), zj = static_cast<double>(z_j);
  const double from_right = nonzeros * zj + static_cast<double>(rows_i) * zi * zj;
  const double from_left = nonzeros * zi + static_cast<double>(rows_j) * zi * zj;
  right = from_right <= from_left;
  return std::min(from_right, from_left);
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
  struct Place {
    std::int32_t row;
    BlockPlace block;
  };
  std::vector<std::vector<Place>> by_column(static_cast<std::size_t>(z.stripe_count()));
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
        by_column[static_cast<std::size_t>(column)].push_back(
            {static_cast<std::int32_t>(stripe),
             {static_cast<std::uint16_t>(i - first),
              static_cast<std::uint16_t>(j - z.stripes[static_cast<std::size_t>(column)])}});
      }
    }
  }
  const Index page = chunk_bytes / static_cast<Index>(item);
  for (std::size_t column = 0; column < by_column.size(); ++column) {
    auto& places = by_column[column];
    std::stable_sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
      return std::tuple(a.row, a.block.j, a.block.i) < std::tuple(b.row, b.block.j, b.block.i);
    });
    for (std::size_t at = 0; at < places.size();) {
      Run run;
      run.row = places[at].row, run.col = static_cast<std::int32_t>(column);
      run.first = made.length, run.blocks = static_cast<Index>(made.places.size());
      Index length = 0;
      for (; at < places.size() && places[at].row == run.row; ++at) {
        const BlockPlace& block = places[at].block;
        const Index i = z.stripes[static_cast<std::size_t>(run.row)] + block.i, j = z.stripes[column] + block.j;
        const Index zi = z.columns[static_cast<std::size_t>(i)], zj = z.columns[static_cast<std::size_t>(j)],
                    di = h.rows(i), dj = h.rows(j);
        const Index nonzeros = h.most_nonzeros(i, j);
        bool right = true;
        run.multiply_adds += pair_work(static_cast<double>(nonzeros), di, zi, dj, zj, right);
        run.nonzeros += nonzeros;
        run.scratch = std::max(run.scratch, static_cast<std::size_t>(right ? di * zj : dj * zi) * item);
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
    places = {};
  }
  made.length = std::max(made.length, page);
  return made;
}

}  // namespace flagstone::subspace
