#include "flagstone/storage/array/transfer.hpp"

namespace flagstone {

std::uint64_t Transfer::bytes() const {
  std::uint64_t sum = 0;
  for (const Segment& segment : segments) sum += segment.bytes();
  return sum;
}

void Transfer::finish(std::byte* buffer, std::byte* staging) const {
  if (convert) convert(buffer, staging, work_bytes > 0 ? staging + (staging_bytes - work_bytes) : nullptr);
}

}  // namespace flagstone
