// read_box and write_box: any box of any array, in pieces, with several transfers on their way.
#include <algorithm>
#include <cstring>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/storage/array.hpp"
#include "flagstone/storage/box_pieces.hpp"
#include "flagstone/storage/ring.hpp"
#include "flagstone/storage/transfer.hpp"

namespace flagstone {
namespace {

constexpr std::size_t most_flights = 64;
constexpr std::uint64_t segments_per_flight = std::uint64_t{1} << 32;  // tag = flight * this + segment

/// One piece on its way. `memory` holds the tile's buffer and behind it the staging buffer.
struct Flight {
  Box part;  // of the caller's box
  Box unit;  // what travels: `part`, or the whole chunk around it
  Transfer transfer;
  bool write = false;
  Buffer memory;
  std::size_t waiting = 0;  // requests not yet completed
  bool busy = false;

  std::byte* tile() const { return memory.data(); }
  std::byte* staging() const { return memory.data() + align_up(transfer.buffer_bytes); }
  std::byte* base() const { return transfer.staging_bytes > 0 ? staging() : tile(); }
  std::size_t bytes() const {
    return std::max<std::size_t>(1, align_up(transfer.buffer_bytes) + transfer.staging_bytes);
  }
};

/// Buffers for flights, reused; together at most `limit` bytes, or one buffer of any size.
class Pool {
 public:
  explicit Pool(std::size_t limit) : limit_(limit) {}

  std::optional<Buffer> take(std::size_t bytes) {
    const auto fits = std::find_if(idle_.begin(), idle_.end(), [&](const Buffer& b) { return b.size() >= bytes; });
    if (fits != idle_.end()) {
      Buffer buffer = std::move(*fits);
      idle_.erase(fits);
      ++taken_;
      return buffer;
    }
    while (!idle_.empty() && held_ + bytes > limit_) {
      held_ -= idle_.back().size();
      idle_.pop_back();
    }
    if (held_ + bytes > limit_ && taken_ > 0) return std::nullopt;
    Buffer buffer(bytes);
    held_ += buffer.size();
    ++taken_;
    return buffer;
  }

  void give(Buffer buffer) {
    --taken_;
    idle_.push_back(std::move(buffer));
  }

 private:
  std::size_t limit_, held_ = 0, taken_ = 0;
  std::vector<Buffer> idle_;
};

/// The loop that both directions share; it alone reaps. After the first error nothing more is started, what is in
/// flight is drained (the kernel still uses the buffers), and the error leaves as itself.
class Traffic {
 public:
  Traffic(Ring& ring, const Array& array, const Box& box, const Tile& tile, std::size_t staging)
      : ring_(ring), array_(array), box_(box), tile_(tile), flights_(most_flights), pool_(staging) {}
  virtual ~Traffic() = default;

  void run(BoxPieces pieces) {
    std::optional<Flight> next = prepared(pieces);
    Completion done[64];
    while (next || busy_ > 0) {
      while (next && busy_ < most_flights && start(*next)) next = prepared(pieces);
      if (error_) next.reset();
      if (busy_ == 0) continue;
      const std::size_t n = ring_.reap(done);
      for (std::size_t i = 0; i < n; ++i) completed(done[i]);
    }
    if (error_) std::rethrow_exception(error_);
  }

 protected:
  /// Says how `flight.part` travels (unit, transfer, write).
  virtual void prepare(Flight& flight) = 0;
  /// Before a write leaves: fills the tile's buffer.
  virtual void fill(Flight&) {}
  /// The transfer is complete; true: `flight.transfer` is the next one and leaves at once.
  virtual bool arrived(Flight& flight) = 0;

  Tile in_buffer(const Flight& flight) const {
    return {flight.tile() + flight.transfer.origin, array_.dtype(), flight.unit.shape, flight.transfer.strides,
            flight.transfer.tile_bytes};
  }
  /// The caller's memory for `flight.part`.
  Tile in_memory(const Flight& flight) const {
    Box local = flight.part;
    for (std::size_t d = 0; d < local.start.size(); ++d) local.start[d] -= box_.start[d];
    return subtile(tile_, local);
  }
  /// `flight.part` inside the buffer of `flight.unit`.
  Tile part_in_buffer(const Flight& flight) const {
    Box local = flight.part;
    for (std::size_t d = 0; d < local.start.size(); ++d) local.start[d] -= flight.unit.start[d];
    return subtile(in_buffer(flight), local);
  }
  void replace_memory(Flight& flight, std::size_t bytes) {
    if (flight.memory.size() >= bytes) return;
    Buffer larger(bytes);
    std::memcpy(larger.data(), flight.memory.data(), flight.memory.size());
    flight.memory = std::move(larger);
  }

  Ring& ring_;
  const Array& array_;
  const Box& box_;
  const Tile& tile_;

 private:
  std::optional<Flight> prepared(BoxPieces& pieces) {
    std::optional<Flight> flight;
    const auto part = error_ ? std::nullopt : pieces.next();
    if (!part) return flight;
    guarded([&] {
      Flight fresh;
      fresh.part = *part;
      prepare(fresh);
      flight = std::move(fresh);
    });
    return flight;
  }

