#include "flagstone/algorithms/stencil/skewed/working_arrays.hpp"

#include <algorithm>

#include "flagstone/storage/array/scratch_array.hpp"

namespace flagstone::stencil {

WorkingArrays::WorkingArrays(Graph& graph, const Problem& problem, std::size_t arrays,
                             std::array<std::vector<Index>, 3> cuts, Index held)
    : problem_(problem), cuts_(std::move(cuts)), held_(held), holds_(arrays) {
  // Cells of one size and place are rows of one stored array.
  std::map<std::pair<Index, bool>, Index> rows;
  std::size_t cells = arrays;
  for (const std::vector<Index>& along : cuts_) cells *= along.size() - 1;
  rows_.reserve(cells);
  for_each_cell(extents(), [&](const Range3& cell, std::size_t) {
    for (std::size_t array = 0; array < arrays; ++array) rows_.push_back(rows[{cell.count(), in_memory(cell)}]++);
  });
  for (const auto& [key, number] : rows) {
    const auto [elements, held_here] = key;
    stored_[key] = held_here ? graph.allocate({number, elements}, problem.dtype)
                             : temporary_array({number, elements}, problem.dtype, {1, elements}, problem.scratch,
                                               Written::streamed);
  }
  for (auto& holds : holds_) holds.assign(rows_.size() / arrays, Holds::nothing);
}

Range3 WorkingArrays::extents() const {
  Range3 all;
  for (std::size_t d = 0; d < 3; ++d) all.first[d] = cuts_[d].front(), all.last[d] = cuts_[d].back();
  return all;
}

Range3 WorkingArrays::around(Range3 range) const {
  for (std::size_t d = 0; d < 3; ++d) {
    range.first[d] = *std::prev(std::upper_bound(cuts_[d].begin(), cuts_[d].end(), range.first[d]));
    range.last[d] = *std::lower_bound(cuts_[d].begin(), cuts_[d].end(), range.last[d]);
  }
  return range;
}

std::vector<Interval> WorkingArrays::intervals(std::size_t d, const Interval& all) const {
  std::vector<Interval> found;
  for (Index i = place(d, all.first); cuts_[d][static_cast<std::size_t>(i)] < all.last; ++i)
    found.push_back({cuts_[d][static_cast<std::size_t>(i)], cuts_[d][static_cast<std::size_t>(i) + 1]});
  return found;
}

Region WorkingArrays::region(std::size_t array, std::size_t number, const Range3& cell) const {
  const Array& stored = stored_.at({cell.count(), in_memory(cell)});
  return {stored, {{rows_[number * holds_.size() + array], 0}, {1, cell.count()}}};
}

std::uint64_t WorkingArrays::scratch() const {
  std::uint64_t bytes = 0;
  for (const auto& [key, array] : stored_) bytes += scratch_bytes(array);
  return bytes;
}

Index WorkingArrays::place(std::size_t d, Index at) const {
  return std::lower_bound(cuts_[d].begin(), cuts_[d].end(), at) - cuts_[d].begin();
}

}  // namespace flagstone::stencil
