// Chunks that are files of their own, in arrays that other programs made: replaced one by one.
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/zarr/store/zarr_store.hpp"

namespace flagstone {
namespace {

namespace fs = std::filesystem;

/// One name is enough: one writer has the array's lock, and writes a chunk once at a time.
std::string hidden_name(const std::string& path) {
  const fs::path place(path);
  return (place.parent_path() / ("." + place.filename().string() + ".part")).string();
}

}  // namespace

/// A chunk goes to a hidden file first. What is all fill value goes to none: its file is removed when the others are
/// put in their places.
StoredChunk ZarrStore::chunk_aside(const NewChunk& chunk) {
  std::lock_guard lock(mutex_);
  if (!still_there())
    throw StorageError("write: the array was replaced or moved meanwhile; open it again", ESTALE, directory_);
  commit_step("chunk");
  pending_[chunk.chunk] = chunk;
  ++updates_;
  if (chunk.bytes == 0) return {};
  const std::string path = path_of(chunk.chunk), aside = hidden_name(path);
  std::error_code error;
  const fs::path parent = fs::path(path).parent_path();
  if (fs::create_directories(parent, error))
    for (auto up = parent; up.string().size() >= directory_.size(); up = up.parent_path())
      new_directories_.insert(up.string());
  if (error) throw StorageError("write: cannot make a directory of the array", error.value(), parent.string());
  ::unlink(aside.c_str());  // of a writer that died
  auto file = File::open(aside, File::Mode::create);
  aside_[chunk.chunk] = file;
  return {std::move(file), 0, layout_.slot_bytes(), layout_.slot_bytes()};
}

/// Synced before the rename: a name never stands for a chunk that is not on the disk. Cost: a sync for every chunk.
void ZarrStore::put_chunks(const Box& box) {
  for (const Shape& chunk : layout_.touched(box)) {
    std::shared_ptr<File> file;
    NewChunk fresh;
    {
      std::lock_guard lock(mutex_);
      const auto pending = pending_.extract(chunk);
      if (pending.empty()) continue;
      fresh = pending.mapped();
      if (const auto held = aside_.extract(chunk); !held.empty()) file = held.mapped();
      new_directories_.insert(fs::path(path_of(chunk)).parent_path().string());
    }
    const std::string path = path_of(chunk);
    if (fresh.bytes == 0) {
      if (::unlink(path.c_str()) != 0 && errno != ENOENT && errno != ENOTDIR)
        throw StorageError("write: cannot remove a chunk that is all fill value", errno, path);
      continue;
    }
    file->truncate(fresh.bytes);
    file->sync();
    commit_step("chunk synced");
    if (::rename(file->path().c_str(), path.c_str()) != 0)
      throw StorageError("write: cannot put a chunk in its place", errno, path);
    commit_step("chunk in place");
  }
}

}  // namespace flagstone
