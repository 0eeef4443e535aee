#include "flagstone/algorithms/labels/model_writer.hpp"

#include <algorithm>
#include <cstring>

#include "flagstone/base/bytes.hpp"
#include "flagstone/storage/file/directory.hpp"

namespace flagstone::labels {
namespace {

constexpr Index long_chunk = Index{1} << 18, short_chunk = Index{1} << 14;

std::size_t room(Index n, std::size_t item) { return align_up(static_cast<std::size_t>(n) * item, 64); }

void put(ChunkAppender& to, const void* from, Index n, std::size_t item) {
  const auto* at = static_cast<const std::byte*>(from);
  while (n > 0) {
    if (to.room() == 0) to.store();
    const Index part = std::min(n, to.room());
    std::memcpy(to.next(), at, static_cast<std::size_t>(part) * item);
    to.advance(part);
    at += static_cast<std::size_t>(part) * item, n -= part;
  }
}

}  // namespace

std::size_t EncodedSize::bytes() const {
  return 64 + room(rows, 2) + room(rows, 1) + room(entries, 1) + room(entries, small ? 1 : 4) + room(children, 4);
}

kernel::ChunkTarget EncodedSize::target(std::byte* tile) const {
  std::byte* at = tile + 64;
  const auto take = [&](Index n, std::size_t item) { return std::exchange(at, at + room(n, item)); };
  kernel::ChunkTarget made{};
  made.steps = reinterpret_cast<std::uint16_t*>(take(rows, 2));
  made.counts = reinterpret_cast<std::uint8_t*>(take(rows, 1));
  made.child = reinterpret_cast<std::uint8_t*>(take(entries, 1));
  made.weights = take(entries, small ? 1 : 4);
  made.scales = small ? reinterpret_cast<float*>(take(children, 4)) : nullptr;
  return made;
}

void EncodedSize::note(std::byte* tile, const kernel::ChunkTarget& done) {
  auto* counts = reinterpret_cast<Index*>(tile);
  counts[0] = done.rows, counts[1] = done.entries;
}

ModelWriter::ModelWriter(const std::string& directory, bool small)
    : directory_(directory),
      small_(small),
      steps_(directory + "/steps", Dtype::uint16, long_chunk, true),
      counts_(directory + "/counts", Dtype::uint8, long_chunk, true),
      children_(directory + "/children", Dtype::uint8, long_chunk, true),
      weights_(directory + "/weights", small ? Dtype::int8 : Dtype::float32, long_chunk, true),
      scales_(directory + "/scales", Dtype::float32, short_chunk, true),
      chunks_(directory + "/chunks", Dtype::int64, short_chunk, false),
      order_(directory + "/order", Dtype::int32, short_chunk, false) {}

std::size_t ModelWriter::bytes() { return 3 * (static_cast<std::size_t>(long_chunk) * 8 + short_chunk * 16); }

void ModelWriter::append(Chunk chunk, const EncodedSize& size, const std::byte* tile) {
  const auto* filled = reinterpret_cast<const Index*>(tile);
  const kernel::ChunkTarget parts = size.target(const_cast<std::byte*>(tile));
  chunk.row = steps_.total(), chunk.rows = filled[0];
  chunk.entry = children_.total(), chunk.entries = filled[1];
  chunk.column = scales_.total();
  put(steps_, parts.steps, chunk.rows, 2);
  put(counts_, parts.counts, chunk.rows, 1);
  put(children_, parts.child, chunk.entries, 1);
  put(weights_, parts.weights, chunk.entries, small_ ? 1 : 4);
  const std::vector<float> ones(static_cast<std::size_t>(chunk.children), 1.0F);
  put(scales_, small_ ? parts.scales : ones.data(), chunk.children, 4);
  const Index numbers[] = {chunk.level, chunk.tree, chunk.node,  chunk.first,   chunk.children,
                           chunk.row,   chunk.rows, chunk.entry, chunk.entries, chunk.column};
  put(chunks_, numbers, chunk_numbers, 8);
}

void ModelWriter::append(const Chunk& chunk, std::span<const std::uint64_t> places, const float* weights, Index cols) {
  const auto entries = static_cast<Index>(places.size());
  const EncodedSize size{kernel::most_rows(entries, cols), entries, chunk.children, small_};
  std::vector<std::byte> tile(size.bytes());
  kernel::ChunkTarget to = size.target(tile.data());
  kernel::encode_entries(places.data(), weights, entries, chunk.children, to);
  EncodedSize::note(tile.data(), to);
  append(chunk, size, tile.data());
}

std::vector<std::byte> ModelWriter::state() const {
  StateWriter to;
  for (const ChunkAppender* part : {&steps_, &counts_, &children_, &weights_, &scales_, &chunks_}) part->save(to);
  sync_directory(directory_);
  return to.take();
}

void ModelWriter::restore(std::span<const std::byte> state) {
  StateReader from(state);
  for (ChunkAppender* part : {&steps_, &counts_, &children_, &weights_, &scales_, &chunks_}) part->restore(from);
}

void ModelWriter::finish(const std::vector<std::int32_t>& label_at) {
  put(order_, label_at.data(), static_cast<Index>(label_at.size()), 4);
  for (ChunkAppender* part : {&steps_, &counts_, &children_, &weights_, &scales_, &chunks_, &order_})
    part->finish("{}");
}

}  // namespace flagstone::labels
