#include "flagstone/storage/box/box_transfer.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/array/requests.hpp"

namespace flagstone {
namespace {

constexpr std::size_t most_in_flight = 64;

}  // namespace

std::byte* BoxPiece::staging() const {
  return memory.data() + (straight || packed ? 0 : align_up(transfer.buffer_bytes));
}

std::size_t BoxPiece::bytes() const {
  if (packed) return transfer.staging_bytes - transfer.work_bytes;
  if (straight) return transfer.staging_bytes;
  return std::max<std::size_t>(1, align_up(transfer.buffer_bytes) + transfer.staging_bytes);
}

void BoxPiece::convert() {
  if (!workspace) return transfer.finish(tile(), staging());
  workspace->fit(straight ? 0 : transfer.buffer_bytes, transfer.work_bytes);
  if (transfer.convert) transfer.convert(tile(), staging(), workspace->work.data());
}

std::optional<Buffer> StagingPool::take(std::size_t bytes) {
  const auto fits = std::find_if(idle_.begin(), idle_.end(), [&](const Buffer& b) { return b.size() >= bytes; });
  if (fits != idle_.end()) {
    Buffer buffer = std::move(*fits);
    idle_.erase(fits);
    ++taken_;
    return buffer;
  }
  while (!idle_.empty() && held_ + bytes > options_.staging) {
    held_ -= idle_.back().size();
    idle_.pop_back();
  }
  if (held_ + bytes > options_.staging && taken_ > 0) return std::nullopt;
  Buffer buffer = options_.shelf.take ? options_.shelf.take(align_up(bytes)) : Buffer();
  if (!buffer) buffer = Buffer(bytes);
  held_ += buffer.size();
  ++taken_;
  return buffer;
}

StagingPool::~StagingPool() {
  if (options_.shelf.give)
    for (Buffer& buffer : idle_) options_.shelf.give(std::move(buffer));
}

void StagingPool::give(Buffer buffer) {
  --taken_;
  idle_.push_back(std::move(buffer));
}

BoxTransfer::BoxTransfer(Ring& ring, const Array& array, std::span<const BoxTile> boxes, const BoxOptions& options)
    : ring_(ring),
      array_(array),
      boxes_(boxes),
      pieces_(most_in_flight),
      options_(options),
      pool_(options),
      next_pulse_(std::chrono::steady_clock::now() + options.between_pulses),
      packed_(array.store().unpack_bytes() > 0),
      codecs_(packed_ ? options.pool : nullptr, options.hands, [&ring] { wake_surely(ring); }) {
  for (std::size_t i = most_in_flight; i-- > 0;) idle_.push_back(i);
}

void BoxTransfer::run() {
  try {
    move();
  } catch (...) {  // the ring failed: the pool must not go on with what is about to be gone
    codecs_.stop();
    throw;
  }
  if (error_) std::rethrow_exception(error_);
}

void BoxTransfer::move() {
  prepare_next();
  Completion completions[64];
  while (next_ || idle_.size() < most_in_flight) {
    start_all();
    if (collect() || idle_.size() == most_in_flight) continue;
    const std::span all(completions, ring_.reap(completions));
    for (const Completion& completion : all) note(completion);
    for (const Completion& completion : all) {
      start_all();
      completed(completion);
    }
    pulse();
  }
}

void BoxTransfer::start_all() {
  while (next_ && !idle_.empty() && start()) {
  }
  if (error_) next_.reset(), codecs_.cancel();
}

void BoxTransfer::pulse() {
  if (!options_.pulse || error_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_pulse_) return;
  next_pulse_ = now + options_.between_pulses;
  guarded([&] { options_.pulse(); });
}

Tile BoxTransfer::in_buffer(const BoxPiece& piece) const {
  return {piece.tile() + piece.transfer.origin, array_.dtype(), piece.unit.shape, piece.transfer.strides,
          piece.transfer.tile_bytes};
}

Tile BoxTransfer::in_memory(std::size_t which, const Box& part) const {
  const auto& [box, tile] = boxes_[which];
  Box local = part;
  for (std::size_t d = 0; d < local.start.size(); ++d) local.start[d] -= box.start[d];
  return subtile(tile, local);
}

Tile BoxTransfer::part_in_buffer(const BoxPiece& piece) const {
  Box local = piece.part;
  for (std::size_t d = 0; d < local.start.size(); ++d) local.start[d] -= piece.unit.start[d];
  return subtile(in_buffer(piece), local);
}

void BoxTransfer::replace_memory(BoxPiece& piece, std::size_t bytes) {
  if (piece.memory.size() >= bytes) return;
  Buffer larger(bytes);
  std::memcpy(larger.data(), piece.memory.data(), piece.memory.size());
  piece.memory = std::move(larger);
}

void BoxTransfer::prepare_next() {
  next_.reset();
  if (error_) return;
  guarded([&] {
    const auto part = next();
    if (!part) return;
    BoxPiece fresh;
    fresh.which = which_;
    fresh.part = *part;
    fresh.packed = packed_;
    prepare(fresh);
    next_ = std::move(fresh);
  });
}

bool BoxTransfer::start() {
  Buffer memory;
  if (const std::size_t bytes = std::max(next_->bytes(), next_->more_later); bytes > 0) {
    if (!next_->write && reading_ > 0 && reading_ + next_->bytes() > options_.staging / 2) return false;
    auto taken = pool_.take(bytes);
    if (!taken) return false;
    memory = std::move(*taken);
  }
  BoxPiece& piece = pieces_[idle_.back()];
  idle_.pop_back();
  piece = std::move(*next_);
  piece.memory = std::move(memory);
  prepare_next();
  if (piece.write && piece.packed) {
    compute(piece, true);
    return true;
  }
  guarded([&] {
    if (piece.write) fill(piece);
  });
  leave(piece);
  return true;
}

/// In a workspace: what comes before a write leaves, or after a read arrived. By this thread where it would only wait.
void BoxTransfer::compute(BoxPiece& piece, bool before_it_leaves) {
  const bool alone = !next_ && idle_.size() + 1 == most_in_flight;
  codecs_.give(
      number_of(piece),
      [this, &piece, before_it_leaves](Workspace& workspace) {
        piece.workspace = &workspace;
        workspace.fit(piece.straight ? 0 : piece.transfer.buffer_bytes, 0);
        if (before_it_leaves)
          fill(piece);
        else
          arrived(piece);
      },
      alone);
}

/// Goes on with what the pool has done (what is to be written leaves now); whether there was any.
bool BoxTransfer::collect() {
  const auto finished = codecs_.finished();
  for (const CodecPool::Done& one : finished) {
    BoxPiece& piece = pieces_[one.number];
    piece.workspace = nullptr;
    if (one.error && !error_) error_ = one.error;
    if (piece.write && !error_)
      leave(piece);
    else
      done(piece);
  }
  return !finished.empty();
}

void BoxTransfer::leave(BoxPiece& piece) {
  if (!error_)
    guarded([&] {
      const auto requests =
          requests_of(piece.transfer, piece.base(), piece.write, number_of(piece) * segments_per_piece);
      ring_.submit(requests);
      piece.waiting = piece.unseen = requests.size();
      if (!piece.write && piece.waiting > 0) reading_ += piece.bytes();
      if (piece.transfer.arriving) piece.there.assign(requests.size(), false);
    });
  if (piece.unseen == 0) settle(piece);
}

void BoxTransfer::note(const Completion& completion) {
  BoxPiece& piece = piece_of(completion);
  if (--piece.waiting == 0 && !piece.write) reading_ -= piece.bytes();
}

void BoxTransfer::completed(const Completion& completion) {
  BoxPiece& piece = piece_of(completion);
  const std::size_t segment = completion.tag % segments_per_piece;
  guarded([&] {
    try {
      check_completion(piece.transfer, segment, completion, piece.write);
    } catch (const Error&) {
      if (!piece.transfer.apart) throw;
      piece.failed = true;
    }
  });
  if (piece.transfer.arriving && !error_) guarded([&] { tell(piece, segment); });
  if (--piece.unseen == 0) settle(piece);
}

void BoxTransfer::tell(BoxPiece& piece, std::size_t segment) {
  const std::size_t before = piece.arrived;
  piece.there[segment] = true;
  for (; piece.first_missing < piece.there.size() && piece.there[piece.first_missing]; ++piece.first_missing)
    piece.arrived += piece.transfer.segments[piece.first_missing].bytes();
  if (piece.arrived > before) piece.transfer.arriving(piece.base(), piece.arrived);
}

void BoxTransfer::settle(BoxPiece& piece) {
  if (piece.failed && !error_) {
    piece.failed = false;
    guarded([&] { piece.transfer.segments = std::exchange(piece.transfer.apart, {})(); });
    return leave(piece);
  }
  if (piece.packed && !piece.write && !error_) return compute(piece, false);
  bool again = false;
  if (!error_) guarded([&] { again = arrived(piece); });
  if (again && !error_) return leave(piece);
  done(piece);
}

void BoxTransfer::done(BoxPiece& piece) {
  idle_.push_back(number_of(piece));
  if (piece.memory) pool_.give(std::move(piece.memory));
}

void check_box_and_memory(const char* who, const Array& array, const Box& box, const Tile& tile) {
  bool inside = box.start.size() == array.ndim() && box.shape.size() == array.ndim();
  for (std::size_t d = 0; inside && d < array.ndim(); ++d)
    inside = box.start[d] >= 0 && box.shape[d] >= 0 && box.start[d] + box.shape[d] <= array.shape()[d];
  if (!inside)
    throw ShapeError(std::string(who) + ": the box " + to_string(box.shape) + " at " + to_string(box.start) +
                     " is not inside the array of " + to_string(array.shape()) + "; clip it.");
  if (tile.shape != box.shape || tile.dtype != array.dtype())
    throw ShapeError(std::string(who) + ": the memory is " + to_string(tile.shape) + " of " +
                     std::string(name_of(tile.dtype)) + " and the box is " + to_string(box.shape) + " of " +
                     std::string(name_of(array.dtype())) + "; they must be the same.");
}

Tile memory_tile(const Array& array, const Box& box) {
  return subtile({array.store().memory(), array.dtype(), array.shape(), array.store().memory_strides(), 0}, box);
}

}  // namespace flagstone