  /// False when the buffers in flight leave no room for it.
  bool start(Flight& fresh) {
    auto memory = pool_.take(fresh.bytes());
    if (!memory) return false;
    const auto at = std::find_if(flights_.begin(), flights_.end(), [](const Flight& f) { return !f.busy; });
    *at = std::move(fresh);
    at->memory = std::move(*memory);
    at->busy = true;
    ++busy_;
    guarded([&] {
      if (at->write) fill(*at);
    });
    leave(*at);
    return true;
  }

  void leave(Flight& flight) {
    if (!error_)
      guarded([&] {
        const auto number = static_cast<std::uint64_t>(&flight - flights_.data());
        const auto requests = requests_of(flight.transfer, flight.base(), flight.write, number * segments_per_flight);
        ring_.submit(requests);
        flight.waiting = requests.size();
      });
    if (flight.waiting == 0) settle(flight);
  }

  void completed(const Completion& completion) {
    Flight& flight = flights_[completion.tag / segments_per_flight];
    guarded([&] { check_completion(flight.transfer, completion.tag % segments_per_flight, completion, flight.write); });
    if (--flight.waiting == 0) settle(flight);
  }

  void settle(Flight& flight) {
    bool again = false;
    if (!error_) guarded([&] { again = arrived(flight); });
    if (again && !error_) return leave(flight);
    flight.busy = false;
    --busy_;
    pool_.give(std::move(flight.memory));
  }

  /// Keeps the first error.
  template <class Work>
  void guarded(Work&& work) {
    try {
      work();
    } catch (...) {
      if (!error_) error_ = std::current_exception();
    }
  }

  std::vector<Flight> flights_;
  Pool pool_;
  std::size_t busy_ = 0;
  std::exception_ptr error_;
};

class Reading final : public Traffic {
 public:
  using Traffic::Traffic;

 private:
  void prepare(Flight& flight) override {
    flight.unit = flight.part;
    flight.transfer = in_pieces(array_.store().read(flight.part));
  }
  bool arrived(Flight& flight) override {
    if (flight.transfer.convert) flight.transfer.convert(flight.tile(), flight.staging());
    copy(in_buffer(flight), in_memory(flight));
    return false;
  }
};

/// Chunks that are covered are written; the others are read first, changed and written.
class Writing final : public Traffic {
 public:
  Writing(Ring& ring, const Array& array, const Box& box, const Tile& tile, std::size_t staging, bool flat)
      : Traffic(ring, array, box, tile, staging), flat_(flat) {}

 private:
  void prepare(Flight& flight) override {
    flight.unit = flat_ ? flight.part : chunk_around(array_, flight.part);
    flight.write = flight.unit == flight.part;
    flight.transfer = in_pieces(flight.write ? array_.store().write(flight.unit) : array_.store().read(flight.unit));
  }
  void fill(Flight& flight) override {
    copy(in_memory(flight), part_in_buffer(flight));
    if (flight.transfer.convert) flight.transfer.convert(flight.tile(), flight.staging());
  }
  bool arrived(Flight& flight) override {
    if (flight.write) {
      array_.store().written(flight.unit);
      return false;
    }
    if (flight.transfer.convert) flight.transfer.convert(flight.tile(), flight.staging());
    flight.transfer = in_pieces(array_.store().write(flight.unit));  // same geometry; its staging may be larger
    flight.write = true;
    replace_memory(flight, flight.bytes());
    fill(flight);
    return true;
  }
  bool flat_;
};

void check(const char* who, const Array& array, const Box& box, const Tile& tile) {
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

}  // namespace

void read_box(Ring& ring, const Array& array, const Box& box, const Tile& to, std::size_t staging) {
  check("read_box", array, box, to);
  if (count(box.shape) == 0) return;
  if (array.in_memory()) return copy(memory_tile(array, box), to);
  // Several chunks of one moment: where another process commits meanwhile, they are read again.
  for (int attempt = 0;; ++attempt) {
    const std::uint64_t before = array.store().look();
    std::exception_ptr error;
    try {
      Reading(ring, array, box, to, staging).run(pieces_to_read(array, box, staging));
    } catch (const Error&) {
      error = std::current_exception();
    }
    if (array.store().look() == before) {
      if (error) std::rethrow_exception(error);
      return;
    }
    if (attempt == 20)
      throw StorageError("read: the array is changed faster than it can be read; read smaller parts", EAGAIN,
                         array.path());
  }
}

void write_box(Ring& ring, const Array& array, const Box& box, const Tile& from, std::size_t staging) {
  check("write_box", array, box, from);
  if (count(box.shape) == 0) return;
  if (array.in_memory()) return copy(from, memory_tile(array, box));
  const bool flat = takes_any_box(array);
  Writing(ring, array, box, from, staging, flat).run(pieces_to_write(array, box, staging, flat));
}

}  // namespace flagstone
