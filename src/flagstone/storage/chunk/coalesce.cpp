#include "flagstone/storage/chunk/coalesce.hpp"

#include <algorithm>
#include <tuple>

#include "flagstone/base/bytes.hpp"

namespace flagstone {

std::vector<Joined> join(std::vector<Wanted>& wanted, std::uint64_t most_bytes) {
  std::sort(wanted.begin(), wanted.end(), [](const Wanted& a, const Wanted& b) {
    return std::tie(a.file, a.begin, a.end) < std::tie(b.file, b.begin, b.end);
  });
  std::vector<Joined> joined;
  for (std::size_t i = 0, end = 0; i < wanted.size(); i = end) {
    const std::uint64_t start = align_down(wanted[i].begin);
    std::uint64_t last = align_up(wanted[i].end);
    for (end = i + 1; end < wanted.size() && wanted[end].file == wanted[i].file; ++end) {
      const std::uint64_t from = align_down(wanted[end].begin), longer = std::max(last, align_up(wanted[end].end));
      if (from > last + wanted[end].most_gap || longer - start > most_bytes) break;
      last = longer;
    }
    Segment segment;
    segment.file = wanted[i].file;
    segment.offset = start;
    segment.row_bytes = last - start;
    segment.slack = last > wanted[i].file_end ? last - wanted[i].file_end : 0;
    joined.push_back({std::move(segment), i, end});
  }
  return joined;
}

void join_neighbours(std::vector<Segment>& segments, std::size_t most_bytes) {
  const auto follows = [&](const Segment& a, const Segment& b) {
    return a.file == b.file && a.direct && b.direct && a.rows == 1 && b.rows == 1 &&
           a.offset + a.row_bytes == b.offset && a.at + a.row_bytes == b.at && a.row_bytes + b.row_bytes <= most_bytes;
  };
  std::size_t kept = 0;
  for (std::size_t i = 1; i < segments.size(); ++i) {
    if (follows(segments[kept], segments[i]))
      segments[kept].row_bytes += segments[i].row_bytes;
    else if (++kept != i)
      segments[kept] = std::move(segments[i]);
  }
  if (!segments.empty()) segments.resize(kept + 1);
}

}  // namespace flagstone
