#include "flagstone/storage/array/transfer.hpp"

#include "flagstone/base/bytes.hpp"

namespace flagstone {

std::uint64_t Transfer::bytes() const {
  std::uint64_t sum = 0;
  for (const Segment& segment : segments) sum += segment.bytes();
  return sum;
}

std::size_t Transfer::beside_bytes() const { return align_up(staging_bytes) + align_down(list_bytes); }

void Transfer::finish(std::byte* buffer, std::byte* staging) const {
  if (convert) convert(buffer, staging, work_bytes > 0 ? staging + (staging_bytes - work_bytes) : nullptr);
}

}  // namespace flagstone
