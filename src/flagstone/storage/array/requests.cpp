#include "flagstone/storage/array/requests.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <numeric>
#include <string>
#include <thread>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"

namespace flagstone {

namespace {

/// Rows [first, end) of a segment, or bytes [first, end) of one that is a single row.
Segment part_of(const Segment& whole, std::size_t first, std::size_t end) {
  const std::size_t step = whole.rows > 1 ? whole.row_bytes : 1;
  Segment part = whole;
  part.offset += first * step;
  part.at += first * (whole.rows > 1 ? whole.pitch : 1);
  (whole.rows > 1 ? part.rows : part.row_bytes) = end - first;
  const std::size_t behind = whole.bytes() - end * step;
  part.slack = std::min(part.bytes(), whole.slack - std::min(whole.slack, behind));
  return part;
}

}  // namespace

Transfer in_pieces(Transfer transfer, std::size_t most_bytes) {
  const auto is_long = [&](const Segment& segment) { return segment.bytes() > most_bytes; };
  if (std::none_of(transfer.segments.begin(), transfer.segments.end(), is_long)) return transfer;
  std::vector<Segment> pieces;
  for (Segment& segment : transfer.segments) {
    const bool rows = segment.rows > 1;
    const std::size_t count = rows ? segment.rows : segment.row_bytes;
    // Direct requests begin at whole pages of the file.
    const std::size_t unit = rows ? page_bytes / std::gcd(page_bytes, segment.row_bytes) : page_bytes;
    const std::size_t most = rows ? most_bytes / segment.row_bytes : most_bytes;
    const std::size_t step = std::max(unit, most / unit * unit);
    for (std::size_t first = 0; first < count; first += step)
      pieces.push_back(part_of(segment, first, std::min(count, first + step)));
  }
  transfer.segments = std::move(pieces);
  return transfer;
}

void make_ready(Transfer& transfer, std::byte* buffer, std::byte* staging) {
  transfer.finish(buffer, staging);
  if (transfer.settle) transfer.settle(transfer.segments);
}

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

void wake_surely(Ring& ring) {
  for (bool first = true;; first = false) try {
      return first ? ring.wake() : ring.submit({});  // which sends what is queued, the wake too
    } catch (const StorageError&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
}

}  // namespace flagstone
