#include "flagstone/algorithms/factor/qr_tree.hpp"

#include "flagstone/base/bytes.hpp"

namespace flagstone::linalg {
namespace {

constexpr Index wanted_chains = 64;  // columns of tiles times groups, where there are tiles enough: workers of later

/// The largest power of two of rows of a tile of so many bytes: of 4 MiB, which whole chunks often are.
Index rows_of(Index n, Dtype dtype, std::size_t bytes) {
  const auto row = static_cast<Index>(static_cast<std::size_t>(n) * size_of(dtype));
  Index rows = 64;
  while (2 * rows * row <= static_cast<Index>(bytes)) rows *= 2;
  return std::max(rows, n);
}

}  // namespace

std::array<std::pair<Shape, Shape>, 3> reflector_shapes(const QrTree& tree) {
  const Index w = tree.cols, slots = tree.row_tiles + tree.groups;
  return {{{{tree.n, tree.m}, {w, tree.rows}},
           {{tree.n, slots * tree.ib}, {w, tree.ib}},
           {{tree.n, tree.groups * w}, {w, w}}}};
}

QrTree::QrTree(Index m, Index n, Dtype dtype, const QrCut& cut) : m(m), n(n), dtype(dtype) {
  cols = std::max<Index>(1, std::min(n, cut.widest));
  rows = n > cut.widest ? cut.tall * cols : rows_of(cols, dtype, cut.bytes);
  row_tiles = ceil_div(m, rows), col_tiles = ceil_div(n, cols);  // none where there is nothing
  panels = ceil_div(std::min(m, n), cols);
  const Index most = std::max<Index>(1, row_tiles / cut.shortest_chain);
  const Index wanted = std::clamp<Index>(ceil_div(wanted_chains, std::max<Index>(1, col_tiles)), 1, most);
  group = std::max<Index>(1, row_tiles / wanted);
  groups = std::max<Index>(1, row_tiles / group);
  ib = std::min(n > cut.widest ? cut.block : cut.block / 2, cols);
}

void QrTree::chains(Index k, Index from, Index end, std::vector<Step>& steps) const {
  bool more = true;
  for (Index d = 0; more; ++d) {
    more = false;
    for (Index q = from; q < end; ++q) {
      const Index top = head(k, q), below = q + 1 == groups ? row_tiles : (q + 1) * group;
      if (top + d >= below) continue;
      steps.push_back({d == 0 ? Step::head : Step::chain, top, top + d});
      more = true;
    }
  }
}

void QrTree::merges(Index k, Index from, Index end, std::vector<Step>& steps) const {
  const Index first = group_of(start(k));
  for (Index step = 1; first + step < groups; step *= 2)
    for (Index q = first; q + step < groups; q += 2 * step) {
      const Index below = std::min(q + 2 * step, groups);  // groups [q, below) become one triangle
      if (from < below && below <= end) steps.push_back({Step::merge, head(k, q), head(k, q + step)});
    }
}

std::vector<QrTree::Step> QrTree::steps(Index k, Index beside) const {
  std::vector<Step> made;
  for (Index from = group_of(start(k)); from < groups; from += beside) {
    const Index end = std::min(groups, from + beside);
    chains(k, from, end, made);
    merges(k, from, end, made);
  }
  return made;
}

}  // namespace flagstone::linalg
