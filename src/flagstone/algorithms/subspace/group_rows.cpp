#include "flagstone/algorithms/subspace/group_rows.hpp"

#include <algorithm>
#include <utility>

namespace flagstone::subspace {

GroupRows::GroupRows(std::shared_ptr<const BlockSource> h)
    : h_(std::move(h)), maker_(h_->maker()), first_{0}, coupled_(static_cast<std::size_t>(h_->groups())) {
  const std::vector<bool> all(coupled_.size(), true);
  std::vector<std::int32_t> js;
  for (Index i = 0; i < h_->groups(); ++i) {
    first_.push_back(first_.back() + h_->rows(i));
    h_->couplings(i, all, js);
    auto& mine = coupled_[static_cast<std::size_t>(i)];
    mine.insert(mine.end(), js.begin(), js.end());
    for (const std::int32_t j : js)
      if (j != i) coupled_[static_cast<std::size_t>(j)].push_back(static_cast<std::int32_t>(i));
  }
}

std::size_t GroupRows::bytes() const {
  std::size_t bytes = 8 * first_.size();
  for (const auto& row : coupled_) bytes += sizeof row + 4 * row.capacity();
  return bytes;
}

Index GroupRows::most_nonzeros() const {
  Index sum = 0;
  for (std::size_t i = 0; i < coupled_.size(); ++i)
    for (const std::int32_t j : coupled_[i])
      sum += h_->most_nonzeros(std::max(static_cast<Index>(i), Index{j}), std::min(static_cast<Index>(i), Index{j}));
  return sum;
}

std::size_t GroupRows::most_bytes(Index i) const {
  std::size_t bytes = 0, making = 0;
  for (const std::int32_t j : coupled_[static_cast<std::size_t>(i)]) {
    const Index low = std::max<Index>(i, j), high = std::min<Index>(i, j);
    // As entries and then as rows: a place, a column and a value, twice.
    bytes += 48 * static_cast<std::size_t>(h_->most_nonzeros(low, high));
    making = std::max(making, h_->workspace_bytes(low, high));
  }
  return bytes + making;
}

GroupRows::Rows GroupRows::rows(Index i) {
  struct Entry {
    Index row, column;
    double value;
  };
  std::vector<Entry> entries;
  kernel::SparseBlock block;
  for (const std::int32_t j : coupled_[static_cast<std::size_t>(i)]) {
    const bool transposed = j > i;
    maker_->make(std::max<Index>(i, j), std::min<Index>(i, j), block);
    const Index column = first_[static_cast<std::size_t>(j)];
    for (Index r = 0; r < block.rows; ++r)
      for (auto k = static_cast<std::size_t>(block.starts[static_cast<std::size_t>(r)]);
           k < static_cast<std::size_t>(block.starts[static_cast<std::size_t>(r) + 1]); ++k)
        entries.push_back(transposed ? Entry{block.columns[k], column + r, block.values[k]}
                                     : Entry{r, column + block.columns[k], block.values[k]});
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return std::pair(a.row, a.column) < std::pair(b.row, b.column); });
  Rows made;
  made.starts.assign(static_cast<std::size_t>(h_->rows(i)) + 1, 0);
  for (const Entry& e : entries) {
    ++made.starts[static_cast<std::size_t>(e.row) + 1];
    made.columns.push_back(e.column), made.values.push_back(e.value);
  }
  for (std::size_t r = 1; r < made.starts.size(); ++r) made.starts[r] += made.starts[r - 1];
  return made;
}

}  // namespace flagstone::subspace
