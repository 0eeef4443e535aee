#include "flagstone/algorithms/subspace/stripe_access.hpp"

#include <algorithm>
#include <limits>

namespace flagstone::subspace {

bool all_stored(const BlockLayout& z) {
  const auto with_columns = std::count_if(z.stored.begin(), z.stored.end(), [](auto s) { return s >= 0; });
  return z.offsets.size() == static_cast<std::size_t>(with_columns);
}

Part part_of(const BlockLayout& z, Index group) {
  const auto g = static_cast<std::size_t>(group), block = static_cast<std::size_t>(z.stored[g]);
  return {z.file[block], z.offsets[block], z.offsets[block] + z.rows[g] * z.columns[g]};
}

StripeAccess access_of(const BlockLayout& z, Index stripe, bool all) {
  StripeAccess made;
  const Index first = z.stripes[static_cast<std::size_t>(stripe)],
              last = z.stripes[static_cast<std::size_t>(stripe) + 1];
  auto& parts = made.parts;
  for (Index g = first; g < last; ++g)
    if (z.stored[static_cast<std::size_t>(g)] >= 0) parts.push_back(part_of(z, g));
  std::sort(parts.begin(), parts.end());
  parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
  std::size_t kept = 0;
  for (std::size_t p = 1; p < parts.size(); ++p) {
    if (all && parts[p].file == parts[kept].file)
      parts[kept].end = parts[p].end;
    else
      parts[++kept] = parts[p];
  }
  if (!parts.empty()) parts.resize(kept + 1);
  for (Index g = first; g < last; ++g) {
    if (z.stored[static_cast<std::size_t>(g)] < 0) {
      made.of_group.emplace_back(-1, 0);
      continue;
    }
    const Part block = part_of(z, g);
    const auto at =
        std::upper_bound(parts.begin(), parts.end(), Part{block.file, block.begin, std::numeric_limits<Index>::max()}) -
        1;
    made.of_group.emplace_back(static_cast<std::int32_t>(at - parts.begin()), block.begin - at->begin);
  }
  return made;
}

}  // namespace flagstone::subspace
