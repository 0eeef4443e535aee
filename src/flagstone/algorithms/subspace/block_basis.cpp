#include "flagstone/algorithms/subspace/block_basis.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"

namespace flagstone::subspace {
namespace {

/// Consecutive groups of about stripe_bytes, never cut: as if every block were stored.
std::vector<Index> cut_stripes(const std::vector<Index>& rows, const std::vector<Index>& columns, std::size_t item) {
  std::vector<Index> first{0};
  std::uint64_t bytes = 0;
  for (std::size_t g = 0; g < rows.size(); ++g) {
    const auto mine = static_cast<std::uint64_t>(rows[g] * columns[g]) * item;
    if (bytes > 0 && bytes + mine > stripe_bytes) first.push_back(static_cast<Index>(g)), bytes = 0;
    bytes += mine;
  }
  if (first.back() != static_cast<Index>(rows.size())) first.push_back(static_cast<Index>(rows.size()));
  return first;
}

}  // namespace

Index BlockLayout::stripe_of(Index group) const {
  return static_cast<Index>(std::upper_bound(stripes.begin(), stripes.end(), group) - stripes.begin()) - 1;
}
Index BlockLayout::total_rows() const { return std::accumulate(rows.begin(), rows.end(), Index{0}); }
Index BlockLayout::total_columns() const { return std::accumulate(columns.begin(), columns.end(), Index{0}); }

BlockLayout lay_out(std::vector<Index> rows, std::vector<Index> columns, const std::vector<std::int32_t>& same,
                    std::size_t item) {
  BlockLayout made;
  made.stripes = cut_stripes(rows, columns, item);
  const Index page = chunk_bytes / static_cast<Index>(item);
  const auto whole_pages = [&](Index n) { return (n + page - 1) / page * page; };
  std::map<std::int32_t, std::int32_t> known;
  std::uint64_t bytes = 0;
  Index stripe = 0;
  for (std::size_t g = 0; g < rows.size(); ++g) {
    std::int32_t at = -1;
    if (columns[g] > 0) {
      const auto found = same[g] < 0 ? known.end() : known.find(same[g]);
      if (found != known.end()) {
        at = found->second;
      } else {
        at = static_cast<std::int32_t>(made.offsets.size());
        if (same[g] >= 0) known.emplace(same[g], at);
        const auto mine = static_cast<std::uint64_t>(rows[g] * columns[g]) * item;
        // A new stretch: where a stripe begins, if all are stored; else where the last one is full.
        const bool next = same[g] < 0 ? static_cast<Index>(g) >= made.stripes[static_cast<std::size_t>(stripe)]
                                      : bytes + mine > stripe_bytes;
        if (made.writes.empty() || next) made.writes.push_back(at), made.length = whole_pages(made.length), bytes = 0;
        while (made.stripes[static_cast<std::size_t>(stripe)] <= static_cast<Index>(g)) ++stripe;
        made.offsets.push_back(made.length);
        made.length += rows[g] * columns[g], bytes += mine;
      }
    }
    made.stored.push_back(at);
  }
  made.length = std::max(page, whole_pages(made.length));
  made.writes.push_back(static_cast<std::int32_t>(made.offsets.size()));
  made.rows = std::move(rows), made.columns = std::move(columns);
  return made;
}

BlockLayout known_layout(std::vector<Index> rows, std::vector<Index> columns, std::vector<std::int32_t> stored,
                         std::vector<Index> offsets, Index length, std::size_t item) {
  BlockLayout made;
  if (rows.size() != columns.size() || rows.size() != stored.size())
    throw FormatError("subspace: the index of Z has " + std::to_string(rows.size()) + ", " +
                      std::to_string(columns.size()) + " and " + std::to_string(stored.size()) +
                      " groups; it is damaged.");
  for (std::size_t g = 0; g < rows.size(); ++g) {
    const bool known = stored[g] >= 0 && stored[g] < static_cast<std::int32_t>(offsets.size());
    if (rows[g] < 0 || columns[g] < 0 || columns[g] > rows[g] || (columns[g] > 0 && !known) ||
        (columns[g] > 0 && (offsets[static_cast<std::size_t>(stored[g])] < 0 ||
                            rows[g] > (length - offsets[static_cast<std::size_t>(stored[g])]) / columns[g])))
      throw FormatError("subspace: the index of Z says of group " + std::to_string(g) +
                        " what cannot be; it is damaged.");
  }
  made.stripes = cut_stripes(rows, columns, item);
  made.rows = std::move(rows), made.columns = std::move(columns), made.stored = std::move(stored);
  made.offsets = std::move(offsets), made.length = length;
  return made;
}

}  // namespace flagstone::subspace
