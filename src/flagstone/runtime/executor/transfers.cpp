// The executor's traffic: loads and stores under way, the ring's outbox and its completions.
#include <array>

#include "flagstone/runtime/executor/executor.hpp"
#include "flagstone/storage/array/requests.hpp"

namespace flagstone {
namespace {

constexpr int segment_bits = 24;  // a request's tag is (flight << segment_bits) + segment

}  // namespace

/// The ring is busy while requests are out.
void Executor::count_requests(std::ptrdiff_t change) {
  const bool before = requests_out_ > 0;
  requests_out_ += change;
  if (!before && requests_out_ > 0) busy_since_ = Clock::now();
  if (before && requests_out_ == 0) stats_.ring_busy_seconds += seconds_between(busy_since_, Clock::now());
}

void Executor::post(Lock& lock) {
  if (outbox_.empty()) return;
  const std::vector<Request> requests = std::exchange(outbox_, {});
  lock.unlock();
  std::exception_ptr refused;
  try {
    ring_.submit(requests);
  } catch (...) {
    refused = std::current_exception();
  }
  lock.lock();
  if (refused) lose_ring(refused);
}

/// The queue itself failed (out of kernel memory). What is in it may be heard of again, or not: it stays counted,
/// nobody waits for it, and its memory is not used again.
void Executor::lose_ring(std::exception_ptr error) {
  ring_lost_ = true;
  fail(error);
}

void Executor::load(TileState& tile, Transfer transfer) {
  const std::uint64_t id = next_flight_++;
  auto& flight = flights_[id] = std::make_unique<Flight>();
  flight->tile = &tile;
  flight->transfer = std::move(transfer);
  stats_.bytes_read += flight->transfer.bytes();
  if (flight->transfer.staging_bytes) flight->staging = take_buffer(flight->transfer.staging_bytes, false);
  flight->id = id;
  send(*flight);
}

void Executor::store(TileState& tile, Transfer transfer) {
  const std::uint64_t id = next_flight_++;
  auto& flight = flights_[id] = std::make_unique<Flight>();
  flight->tile = &tile;
  flight->transfer = std::move(transfer);
  flight->write = true;
  flight->id = id;
  if (!flight->transfer.convert && !flight->transfer.settle) return send(*flight);
  if (flight->transfer.staging_bytes) flight->staging = take_buffer(flight->transfer.staging_bytes, false);
  jobs_.push_back([this, flight = flight.get()] {
    make_ready(flight->transfer, flight->tile->buffer.data(), flight->staging.data());
    Lock lock(mutex_);
    if (!error_) send(*flight);
  });
}

/// Puts the flight's requests into the outbox; one without requests (absent chunks) lands at once, as a job.
void Executor::send(Flight& flight) {
  if (flight.write) stats_.bytes_written += flight.transfer.bytes();  // only now is known what need not leave
  std::byte* base = flight.staging ? flight.staging.data() : flight.tile->buffer.data();
  const int registered = flight.staging ? -1 : flight.tile->buffer.registered;
  auto requests = requests_of(flight.transfer, base, flight.write, flight.id << segment_bits, registered);
  flight.left = requests.size();
  count_requests(static_cast<std::ptrdiff_t>(requests.size()));
  if (requests.empty())
    jobs_.push_back([this, &flight] { landed(flight); });
  else
    outbox_.insert(outbox_.end(), requests.begin(), requests.end());
}

/// On a worker, without the lock: everything arrived; decode or assemble, then the tile is there.
void Executor::landed(Flight& flight) {
  if (!flight.write) flight.transfer.finish(flight.tile->buffer.data(), flight.staging.data());
  if (flight.write) flight.tile->array.store().written(flight.tile->box);
  Lock lock(mutex_);
  auto done = std::move(flights_.at(flight.id));
  flights_.erase(done->id);
  if (done->staging) pool_.put(std::move(done->staging));
  if (error_) return;
  if (done->write)
    scheduler_.stored(*done->tile);
  else
    scheduler_.loaded(*done->tile, done->transfer.staging_bytes);
}

void Executor::complete(Lock& lock, const Completion& completion) {
  Flight& flight = *flights_.at(completion.tag >> segment_bits);
  count_requests(-1);
  try {
    check_completion(flight.transfer, completion.tag & ((1u << segment_bits) - 1), completion, flight.write);
  } catch (...) {
    fail(std::current_exception());
  }
  if (--flight.left > 0 || error_) return;
  if (!flight.write && flight.transfer.convert) {
    jobs_.push_back([this, &flight] { landed(flight); });
  } else {
    lock.unlock();
    try {
      landed(flight);  // nothing to compute: no worker needed
      lock.lock();
    } catch (...) {
      lock.lock();
      fail(std::current_exception());
    }
  }
}

void Executor::reap() {
  std::array<Completion, 64> completions;
  for (;;) {
    std::size_t n = 0;
    std::exception_ptr broken;
    try {
      n = ring_.reap(completions);
    } catch (...) {
      broken = std::current_exception();
    }
    Lock lock(mutex_);
    if (broken) return lose_ring(broken);
    for (std::size_t i = 0; i < n; ++i) complete(lock, completions[i]);
    advance(lock);
    if (stopping_ && (requests_out_ == 0 || ring_lost_)) return;
  }
}

}  // namespace flagstone
