#include "flagstone/storage/formats/range_reader.hpp"

#include <algorithm>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/file/crc32.hpp"

namespace flagstone {

RangeReader::RangeReader(const std::string& path, std::uint64_t offset, std::uint64_t bytes)
    : file_(File::open(path, File::Mode::read)), ring_(make_ring({.depth = parts})), at_(offset), left_(bytes) {}

RangeReader::~RangeReader() {
  try {
    arrived();  // the kernel writes into the buffers until then
  } catch (const Error&) {
  }
}

std::uint64_t RangeReader::Coming::part(std::size_t i) const {
  return (end - start) / page_bytes * i / parts * page_bytes;
}

void RangeReader::begin(std::uint64_t count) {
  Coming coming{align_down(at_), align_up(at_ + count), nullptr};
  std::shared_ptr<Buffer>& buffer = buffers_[turn_];
  turn_ = (turn_ + 1) % buffers;
  const std::size_t needed = std::max(coming.end - coming.start, page_bytes);
  if (!buffer || buffer->size() < needed) buffer = std::make_shared<Buffer>(needed);
  coming.buffer = buffer;
  std::vector<Request> requests;
  results_.fill(0);
  for (std::size_t i = 0; i < parts; ++i) {
    const std::uint64_t first = coming.part(i), bytes = coming.part(i + 1) - first;
    if (bytes == 0) continue;
    requests.push_back({.fd = file_->direct(),
                        .offset = coming.start + first,
                        .memory = buffer->data() + first,
                        .row_bytes = bytes,
                        .tag = i});
  }
  next_ = std::move(coming);
  waited_for_ = requests.size();
  ring_->submit(requests);
}

std::uint64_t RangeReader::arrived() {
  std::array<Completion, parts> done;
  while (waited_for_ > 0) {
    const std::size_t came = ring_->reap(done);
    for (std::size_t i = 0; i < came; ++i) results_[done[i].tag] = done[i].result;
    waited_for_ -= came;
  }
  if (!next_) return 0;
  std::uint64_t got = 0;
  for (std::size_t i = 0; i < parts; ++i) {
    const std::uint64_t first = next_->part(i), wanted = next_->part(i + 1) - first;
    if (results_[i] < 0)
      throw StorageError("storage: cannot read", static_cast<int>(-results_[i]), file_->path(), next_->start + first);
    got += static_cast<std::uint64_t>(results_[i]);
    if (static_cast<std::uint64_t>(results_[i]) < wanted) break;  // the end of the file
  }
  return got;
}

RangeReader::Read RangeReader::read(std::uint64_t count) {
  count = std::min(count, left_);
  if (!next_ || next_->end < at_ + count) {
    arrived();
    begin(count);
  }
  const std::uint64_t came = arrived(), skipped = at_ - next_->start;
  const std::uint64_t end = std::max(skipped, std::min(came, skipped + count));
  Read read{next_->buffer, {next_->buffer->data() + skipped, end - skipped}};
  at_ += read.bytes.size();
  left_ -= read.bytes.size();
  longest_ = std::max(longest_, count);
  next_.reset();
  if (left_ > 0 && !read.bytes.empty()) begin(std::min(longest_, left_));
  crc_ = crc32(read.bytes.data(), read.bytes.size(), crc_);
  return read;
}

}  // namespace flagstone
