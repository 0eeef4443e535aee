#include "flagstone/gauge/disk.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"

namespace flagstone::gauge {
namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned deepest = 64;  // requests in flight at most
constexpr std::uint64_t fill_request = 4 * MiB;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// xorshift64*: places of random reads, and content that no device can pack.
std::uint64_t next(std::uint64_t& state) {
  state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
  return state * 0x2545f4914f6cdd1d;
}

void check(const Pattern& pattern, std::uint64_t filled) {
  if (pattern.request_bytes == 0 || pattern.request_bytes % page_bytes || pattern.stride % page_bytes)
    throw ShapeError("gauge: requests of " + std::to_string(pattern.request_bytes) + " bytes, " +
                     std::to_string(pattern.stride) + " apart; multiples of " + std::to_string(page_bytes) +
                     " are needed.");
  if (pattern.depth < 1 || pattern.depth > deepest || pattern.depth * pattern.request_bytes > GiB)
    throw ShapeError("gauge: " + std::to_string(pattern.depth) + " requests in flight of " +
                     format_bytes(pattern.request_bytes) + "; 1 to " + std::to_string(deepest) +
                     " and at most 1 GiB together are needed.");
  const std::uint64_t least = pattern.request_bytes * (pattern.write_share > 0 && pattern.write_share < 1 ? 2 : 1);
  if (filled < least)
    throw ShapeError("gauge: the file holds " + format_bytes(filled) + " and a request is " +
                     format_bytes(pattern.request_bytes) + "; fill() more of it first.");
}

/// Where the next request goes: one after the other, strided or random, around and around in [first, last).
class Places {
 public:
  Places(const Pattern& pattern, std::uint64_t first, std::uint64_t last, std::uint64_t& random)
      : size_(pattern.request_bytes),
        step_(std::max(pattern.stride, pattern.request_bytes)),
        first_(first),
        slots_((last - first) / size_),
        at_(first),
        last_(last),
        random_(pattern.random ? &random : nullptr) {}

  std::uint64_t take() {
    if (random_) return first_ + next(*random_) % slots_ * size_;
    // A strided pass that met the end goes on one request further, so that nothing is read twice in a row.
    if (at_ + size_ > last_) at_ = first_ + (step_ > size_ ? ++lap_ * size_ % step_ : 0);
    if (at_ + size_ > last_) at_ = first_;
    return std::exchange(at_, at_ + step_);
  }

 private:
  std::uint64_t size_, step_, first_, slots_, at_, last_, lap_ = 0;
  std::uint64_t* random_;
};

/// Buffers of one measurement; filled with noise where they will be written. Every page is touched beforehand.
class Slots {
 public:
  Slots(Ring& ring, const Pattern& pattern, std::uint64_t& random)
      : ring_(ring), size_(pattern.request_bytes), buffer_(pattern.depth * pattern.request_bytes) {
    if (pattern.write_share > 0)
      for (std::size_t i = 0; i < buffer_.size(); i += 8) {
        const std::uint64_t word = next(random);
        std::memcpy(buffer_.data() + i, &word, 8);
      }
    else
      std::memset(buffer_.data(), 1, buffer_.size());
    registered_ = ring.register_buffer(buffer_.data(), buffer_.size());
  }
  ~Slots() {
    if (registered_ >= 0) ring_.unregister_buffer(registered_);
  }
  Slots(const Slots&) = delete;

  Request request(bool write, int fd, std::uint64_t offset, std::uint64_t slot) const {
    return {.write = write,
            .fd = fd,
            .offset = offset,
            .memory = buffer_.data() + slot * size_,
            .row_bytes = size_,
            .registered = registered_,
            .tag = slot};
  }

 private:
  Ring& ring_;
  std::size_t size_;
  Buffer buffer_;
  int registered_ = -1;
};

}  // namespace

Disk::Disk(const std::string& directory, std::uint64_t bytes, const std::string& io)
    : directory_(directory),
      file_(File::temporary(directory)),
      ring_(make_ring({io, deepest})),
      bytes_(bytes / fill_request * fill_request) {
  file_->allocate(bytes_);
}

