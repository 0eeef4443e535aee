#include "flagstone/runtime/executor/transfers.hpp"

#include <algorithm>
#include <array>

#include "flagstone/storage/array/requests.hpp"

namespace flagstone {
namespace {

constexpr int segment_bits = 24;  // a request's tag is (flight << segment_bits) + segment

/// A conversion on a worker, for the timeline, while it lives.
class Conversion {
 public:
  Conversion(RunState& run, const char* name, const TileState& tile)
      : run_(run.timeline && RunState::row >= 0 ? &run : nullptr), name_(name), tile_(tile) {
    if (run_) began_ = RunState::Clock::now();
  }
  ~Conversion() {
    if (run_)
      run_->timeline->span(run_->timeline_run, RunState::row, "convert", name_, began_, RunState::Clock::now(),
                           about(tile_));
  }
  Conversion(const Conversion&) = delete;

 private:
  RunState* run_;
  const char* name_;
  const TileState& tile_;
  RunState::Clock::time_point began_;
};

}  // namespace

std::string about(const TileState& tile) {
  std::string path = tile.array.path();
  if (path.ends_with("/array")) path.resize(path.size() - 6);  // of a directory that is named for it
  const std::string name = path.substr(path.rfind('/') + 1);
  return (name.empty() ? "" : name + " ") + to_string(tile.box.shape) + " at " + to_string(tile.box.start);
}

std::string region_of(const TaskState& task) {
  for (std::size_t i = task.operands.size(); i-- > 0;)
    if (const TileState* tile = task.operands[i])
      return "tile " + to_string(tile->box.shape) + " at " + to_string(tile->box.start);
  return {};
}

std::string note_of(const TaskState& task) {
  const std::string region = region_of(task);
  return "in task '" + task.spec.name + "'" + (region.empty() ? region : " (" + region + ")");
}

/// The ring is busy while requests are out.
void TransferQueue::count_requests(std::ptrdiff_t change) {
  const bool before = requests_out_ > 0;
  requests_out_ += change;
  if (!before && requests_out_ > 0) busy_since_ = Clock::now();
  if (before && requests_out_ == 0)
    run_.stats.ring_busy_seconds += RunState::seconds_between(busy_since_, Clock::now());
}

double TransferQueue::busy_seconds() const {
  return requests_out_ > 0 ? RunState::seconds_between(busy_since_, Clock::now()) : 0;
}

void TransferQueue::forget_unsent() {
  count_requests(-static_cast<std::ptrdiff_t>(outbox_.size()));
  outbox_.clear();
}

void TransferQueue::post(Lock& lock) {
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
void TransferQueue::lose_ring(std::exception_ptr error) {
  ring_lost_ = true;
  run_.fail(error);
}

TransferQueue::Flight& TransferQueue::begin(TileState& tile, Transfer transfer, bool write) {
  const std::uint64_t id = next_flight_++;
  auto& flight = flights_[id] = std::make_unique<Flight>();
  flight->tile = &tile;
  flight->transfer = std::move(transfer);
  flight->write = write;
  flight->id = id;
  if (run_.timeline) {
    const auto free = std::find(rows_.begin(), rows_.end(), false);
    flight->row = static_cast<int>(free - rows_.begin());
    if (free == rows_.end()) rows_.push_back(true);
    rows_[static_cast<std::size_t>(flight->row)] = true;
    flight->began = Clock::now();
  }
  return *flight;
}

/// With the lock held: the flight's requests have all arrived.
void TransferQueue::tell(const Flight& flight) {
  if (flight.row < 0) return;
  rows_[static_cast<std::size_t>(flight.row)] = false;
  const Clock::time_point arrived = flight.arrived == Clock::time_point{} ? Clock::now() : flight.arrived;
  run_.timeline->span(run_.timeline_run, Timeline::first_ring_row + flight.row, "disk", flight.write ? "store" : "load",
                      flight.began, arrived, about(*flight.tile), flight.transfer.bytes());
}

void TransferQueue::load(TileState& tile, Transfer transfer) {
  Flight& flight = begin(tile, std::move(transfer), false);
  run_.stats.bytes_read += flight.transfer.bytes();
  run_.stats.flops += flight.transfer.flops;
  if (flight.transfer.staging_bytes) flight.staging = run_.take_buffer(flight.transfer.staging_bytes, false);
  send(flight);
}

void TransferQueue::store(TileState& tile, Transfer transfer) {
  Flight& flight = begin(tile, std::move(transfer), true);
  if (!flight.transfer.convert && !flight.transfer.settle) return send(flight);
  if (flight.transfer.staging_bytes) flight.staging = run_.take_buffer(flight.transfer.staging_bytes, false);
  run_.jobs.push_back([this, &flight] {
    {
      const Conversion told(run_, "pack", *flight.tile);  // once it is sent, flight and tile may be gone
      make_ready(flight.transfer, flight.tile->buffer.data(), flight.staging.data());
    }
    Lock lock(run_.mutex);
    if (!run_.error) send(flight);
  });
}

/// Puts the flight's requests into the outbox; one without requests (absent chunks) lands at once, as a job.
void TransferQueue::send(Flight& flight) {
  if (flight.write) run_.stats.bytes_written += flight.transfer.bytes();  // only now is known what need not leave
  std::byte* base = flight.staging ? flight.staging.data() : flight.tile->buffer.data();
  const int registered = flight.staging ? -1 : flight.tile->buffer.registered;
  auto requests = requests_of(flight.transfer, base, flight.write, flight.id << segment_bits, registered);
  flight.left = requests.size();
  count_requests(static_cast<std::ptrdiff_t>(requests.size()));
  if (requests.empty())
    run_.jobs.push_back([this, &flight] { landed(flight); });
  else
    outbox_.insert(outbox_.end(), requests.begin(), requests.end());
}

/// On a worker, without the lock: everything arrived; decode or assemble, then the tile is there.
void TransferQueue::landed(Flight& flight) {
  if (!flight.write) {
    const Conversion told(run_, "unpack", *flight.tile);
    flight.transfer.finish(flight.tile->buffer.data(), flight.staging.data());
  }
  if (flight.write) flight.tile->array.store().written(flight.tile->box);
  Lock lock(run_.mutex);
  auto done = std::move(flights_.at(flight.id));
  flights_.erase(done->id);
  tell(*done);
  if (done->staging) run_.pool.put(std::move(done->staging));
  if (run_.error) return;
  if (done->write)
    run_.scheduler.stored(*done->tile);
  else
    run_.scheduler.loaded(*done->tile, done->transfer.beside_bytes());
}

void TransferQueue::complete(Lock& lock, const Completion& completion) {
  Flight& flight = *flights_.at(completion.tag >> segment_bits);
  count_requests(-1);
  try {
    check_completion(flight.transfer, completion.tag & ((1u << segment_bits) - 1), completion, flight.write);
  } catch (...) {
    run_.fail(std::current_exception());
  }
  if (--flight.left > 0 || run_.error) return;
  if (flight.row >= 0) flight.arrived = Clock::now();
  if (!flight.write && flight.transfer.convert) {
    run_.jobs.push_back([this, &flight] { landed(flight); });
  } else {
    lock.unlock();
    try {
      landed(flight);  // nothing to compute: no worker needed
      lock.lock();
    } catch (...) {
      lock.lock();
      run_.fail(std::current_exception());
    }
  }
}

void TransferQueue::reap() {
  std::array<Completion, 64> completions;
  for (;;) {
    std::size_t n = 0;
    std::exception_ptr broken;
    try {
      n = ring_.reap(completions);
    } catch (...) {
      broken = std::current_exception();
    }
    Lock lock(run_.mutex);
    if (broken) return lose_ring(broken);
    for (std::size_t i = 0; i < n; ++i) complete(lock, completions[i]);
    run_.advance(lock);
    if (stopping_ && settled()) return;
  }
}

void TransferQueue::stop() {
  {
    Lock lock(run_.mutex);
    stopping_ = true;
  }
  wake_surely(ring_);
}

void TransferQueue::abandon() {
  static std::mutex mutex;
  static auto* lost = new std::vector<PooledBuffer>;
  std::lock_guard one(mutex);
  for (auto& [id, flight] : flights_) {
    lost->push_back(std::move(flight->staging));
    lost->push_back(std::exchange(flight->tile->buffer, {}));
  }
}

}  // namespace flagstone
