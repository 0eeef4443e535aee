// Reads or writes a whole float32 Zarr array chunk by chunk through the ring, nothing else: one line of JSON.
//   ring_throughput write|read PATH GIBIBYTES [io] [depth]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/storage/ring.hpp"
#include "flagstone/storage/transfer.hpp"
#include "flagstone/storage/zarr.hpp"

namespace flagstone {
namespace {

/// One chunk on its way: a buffer of its own, and how many of its requests are still out.
struct Slot {
  Buffer buffer;
  int registered = -1;
  Box box;
  Transfer transfer;
  std::size_t waiting = 0;
};

constexpr std::uint64_t requests_per_slot = 1 << 16;  // tag = slot * this + segment

std::vector<Box> chunk_boxes(const Array& array) {
  std::vector<Box> boxes;
  const Shape &shape = array.shape(), &chunk = array.chunks();
  for (Index i = 0; i < shape[0]; i += chunk[0])
    for (Index j = 0; j < shape[1]; j += chunk[1]) boxes.push_back(intersect({{i, j}, chunk}, whole(shape)));
  return boxes;
}

void issue(Ring& ring, const Array& array, Slot& slot, std::size_t number, const Box& box, bool write) {
  slot.box = box;
  Transfer transfer = write ? array.store().write(box) : array.store().read(box);
  if (write) make_ready(transfer, slot.buffer.data(), nullptr);  // raw chunks have no staging
  slot.transfer = in_pieces(std::move(transfer));
  slot.waiting = slot.transfer.segments.size();
  ring.submit(requests_of(slot.transfer, slot.buffer.data(), write, number * requests_per_slot, slot.registered));
}

std::uint64_t move_all(Ring& ring, const Array& array, std::vector<Slot>& slots, bool write) {
  const std::vector<Box> boxes = chunk_boxes(array);
  std::uint64_t bytes = 0;
  std::size_t next = 0, out = 0;
  for (; next < slots.size() && next < boxes.size(); ++next, ++out)
    issue(ring, array, slots[next], next, boxes[next], write);
  Completion done[64];
  while (out > 0) {
    const std::size_t arrived = ring.reap(done);
    for (std::size_t d = 0; d < arrived; ++d) {
      const std::size_t number = done[d].tag / requests_per_slot;
      Slot& slot = slots[number];
      check_completion(slot.transfer, done[d].tag % requests_per_slot, done[d], write);
      bytes += static_cast<std::uint64_t>(done[d].result);
      if (--slot.waiting > 0) continue;
      if (write) array.store().written(slot.box);
      --out;
      if (next < boxes.size()) issue(ring, array, slot, number, boxes[next++], write), ++out;
    }
  }
  return bytes;
}

int run(const std::string& verb, const std::string& path, double gibibytes, const RingOptions& options) {
  const bool write = verb == "write";
  const auto ring = make_ring(options);
  constexpr Index columns = 32768;
  const Shape shape{static_cast<Index>(gibibytes * static_cast<double>(GiB)) / (columns * 4), columns};
  const auto started = std::chrono::steady_clock::now();
  ZarrOptions layout;
  layout.checksum = "none";  // requests alone: no tile is packed here, which is where checksums are taken
  const Array array = write ? create_zarr_array(path, shape, Dtype::float32, layout) : open_zarr_array(path);
  // As many chunks as keep the ring full, and one that is being replaced: more memory than that is slower to fill.
  const std::size_t under_way = options.depth * most_request_bytes / chunk_bytes(array);
  std::vector<Slot> slots(std::max<std::size_t>(2, under_way + 1));
  for (Slot& slot : slots) {
    slot.buffer = Buffer(align_up(chunk_bytes(array)));
    slot.registered = ring->register_buffer(slot.buffer.data(), slot.buffer.size());
    // Not zeros, which a file system or a device might treat in a way of their own; touched, so that no fault is timed.
    auto* words = reinterpret_cast<std::uint64_t*>(slot.buffer.data());
    for (std::size_t i = 0; i < slot.buffer.size() / 8; ++i) words[i] = 0x9e3779b97f4a7c15ULL * (i + 1);
  }
  const auto ready = std::chrono::steady_clock::now();
  const std::uint64_t bytes = move_all(*ring, array, slots, write);
  if (write) array.store().flush();
  const auto ended = std::chrono::steady_clock::now();
  const std::string io = ring->describe();  // while the buffers are registered
  for (Slot& slot : slots)
    if (slot.registered >= 0) ring->unregister_buffer(slot.registered);
  const auto seconds = [](auto from, auto to) { return std::chrono::duration<double>(to - from).count(); };
  std::printf("{\"bytes\": %llu, \"seconds\": %.6f, \"prepare_seconds\": %.6f, \"io\": \"%s\"}\n",
              static_cast<unsigned long long>(bytes), seconds(ready, ended), seconds(started, ready), io.c_str());
  return 0;
}

}  // namespace
}  // namespace flagstone

int main(int count, char** words) {
  if (count < 4) {
    std::fprintf(stderr, "ring_throughput: needs write|read PATH GIBIBYTES [io] [depth]\n");
    return 2;
  }
  try {
    flagstone::RingOptions options{.kind = count > 4 ? words[4] : "auto", .depth = 16};
    if (count > 5) options.depth = static_cast<unsigned>(std::stoul(words[5]));
    return flagstone::run(words[1], words[2], std::stod(words[3]), options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
