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

constexpr std::size_t most_flights = 64;

}  // namespace

std::byte* Flight::staging() const {
  return memory.data() + (straight || packed ? 0 : align_up(transfer.buffer_bytes));
}

std::size_t Flight::bytes() const {
  if (packed) return transfer.staging_bytes - transfer.work_bytes;
  if (straight) return transfer.staging_bytes;
  return std::max<std::size_t>(1, align_up(transfer.buffer_bytes) + transfer.staging_bytes);
}

void Flight::convert() {
  if (!desk) return transfer.finish(tile(), staging());
  desk->fit(straight ? 0 : transfer.buffer_bytes, transfer.work_bytes);
  if (transfer.convert) transfer.convert(tile(), staging(), desk->work.data());
}

std::optional<Buffer> Pool::take(std::size_t bytes) {
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

Pool::~Pool() {
  if (options_.shelf.give)
    for (Buffer& buffer : idle_) options_.shelf.give(std::move(buffer));
}

void Pool::give(Buffer buffer) {
  --taken_;
  idle_.push_back(std::move(buffer));
}

Traffic::Traffic(Ring& ring, const Array& array, std::span<const BoxTile> boxes, const BoxOptions& options)
    : ring_(ring),
      array_(array),
      boxes_(boxes),
      flights_(most_flights),
      options_(options),
      pool_(options),
      next_pulse_(std::chrono::steady_clock::now() + options.between_pulses),
      packed_(array.store().unpack_bytes() > 0),
      crew_(packed_ ? options.crew : nullptr, options.hands, [&ring] { wake_surely(ring); }) {
  for (std::size_t i = most_flights; i-- > 0;) idle_.push_back(i);
}

void Traffic::run() {
  try {
    move();
  } catch (...) {  // the ring failed: the crew must not go on with what is about to be gone
    crew_.stop();
    throw;
  }
  if (error_) std::rethrow_exception(error_);
}

void Traffic::move() {
  prepare_next();
  Completion completions[64];
  while (next_ || idle_.size() < most_flights) {
    start_all();
    if (collect() || idle_.size() == most_flights) continue;
    const std::span all(completions, ring_.reap(completions));
    for (const Completion& completion : all) note(completion);
    for (const Completion& completion : all) {
      start_all();
      completed(completion);
    }
    pulse();
  }
}

void Traffic::start_all() {
  while (next_ && !idle_.empty() && start()) {
  }
  if (error_) next_.reset(), crew_.cancel();
}

void Traffic::pulse() {
  if (!options_.pulse || error_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_pulse_) return;
  next_pulse_ = now + options_.between_pulses;
  guarded([&] { options_.pulse(); });
}

Tile Traffic::in_buffer(const Flight& flight) const {
  return {flight.tile() + flight.transfer.origin, array_.dtype(), flight.unit.shape, flight.transfer.strides,
          flight.transfer.tile_bytes};
}

Tile Traffic::in_memory(std::size_t which, const Box& part) const {
  const auto& [box, tile] = boxes_[which];
  Box local = part;
  for (std::size_t d = 0; d < local.start.size(); ++d) local.start[d] -= box.start[d];
  return subtile(tile, local);
}

Tile Traffic::part_in_buffer(const Flight& flight) const {
  Box local = flight.part;
  for (std::size_t d = 0; d < local.start.size(); ++d) local.start[d] -= flight.unit.start[d];
  return subtile(in_buffer(flight), local);
}

void Traffic::replace_memory(Flight& flight, std::size_t bytes) {
  if (flight.memory.size() >= bytes) return;
  Buffer larger(bytes);
  std::memcpy(larger.data(), flight.memory.data(), flight.memory.size());
  flight.memory = std::move(larger);
}

void Traffic::prepare_next() {
  next_.reset();
  if (error_) return;
  guarded([&] {
    const auto part = next();
    if (!part) return;
    Flight fresh;
    fresh.which = which_;
    fresh.part = *part;
    fresh.packed = packed_;
    prepare(fresh);
    next_ = std::move(fresh);
  });
}

bool Traffic::start() {
  Buffer memory;
  if (const std::size_t bytes = std::max(next_->bytes(), next_->more_later); bytes > 0) {
    if (!next_->write && reading_ > 0 && reading_ + next_->bytes() > options_.staging / 2) return false;
    auto taken = pool_.take(bytes);
    if (!taken) return false;
    memory = std::move(*taken);
  }
  Flight& flight = flights_[idle_.back()];
  idle_.pop_back();
  flight = std::move(*next_);
  flight.memory = std::move(memory);
  prepare_next();
  if (flight.write && flight.packed) {
    compute(flight, true);
    return true;
  }
  guarded([&] {
    if (flight.write) fill(flight);
  });
  leave(flight);
  return true;
}

/// At a desk: what comes before a write leaves, or after a read arrived. By this thread where it would only wait.
void Traffic::compute(Flight& flight, bool before_it_leaves) {
  const bool alone = !next_ && idle_.size() + 1 == most_flights;
  crew_.give(
      number_of(flight),
      [this, &flight, before_it_leaves](Desk& desk) {
        flight.desk = &desk;
        desk.fit(flight.straight ? 0 : flight.transfer.buffer_bytes, 0);
        if (before_it_leaves)
          fill(flight);
        else
          arrived(flight);
      },
      alone);
}

/// Goes on with what the crew has done (what is to be written leaves now); whether there was any.
bool Traffic::collect() {
  const auto finished = crew_.finished();
  for (const CrewWork::Done& one : finished) {
    Flight& flight = flights_[one.number];
    flight.desk = nullptr;
    if (one.error && !error_) error_ = one.error;
    if (flight.write && !error_)
      leave(flight);
    else
      done(flight);
  }
  return !finished.empty();
}

void Traffic::leave(Flight& flight) {
  if (!error_)
    guarded([&] {
      const auto requests =
          requests_of(flight.transfer, flight.base(), flight.write, number_of(flight) * segments_per_flight);
      ring_.submit(requests);
      flight.waiting = flight.unseen = requests.size();
      if (!flight.write && flight.waiting > 0) reading_ += flight.bytes();
      if (flight.transfer.arriving) flight.there.assign(requests.size(), false);
    });
  if (flight.unseen == 0) settle(flight);
}

void Traffic::note(const Completion& completion) {
  Flight& flight = flight_of(completion);
  if (--flight.waiting == 0 && !flight.write) reading_ -= flight.bytes();
}

void Traffic::completed(const Completion& completion) {
  Flight& flight = flight_of(completion);
  const std::size_t segment = completion.tag % segments_per_flight;
  guarded([&] {
    try {
      check_completion(flight.transfer, segment, completion, flight.write);
    } catch (const Error&) {
      if (!flight.transfer.apart) throw;
      flight.failed = true;
    }
  });
  if (flight.transfer.arriving && !error_) guarded([&] { tell(flight, segment); });
  if (--flight.unseen == 0) settle(flight);
}

void Traffic::tell(Flight& flight, std::size_t segment) {
  const std::size_t before = flight.arrived;
  flight.there[segment] = true;
  for (; flight.first_missing < flight.there.size() && flight.there[flight.first_missing]; ++flight.first_missing)
    flight.arrived += flight.transfer.segments[flight.first_missing].bytes();
  if (flight.arrived > before) flight.transfer.arriving(flight.base(), flight.arrived);
}

void Traffic::settle(Flight& flight) {
  if (flight.failed && !error_) {
    flight.failed = false;
    guarded([&] { flight.transfer.segments = std::exchange(flight.transfer.apart, {})(); });
    return leave(flight);
  }
  if (flight.packed && !flight.write && !error_) return compute(flight, false);
  bool again = false;
  if (!error_) guarded([&] { again = arrived(flight); });
  if (again && !error_) return leave(flight);
  done(flight);
}

void Traffic::done(Flight& flight) {
  idle_.push_back(number_of(flight));
  if (flight.memory) pool_.give(std::move(flight.memory));
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