Moved Disk::fill(std::uint64_t bytes, unsigned depth) {
  const std::uint64_t end = std::min(bytes_, filled_ + align_up(bytes, fill_request));
  if (end == filled_) return {};
  Pattern pattern{
      .request_bytes = fill_request, .depth = depth, .write_share = 1, .seconds = 1e9, .bytes = end - filled_};
  const Moved moved = run(pattern, filled_, end);
  filled_ = end;
  return moved;
}

Moved Disk::measure(const Pattern& pattern) {
  check(pattern, filled_);
  return run(pattern, 0, filled_);
}

Moved Disk::run(const Pattern& pattern, std::uint64_t first, std::uint64_t last) {
  const bool mixed = pattern.write_share > 0 && pattern.write_share < 1;
  const std::uint64_t half = first + (last - first) / 2 / pattern.request_bytes * pattern.request_bytes;
  Places reads(pattern, first, mixed ? half : last, random_), writes(pattern, mixed ? half : first, last, random_);
  const Slots slots(*ring_, pattern, random_);
  std::vector<Clock::time_point> sent(pattern.depth);
  std::vector<bool> writing(pattern.depth);
  std::vector<float> waits;
  Moved moved;
  std::uint64_t under_way = 0;
  const auto start = Clock::now();
  const auto issue = [&](std::uint64_t slot) {
    const auto number = static_cast<double>(moved.requests++);
    writing[slot] = std::floor((number + 1) * pattern.write_share) > std::floor(number * pattern.write_share);
    under_way += pattern.request_bytes;
    sent[slot] = Clock::now();
    const Request request =
        slots.request(writing[slot], file_->direct(), (writing[slot] ? writes : reads).take(), slot);
    ring_->submit({&request, 1});
  };
  const auto more = [&] { return under_way < pattern.bytes && since(start) < pattern.seconds; };
  unsigned out = 0;
  do issue(out++);
  while (out < pattern.depth && more());
  int failed = 0;
  Completion done[deepest];
  while (out > 0) {
    const std::size_t arrived = ring_->reap(done);
    for (std::size_t i = 0; i < arrived; ++i, --out) {
      const std::uint64_t slot = done[i].tag;
      if (done[i].result != static_cast<std::int64_t>(pattern.request_bytes))
        failed = done[i].result < 0 ? static_cast<int>(-done[i].result) : EIO;
      (writing[slot] ? moved.bytes_written : moved.bytes_read) += pattern.request_bytes;
      waits.push_back(static_cast<float>(since(sent[slot])));
      if (!failed && more()) issue(slot), ++out;
    }
  }
  moved.seconds = since(start);
  if (failed) throw StorageError("gauge: the disk refused a request", failed, file_->path());
  std::nth_element(waits.begin(), waits.begin() + static_cast<std::ptrdiff_t>(waits.size() / 2), waits.end());
  moved.request_seconds = static_cast<double>(waits[waits.size() / 2]);
  return moved;
}

double Disk::sync() {
  // A file with a name: journals keep nameless ones for later.
  const std::string name = directory_ + "/.flagstone-gauge-" + std::to_string(next(random_));
  const auto file = File::open(name, File::Mode::create);
  try {
    const Buffer page(page_bytes);
    std::memset(page.data(), 1, page_bytes);
    const Request request{.write = true, .fd = file->direct(), .memory = page.data(), .row_bytes = page_bytes};
    const auto start = Clock::now();
    ring_->submit({&request, 1});
    Completion done;
    while (ring_->reap({&done, 1}) == 0) {
    }
    if (done.result < 0) throw StorageError("gauge: the disk refused a request", static_cast<int>(-done.result), name);
    file->sync();
    const double seconds = since(start);
    ::unlink(name.c_str());
    return seconds;
  } catch (...) {
    ::unlink(name.c_str());
    throw;
  }
}

}  // namespace flagstone::gauge
