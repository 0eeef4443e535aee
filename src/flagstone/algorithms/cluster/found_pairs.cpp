#include "flagstone/algorithms/cluster/found_pairs.hpp"

#include <algorithm>

namespace flagstone::cluster {

FoundPairs::FoundPairs(Graph& graph, Index pairs, Index panels, Index rows)
    : pages_(ceil_div(std::max<Index>(pairs, 1), page)),
      most_rows_(rows),
      columns_(graph.allocate({capacity()}, Dtype::int64)),
      values_(graph.allocate({capacity()}, Dtype::float64)),
      rows_(graph.allocate({capacity()}, Dtype::uint16)),
      counts_(graph.allocate({panels, rows}, Dtype::int64)),
      ordered_columns_(graph.allocate({capacity()}, Dtype::int64)),
      ordered_values_(graph.allocate({capacity()}, Dtype::float64)),
      panels_(static_cast<std::size_t>(panels)) {}

void FoundPairs::clear() {
  taken_ = 0, full_ = false, looked_ = 0;
  for (Panel& panel : panels_) panel.pages.clear(), panel.last = page;
  std::fill_n(counts(0), count(counts_.shape()), Index{0});
}

void FoundPairs::append(Index panel, Index row, std::span<const std::int64_t> columns, const double* values) {
  Panel& to = panels_[static_cast<std::size_t>(panel)];
  const auto found = static_cast<Index>(columns.size());
  for (Index done = 0; done < found;) {
    if (to.last == page) {
      const Index next = taken_.fetch_add(1, std::memory_order_relaxed);
      if (next >= pages_) {
        full_.store(true, std::memory_order_relaxed);
        return;
      }
      to.pages.push_back(next), to.last = 0;
    }
    const Index at = to.pages.back(), n = std::min(page - to.last, found - done);
    std::copy_n(columns.data() + done, n, this->columns(at) + to.last);
    std::copy_n(values + done, n, this->values(at) + to.last);
    std::fill_n(rows(at) + to.last, n, static_cast<std::uint16_t>(row));
    to.last += n, done += n;
  }
  counts(panel)[row] += found;
}

Index FoundPairs::found() const {
  Index all = 0;
  for (const Panel& panel : panels_)
    if (!panel.pages.empty()) all += static_cast<Index>(panel.pages.size() - 1) * page + panel.last;
  return all;
}

FoundPairs::Rows FoundPairs::in_order(Index panel, Index rows) {
  const Panel& from = panels_[static_cast<std::size_t>(panel)];
  pointers_.assign(static_cast<std::size_t>(rows) + 1, 0);
  for (Index i = 0; i < rows; ++i)
    pointers_[static_cast<std::size_t>(i) + 1] = pointers_[static_cast<std::size_t>(i)] + counts(panel)[i];
  std::vector<Index> next(pointers_.begin(), pointers_.end() - 1);
  auto* columns = reinterpret_cast<Index*>(ordered_columns_.store().memory());
  auto* values = reinterpret_cast<double*>(ordered_values_.store().memory());
  for (std::size_t p = 0; p < from.pages.size(); ++p) {
    const Index at = from.pages[p], n = p + 1 < from.pages.size() ? page : from.last;
    for (Index i = 0; i < n; ++i) {
      const Index to = next[this->rows(at)[i]]++;
      columns[to] = this->columns(at)[i], values[to] = this->values(at)[i];
    }
  }
  const auto all = static_cast<std::size_t>(pointers_.back());
  return {pointers_, {columns, all}, {values, all}};
}

}  // namespace flagstone::cluster
