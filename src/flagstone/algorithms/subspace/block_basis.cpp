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
                    std::size_t item, Index files) {
  BlockLayout made;
  made.stripes = cut_stripes(rows, columns, item);
  made.stored.assign(rows.size(), -1);
  const Index page = chunk_bytes / static_cast<Index>(item);
  const auto whole_pages = [&](Index n) { return (n + page - 1) / page * page; };
  std::map<std::int32_t, std::size_t> owners;  // of equal blocks the first group
  const auto owner = [&](std::size_t g) { return same[g] < 0 ? g : owners.emplace(same[g], g).first->second; };
  for (std::size_t g = 0; g < rows.size(); ++g)
    if (columns[g] > 0) owner(g);
  for (Index f = 0; f < files; ++f) {
    Index length = 0, stripe = -1;
    std::uint64_t bytes = 0;
    for (auto g = static_cast<std::size_t>(f); g < rows.size(); g += static_cast<std::size_t>(files)) {
      if (columns[g] == 0 || owner(g) != g) continue;
      const auto at = static_cast<std::int32_t>(made.offsets.size());
      const auto mine = static_cast<std::uint64_t>(rows[g] * columns[g]) * item;
      // A new stretch: where a stripe begins, if all are stored; else where the last one is full.
      const Index in = made.stripe_of(static_cast<Index>(g));
      if (stripe < 0 || (same[g] < 0 ? in != stripe : bytes + mine > stripe_bytes))
        made.writes.push_back(at), length = whole_pages(length), bytes = 0;
      stripe = in;
      made.stored[g] = at;
      made.offsets.push_back(length), made.file.push_back(static_cast<std::int32_t>(f));
      length += rows[g] * columns[g], bytes += mine;
    }
    made.lengths.push_back(std::max(page, whole_pages(length)));
  }
  for (std::size_t g = 0; g < rows.size(); ++g)
    if (columns[g] > 0) made.stored[g] = made.stored[owner(g)];
  made.writes.push_back(static_cast<std::int32_t>(made.offsets.size()));
  made.rows = std::move(rows), made.columns = std::move(columns);
  return made;
}

BlockLayout known_layout(std::vector<Index> rows, std::vector<Index> columns, std::vector<std::int32_t> stored,
                         std::vector<Index> offsets, std::vector<std::int32_t> file, std::vector<Index> lengths,
                         std::size_t item) {
  BlockLayout made;
  if (rows.size() != columns.size() || rows.size() != stored.size())
    throw FormatError("subspace: the index of Z has " + std::to_string(rows.size()) + ", " +
                      std::to_string(columns.size()) + " and " + std::to_string(stored.size()) +
                      " groups; it is damaged.");
  if (file.size() != offsets.size())
    throw FormatError("subspace: the index of Z has " + std::to_string(offsets.size()) +
                      " stored blocks and files of " + std::to_string(file.size()) + "; it is damaged.");
  const auto fits = [&](Index d, Index z, std::int32_t block) {
    if (block < 0 || block >= static_cast<std::int32_t>(offsets.size())) return false;
    const auto b = static_cast<std::size_t>(block);
    if (file[b] < 0 || file[b] >= static_cast<std::int32_t>(lengths.size())) return false;
    const Index length = lengths[static_cast<std::size_t>(file[b])];
    return offsets[b] >= 0 && offsets[b] <= length && d <= (length - offsets[b]) / z;
  };
  for (std::size_t g = 0; g < rows.size(); ++g)
    if (rows[g] < 0 || columns[g] < 0 || columns[g] > rows[g] ||
        (columns[g] > 0 && !fits(rows[g], columns[g], stored[g])))
      throw FormatError("subspace: the index of Z says of group " + std::to_string(g) +
                        " what cannot be; it is damaged.");
  made.stripes = cut_stripes(rows, columns, item);
  made.rows = std::move(rows), made.columns = std::move(columns), made.stored = std::move(stored);
  made.offsets = std::move(offsets), made.file = std::move(file), made.lengths = std::move(lengths);
  return made;
}

}  // namespace flagstone::subspace
