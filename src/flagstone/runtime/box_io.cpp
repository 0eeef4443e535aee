#include "flagstone/runtime/box_io.hpp"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "flagstone/base/error.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/runtime/runtime.hpp"
#include "flagstone/storage/box/thread_pool.hpp"
#include "flagstone/storage/ring/ring.hpp"

namespace flagstone {
namespace {

constexpr std::uint64_t most_limit = std::uint64_t{1} << 62;

/// Both may be as large as somebody asks for.
std::uint64_t sum(std::uint64_t a, std::uint64_t b) { return a > ~std::uint64_t{0} - b ? ~std::uint64_t{0} : a + b; }

std::string whole_mib(std::uint64_t least) { return std::to_string(limit_for(least) / MiB) + " MiB"; }

std::string resident_text(std::uint64_t at_entry) {
  return ", and " + format_bytes(at_entry > 0 ? at_entry : resident_bytes()) + " were resident before the call";
}

std::uint64_t codec_bytes(const Array& array) {
  return std::max(array.store().unpack_bytes(), array.store().pack_bytes());
}

/// Of an array that is computed where it is read: what one chunk is computed from, beside it. Pieces of what is no
/// chunk are short.
std::uint64_t computing_bytes(const Array& array) {
  if (array.store().operands().empty() || array.chunks() == array.shape() || count(array.shape()) == 0) return 0;
  const Box chunk = intersect({Shape(array.ndim(), 0), array.chunks()}, whole(array.shape()));
  const Transfer transfer = array.store().read(chunk);
  return transfer.buffer_bytes + transfer.staging_bytes;
}

}  // namespace

std::uint64_t default_memory() {
  const char* given = std::getenv("FLAGSTONE_MEMORY");
  if (given == nullptr || *given == '\0')
    return static_cast<std::uint64_t>(0.6 * static_cast<double>(allowed_memory()));
  std::uint64_t size = 0;
  try {
    size = parse_bytes(given);
  } catch (const Error&) {
  }
  if (size < 1 || size >= most_limit)
    throw Error("FLAGSTONE_MEMORY: '" + std::string(given) +
                "' is no size; give bytes or text such as \"512MiB\" or \"4GiB\".");
  return size;
}

std::uint64_t limit_for(std::uint64_t least) { return sum(align_down(least, MiB), 2 * MiB) / MiB * MiB; }

void check_least(const std::string& who, std::uint64_t least, std::uint64_t memory, std::uint64_t resident_at_entry) {
  if (least <= sum(memory, Runtime::allowed_drift)) return;
  throw BudgetError(who + ": needs at least " + whole_mib(least) + "; memory is " + format_bytes(memory) +
                        resident_text(resident_at_entry) + ". Raise memory=.",
                    limit_for(least));
}

void trim_heap() {
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

BoxShare share_of_limit(const RuntimeOptions& options, const Array& array, std::uint64_t held, std::size_t most) {
  const std::uint64_t each = codec_bytes(array);
  if (each == 0) return {most, 1};
  held = sum(held, each);  // the first thread's chunk has been asked for
  const std::uint64_t left = options.memory > held ? options.memory - held : 0;
  const std::uint64_t staging = std::min<std::uint64_t>(most, left);
  return {staging, std::min(static_cast<std::uint64_t>(options.workers), 1 + (left - staging) / each)};
}

std::uint64_t bytes_beside_read(const Array& array, std::uint64_t box_bytes) {
  const std::uint64_t staged = std::min<std::uint64_t>(box_bytes, box_staging);
  return std::max(staged, computing_bytes(array)) + array.store().unpack_bytes();
}

std::uint64_t bytes_beside_write(const Array& array, std::uint64_t box_bytes, bool copied) {
  const std::uint64_t moved = copied ? std::min<std::uint64_t>(sum(box_bytes, box_bytes), box_piece + box_staging)
                                     : std::min<std::uint64_t>(box_bytes, box_staging);
  return moved + codec_bytes(array);
}

struct BoxIo::Impl {
  const RuntimeOptions& options;
  std::unique_ptr<Ring> ring;
  std::unique_ptr<ThreadPool> pool;
  std::mutex transferring;
  pid_t pid = ::getpid();
};

BoxIo::BoxIo(const RuntimeOptions& options) : impl_(new Impl{options, make_ring({.kind = options.io}), {}, {}}) {}
BoxIo::~BoxIo() {
  if (impl_->pid != ::getpid()) impl_.release();  // the parent's: its threads do not exist here
}

std::string BoxIo::describe() const { return impl_->ring->describe(); }

BoxOptions BoxIo::options_of(const Array& array, const BoxCall& call) {
  // What is resident costs as much to know as a small box to read, and decides nothing where chunks are raw.
  const std::uint64_t held = codec_bytes(array) > 0 ? sum(resident_bytes(), call.untouched) : 0;
  const BoxShare share = share_of_limit(impl_->options, array, held, call.staging);
  const auto workers = static_cast<std::size_t>(impl_->options.workers);
  if (share.hands > 1 && !impl_->pool) impl_->pool = std::make_unique<ThreadPool>(workers, workers);
  return {.staging = share.staging,
          .shelf = call.shelf,
          .pool = impl_->pool.get(),
          .hands = share.hands,
          .pulse = call.pulse};
}

void BoxIo::read(const Array& array, std::span<const BoxTile> boxes, const BoxCall& call) {
  check_has_elements(array);
  const std::lock_guard one(impl_->transferring);
  read_boxes(*impl_->ring, array, boxes, options_of(array, call));
}

void BoxIo::write(const Array& array, std::span<const BoxTile> boxes, const BoxCall& call) {
  check_has_elements(array);
  const std::lock_guard one(impl_->transferring);
  write_boxes(*impl_->ring, array, boxes, options_of(array, call));
}

void BoxIo::lend(const std::function<void(Ring&)>& use) {
  const std::lock_guard one(impl_->transferring);
  use(*impl_->ring);
}

std::uint64_t BoxIo::check_room(const RoomAsked& asked) const {
  const std::uint64_t memory = impl_->options.memory;
  std::uint64_t kept = asked.kept;
  std::uint64_t least = sum(resident_bytes(), asked.bytes) - kept;
  if (least > memory) {
    if (asked.give_back) asked.give_back(), kept = 0;
    trim_heap();
    least = sum(resident_bytes(), asked.bytes) - kept;
  }
  if (least <= memory) return memory - least;
  // What is named works where the process has grown by some MiB since.
  least = sum(least, Runtime::allowed_drift);
  const std::string part =
      asked.bytes > 0 ? " (" + format_bytes(asked.bytes) + " of them for " + asked.what + ")" : std::string();
  throw BudgetError(asked.who + ": needs at least " + whole_mib(least) + part + "; memory is " + format_bytes(memory) +
                        resident_text(asked.resident_at_entry) + ". Raise memory= or ask for less.",
                    limit_for(least));
}

}  // namespace flagstone
