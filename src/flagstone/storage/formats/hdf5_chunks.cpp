#include "flagstone/storage/formats/hdf5_chunks.hpp"

#include <cerrno>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/chunk/chunk_read.hpp"

namespace flagstone {
namespace {

class ChunkTableStore final : public ArrayStore {
 public:
  ChunkTableStore(std::shared_ptr<File> file, ChunkTable table, const std::string& name)
      : file_(std::move(file)), file_bytes_(file_->size()), layout_(table.shape, table.chunks, table.dtype) {
    if (!table.fill.empty()) layout_.fill = std::move(table.fill);
    layout_.decode_with(table.codec, name);
    entries_ = std::move(table.entries);
    check(name, table.codec.raw());
  }

  Transfer read(const Box& box) const override {
    return read_chunks(layout_, box, [this](const Shape& chunk) { return locate(chunk); });
  }
  Shape neighbourhood() const override { return layout_.short_chunks() ? layout_.shape : Shape{}; }
  std::vector<PartRead> read_joined(const Box& box, const Tile& to, std::size_t most_bytes) const override {
    return read_joined_chunks(layout_, box, to, most_bytes, [this](const Shape& chunk) { return locate(chunk); });
  }
  Transfer write(const Box&) override {
    throw StorageError("write: the array is open for reading only; copy it first (fl.convert)", EROFS, file_->path());
  }
  std::size_t run_bytes(const Shape& box) const override { return layout_.run_bytes(box); }
  std::uint64_t pass_bytes() const override {
    std::uint64_t sum = 0;
    for (const ChunkTable::Entry& entry : entries_) sum += align_up(entry.bytes);
    return sum;
  }
  std::uint64_t unpack_bytes() const override { return layout_.unpack_bytes(); }

 private:
  void check(const std::string& name, bool raw) const {
    const auto refuse = [&](std::size_t chunk, const std::string& what) {
      throw FormatError("open: " + name + ": chunk " + std::to_string(chunk) + " " + what +
                        "; the file is damaged, write or copy it again.");
    };
    if (entries_.size() != static_cast<std::size_t>(count(layout_.grid)))
      throw FormatError("open: " + name + ": there are " + std::to_string(count(layout_.grid)) +
                        " chunks and places for " + std::to_string(entries_.size()) + ".");
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      const ChunkTable::Entry& entry = entries_[i];
      if (entry.bytes == 0) continue;
      if (entry.bytes > file_bytes_ || entry.offset > file_bytes_ - entry.bytes)
        refuse(i, "lies beyond the file's end at byte " + std::to_string(file_bytes_));
      if (raw && entry.bytes != layout_.chunk_bytes)
        refuse(i, "has " + std::to_string(entry.bytes) + " bytes and needs " + std::to_string(layout_.chunk_bytes));
    }
  }

  StoredChunk locate(const Shape& chunk) const {
    std::size_t at = 0;
    for (std::size_t d = 0; d < chunk.size(); ++d)
      at = at * static_cast<std::size_t>(layout_.grid[d]) + static_cast<std::size_t>(chunk[d]);
    const ChunkTable::Entry& entry = entries_[at];
    if (entry.bytes == 0) return {};
    return {file_, entry.offset, entry.bytes, file_bytes_ - entry.offset, entry.skipped};
  }

  std::shared_ptr<File> file_;
  std::uint64_t file_bytes_;
  ChunkLayout layout_;
  std::vector<ChunkTable::Entry> entries_;
};

}  // namespace

Array open_chunk_table(const std::string& file, ChunkTable table, const std::string& name) {
  const Shape shape = table.shape, chunks = table.chunks;
  const Dtype dtype = table.dtype;
  auto store = std::make_shared<ChunkTableStore>(File::open(file, File::Mode::read), std::move(table), name);
  return Array(shape, dtype, chunks, std::move(store), file);
}

}  // namespace flagstone
