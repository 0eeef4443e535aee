#include "flagstone/storage/transfer.hpp"

#include <algorithm>
#include <cerrno>
#include <string>

#include "flagstone/base/error.hpp"

namespace flagstone {

std::vector<Request> requests_of(const Transfer& transfer, std::byte* base, bool write, std::uint64_t tag,
                                 int registered) {
  std::vector<Request> requests;
  requests.reserve(transfer.segments.size());
  for (const Segment& segment : transfer.segments) {
    if (!segment.file) throw Error("storage: a tile is read before anything was written there; write it first.");
    Request request;
    request.write = write;
    request.fd = segment.direct ? segment.file->direct() : segment.file->buffered();
    request.offset = segment.offset;
    request.memory = base + segment.at;
    request.row_bytes = segment.row_bytes;
    request.rows = segment.rows;
    request.pitch = segment.pitch;
    request.registered = registered;
    request.tag = tag + requests.size();
    requests.push_back(request);
  }
  return requests;
}

void check_completion(const Transfer& transfer, std::size_t segment, const Completion& completion, bool write) {
  const Segment& part = transfer.segments[segment];
  const std::string& path = part.file->path();
  const std::string range = std::to_string(part.bytes()) + " bytes at offset " + std::to_string(part.offset);
  if (completion.result < 0)
    throw StorageError((write ? "storage: cannot write " : "storage: cannot read ") + range,
                       static_cast<int>(-completion.result), path, part.offset);
  const auto moved = static_cast<std::uint64_t>(completion.result);
  if (write) {
    if (moved < part.bytes()) throw StorageError("storage: cannot write all of " + range, EIO, path, part.offset);
    return;
  }
  const std::uint64_t needed = part.bytes() - std::min(part.slack, part.bytes());
  if (moved < needed)
    throw FormatError("storage: " + path + " is truncated: it ends at byte " + std::to_string(part.offset + moved) +
                      " and needs at least " + std::to_string(part.offset + needed) + "; write or copy it again.");
}

}  // namespace flagstone
