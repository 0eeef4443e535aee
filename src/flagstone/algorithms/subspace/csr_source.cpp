#include "flagstone/algorithms/subspace/csr_source.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "flagstone/base/error.hpp"

namespace flagstone::subspace {
namespace {

/// f(pointer of the numbers' own type).
template <class F>
void with_columns(const Tile& tile, F&& f) {
  switch (tile.dtype) {
    case Dtype::uint8:
      return f(tile.as<const std::uint8_t>());
    case Dtype::uint16:
      return f(tile.as<const std::uint16_t>());
    case Dtype::int32:
      return f(tile.as<const std::int32_t>());
    case Dtype::uint32:
      return f(tile.as<const std::uint32_t>());
    default:
      return f(tile.as<const std::int64_t>());
  }
}

struct Shared {
  StoredRows rows;
  std::vector<Index> first;  // rows before each group
  GroupPattern pattern;
  Index together = 0;  // values that a task reads at most

  Index row_start(Index row) const { return rows.starts[static_cast<std::size_t>(row)]; }
  Index group_start(Index group) const { return row_start(first[static_cast<std::size_t>(group)]); }
};

class Cutter final : public BlockMaker {
 public:
  explicit Cutter(std::shared_ptr<const Shared> h) : h_(std::move(h)) {}
  void load(Index first_group, std::span<const Tile> tiles) override {
    from_ = h_->group_start(first_group);
    if (!tiles.empty()) columns_ = tiles[0], values_ = tiles[1];
  }
  void make(Index i, Index j, kernel::SparseBlock& to) override {
    const auto gi = static_cast<std::size_t>(i), gj = static_cast<std::size_t>(j);
    to.begin(h_->first[gi + 1] - h_->first[gi], h_->first[gj + 1] - h_->first[gj]);
    const Index low = h_->first[gj], high = h_->first[gj + 1];
    with_columns(columns_, [&](const auto* columns) {
      for (Index row = h_->first[gi]; row < h_->first[gi + 1]; ++row) {
        const auto begin = columns + (h_->row_start(row) - from_), end = columns + (h_->row_start(row + 1) - from_);
        auto at = std::lower_bound(begin, end, low, [](auto c, Index bound) { return static_cast<Index>(c) < bound; });
        for (; at != end && static_cast<Index>(*at) < high; ++at)
          to.add(static_cast<std::int32_t>(static_cast<Index>(*at) - low), value(at - columns));
        to.end_row();
      }
    });
  }

 private:
  double value(Index k) const {
    return values_.dtype == Dtype::float32 ? static_cast<double>(values_.as<const float>()[k])
                                           : values_.as<const double>()[k];
  }
  std::shared_ptr<const Shared> h_;
  Index from_ = 0;
  Tile columns_, values_;
};

class CsrSource final : public BlockSource {
 public:
  explicit CsrSource(std::shared_ptr<const Shared> h) : h_(std::move(h)) {}
  Index groups() const override { return static_cast<Index>(h_->first.size()) - 1; }
  Index rows(Index group) const override {
    const auto g = static_cast<std::size_t>(group);
    return h_->first[g + 1] - h_->first[g];
  }
  void couplings(Index i, const std::vector<bool>& used, std::vector<std::int32_t>& js) const override {
    js.clear();
    const auto [begin, end] = range(i);
    for (std::size_t k = begin; k < end; ++k)
      if (const auto j = h_->pattern.js[k]; used[static_cast<std::size_t>(j)]) js.push_back(j);
  }
  Index most_nonzeros(Index i, Index j) const override {
    const auto [begin, end] = range(i);
    const auto& js = h_->pattern.js;
    const auto at = std::lower_bound(js.begin() + static_cast<std::ptrdiff_t>(begin),
                                     js.begin() + static_cast<std::ptrdiff_t>(end), static_cast<std::int32_t>(j));
    return h_->pattern.nonzeros[static_cast<std::size_t>(at - js.begin())];
  }
  std::vector<Region> regions(Index first, Index last) const override {
    const Index begin = h_->group_start(first), length = h_->group_start(last) - begin;
    if (length == 0) return {};
    return {{h_->rows.columns, {{begin}, {length}}}, {h_->rows.values, {{begin}, {length}}}};
  }
  std::vector<Index> cuts(Index first, Index last) const override {
    std::vector<Index> made{first};
    for (Index g = first; g < last; ++g)
      if (g > made.back() && h_->group_start(g + 1) - h_->group_start(made.back()) > h_->together) made.push_back(g);
    made.push_back(last);
    return made;
  }
  std::size_t workspace_bytes(Index i, Index j) const override {
    return static_cast<std::size_t>(24 * most_nonzeros(i, j) + 8 * rows(i));
  }
  std::unique_ptr<BlockMaker> maker() const override { return std::make_unique<Cutter>(h_); }

 private:
  std::pair<std::size_t, std::size_t> range(Index i) const {
    const auto g = static_cast<std::size_t>(i);
    return {static_cast<std::size_t>(h_->pattern.starts[g]), static_cast<std::size_t>(h_->pattern.starts[g + 1])};
  }
  std::shared_ptr<const Shared> h_;
};

}  // namespace

std::shared_ptr<const BlockSource> csr_source(StoredRows rows, std::vector<Index> group_rows, GroupPattern pattern,
                                              Index together) {
  auto shared = std::make_shared<Shared>();
  shared->first.push_back(0);
  for (const Index d : group_rows) shared->first.push_back(shared->first.back() + d);
  if (rows.starts.size() != static_cast<std::size_t>(shared->first.back()) + 1 ||
      pattern.starts.size() != group_rows.size() + 1 || pattern.js.size() != pattern.nonzeros.size())
    throw ShapeError("project: H has " + std::to_string(rows.starts.size() - 1) + " rows and its groups " +
                     std::to_string(shared->first.back()) + "; as many are needed.");
  shared->rows = std::move(rows), shared->pattern = std::move(pattern), shared->together = together;
  return std::make_shared<CsrSource>(std::move(shared));
}

}  // namespace flagstone::subspace
