#include "flagstone/storage/zarr/shard/commit_journal.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/file/crc32c.hpp"
#include "flagstone/storage/file/descriptor.hpp"
#include "flagstone/storage/file/file.hpp"
#include "flagstone/storage/file/sync.hpp"

namespace flagstone {
namespace {

constexpr char magic[8] = {'F', 'L', 'A', 'G', 'J', 'R', 'N', '\2'};
constexpr const char* folder = "__flagstone";
constexpr const char* name = "__flagstone/journal";
namespace fs = std::filesystem;

void nothing(const char*) {}

std::string read_range(int file, std::size_t bytes, off_t offset) {
  std::string text(bytes, '\0');
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t got = ::pread(file, text.data() + done, bytes - done, offset + static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += static_cast<std::size_t>(got);
  }
  text.resize(done);
  return text;
}

[[noreturn]] void damaged(const std::string& path) {
  throw FormatError("open: " + path + "/" + name +
                    " is damaged; the last commit may be missing. fl.repair removes it.");
}

/// Body and head are synced one after the other: what does not match was damaged later. All zeros: it is new. A read
/// beside the write of a head may see half of it, and nothing of that when it is repeated.
JournalHead head_in(int file, const std::string& path) {
  constexpr int same_before_damage = 3;
  std::string before;
  for (int same = 0; same < same_before_damage;) {
    JournalHead head;
    const std::string text = read_range(file, sizeof head, 0);
    if (text.size() < sizeof head || text.find_first_not_of('\0') == std::string::npos) return {};
    std::memcpy(&head, text.data(), sizeof head);
    if (std::memcmp(head.magic, magic, sizeof magic) == 0 && head.crc == crc32c(&head, sizeof head - sizeof head.crc))
      return head;
    same = text == before ? same + 1 : 0;
    before = text;
  }
  damaged(path);
}

void write_range(int file, const void* from, std::size_t bytes, off_t offset, const std::string& path) {
  const auto* at = static_cast<const char*>(from);
  while (bytes > 0) {
    const ssize_t put = ::pwrite(file, at, bytes, offset);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) throw StorageError("commit: cannot write the journal", put < 0 ? errno : EIO, path);
    at += put, bytes -= static_cast<std::size_t>(put), offset += put;
  }
}

void put_head(int file, JournalHead head, const std::string& path) {
  std::memcpy(head.magic, magic, sizeof magic);
  head.crc = crc32c(&head, sizeof head - sizeof head.crc);
  commit_step("journal head");
  write_range(file, &head, sizeof head, 0, path);
  commit_step("journal sync");
  sync_file(file, path, "commit: cannot sync the journal");
}

/// Numbers and lists, one after the other.
class Writer {
 public:
  template <class T>
  void put(const T& value) {
    text.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  template <class T>
  void put_list(const T& list) {
    put(static_cast<std::uint64_t>(list.size()));
    text.append(reinterpret_cast<const char*>(list.data()), list.size() * sizeof(*list.data()));
  }
  std::string text;
};

class Reader {
 public:
  Reader(const std::string& text, const std::string& path) : text_(text), path_(path) {}
  template <class T>
  T get() {
    T value;
    take(&value, sizeof value);
    return value;
  }
  template <class T>
  T get_list() {
    const auto size = get<std::uint64_t>();
    if (size > text_.size()) refuse();
    T list(static_cast<std::size_t>(size), typename T::value_type{});
    take(list.data(), list.size() * sizeof(*list.data()));
    return list;
  }
  bool done() const { return at_ == text_.size(); }
  [[noreturn]] void refuse() const { damaged(path_); }

 private:
  void take(void* to, std::size_t bytes) {
    if (bytes > text_.size() - at_) refuse();
    if (bytes != 0) std::memcpy(to, text_.data() + at_, bytes);  // an empty list has no memory
    at_ += bytes;
  }
  const std::string& text_;
  const std::string& path_;
  std::size_t at_ = 0;
};

}  // namespace

void (*commit_step)(const char*) = &nothing;

JournalHead Journal::head() const {
  const Descriptor file(open_regular(directory_, name, O_RDONLY, path_));
  return file < 0 ? JournalHead{} : head_in(file, path_);
}

std::string Journal::body(const JournalHead& head) const {
  const Descriptor file(open_regular(directory_, name, O_RDONLY, path_));
  const std::string text = file < 0 ? std::string() : read_range(file, head.bytes, sizeof head);
  if (text.size() == head.bytes && crc32c(text.data(), text.size()) == head.body) return text;
  if (this->head() == head) damaged(path_);
  return {};  // it was cleared meanwhile
}

void Journal::write(const JournalHead& before, std::uint64_t id, JournalHead::State state, const std::string& body) {
  const Descriptor file(open_journal());
  if (before.commits == 0) sync_name();
  JournalHead head;
  head.commits = before.commits + 1;
  head.id = id;
  head.bytes = body.size();
  head.state = state;
  head.body = crc32c(body.data(), body.size());
  commit_step("journal body");
  write_range(file, body.data(), body.size(), sizeof head, path_);
  commit_step("journal body sync");
  sync_file(file, path_, "commit: cannot sync the journal");
  put_head(file, head, path_);
}

void Journal::mark(JournalHead::State state) {
  JournalHead head = this->head();
  const bool fresh = head.commits++ == 0;
  head.state = state;
  head.id = head.bytes = 0;
  head.body = 0;
  const Descriptor file(open_journal());
  put_head(file, head, path_);
  if (fresh) sync_name();
}

/// Made where it is not there.
int Journal::open_journal() const {
  if (::mkdirat(directory_, folder, 0777) != 0 && errno != EEXIST)
    throw StorageError("commit: cannot make the directory of", errno, path_);
  const int file = open_regular(directory_, name, O_RDWR | O_CREAT, path_);
  if (file < 0) throw StorageError("commit: cannot write the journal", errno, path_);
  return file;
}

/// A new file must be found after a power failure.
void Journal::sync_name() const {
  const std::string here = "/proc/self/fd/" + std::to_string(directory_);
  sync_directory(here + "/" + folder);
  sync_directory(here);
}

void Journal::commit(const JournalHead& before, std::uint64_t id, const CommitRecord& record) {
  write(before, id, JournalHead::State::committed, to_bytes(record));
}

void Journal::point(const JournalHead& before, std::uint64_t id, const std::string& to) {
  write(before, id, JournalHead::State::pointer, to);
}

void Journal::clear() {
  const Descriptor file(open_regular(directory_, name, O_RDWR, path_));
  if (file < 0) throw StorageError("commit: cannot write the journal", errno, path_);
  JournalHead head = head_in(file, path_);
  head.state = JournalHead::State::idle;
  head.bytes = 0;
  put_head(file, head, path_);
  if (::ftruncate(file, sizeof head) != 0) {
  }  // what follows an idle head counts for nothing
}

std::uint64_t new_transaction_id() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

std::string to_bytes(const CommitRecord& record) {
  Writer writer;
  writer.put(static_cast<std::uint64_t>(record.size()));
  for (const ArrayRecord& array : record) {
    writer.put_list(array.path);
    writer.put(static_cast<std::uint64_t>(array.shards.size()));
    for (const ShardRecord& shard : array.shards) {
      writer.put_list(shard.shard);
      writer.put(shard.file_bytes);
      writer.put(shard.epoch);
      writer.put_list(shard.entries);
      writer.put_list(shard.sums);
    }
  }
  return writer.text;
}

CommitRecord record_from(const std::string& bytes, const std::string& path) {
  Reader reader(bytes, path);
  const auto arrays = reader.get<std::uint64_t>();
  CommitRecord record;
  for (std::uint64_t a = 0; a < arrays; ++a) {
    ArrayRecord array;
    array.path = reader.get_list<std::string>();
    const auto shards = reader.get<std::uint64_t>();
    for (std::uint64_t s = 0; s < shards; ++s) {
      ShardRecord shard;
      shard.shard = reader.get_list<Shape>();
      shard.file_bytes = reader.get<std::uint64_t>();
      shard.epoch = reader.get<std::uint32_t>();
      shard.entries = reader.get_list<std::vector<ShardEntry>>();
      shard.sums = reader.get_list<std::vector<ChunkSum>>();
      array.shards.push_back(std::move(shard));
    }
    record.push_back(std::move(array));
  }
  if (!reader.done()) reader.refuse();
  return record;
}

std::optional<Committed> committed(const std::string& directory) {
  struct stat status;
  if (::stat(directory.c_str(), &status) != 0) return std::nullopt;
  return committed(std::make_shared<const Directory>(directory));
}

std::optional<Committed> committed(const std::shared_ptr<const Directory>& directory) {
  const Journal journal(*directory);
  const JournalHead head = journal.head();
  if (head.state == JournalHead::State::idle || head.state == JournalHead::State::writing) return std::nullopt;
  const std::string body = journal.body(head);
  if (body.empty()) return std::nullopt;
  if (head.state == JournalHead::State::committed)
    return Committed{record_from(body, directory->path()), head.id, directory};
  // It was committed if the journal that it points to says so, and still speaks of that transaction.
  std::shared_ptr<const Directory> holder = directory->at(body);
  if (!holder) return std::nullopt;
  const Journal other(*holder);
  const JournalHead first = other.head();
  if (first.state != JournalHead::State::committed || first.id != head.id) return std::nullopt;
  const std::string text = other.body(first);
  if (text.empty()) return std::nullopt;
  return Committed{record_from(text, holder->path()), first.id, std::move(holder)};
}

bool points_to(const Directory& directory, const Committed& found) {
  const Journal journal(directory);
  const JournalHead head = journal.head();
  if (head.state != JournalHead::State::pointer || head.id != found.id) return false;
  const auto holder = directory.at(journal.body(head));
  return holder && holder->same(*found.holder);
}

const ArrayRecord* part_for(const Committed& found, const std::string& directory) {
  std::error_code ignored;
  for (const ArrayRecord& array : found.record)
    if (fs::equivalent(found.holder->file(array.path), directory, ignored)) return &array;
  return nullptr;
}

}  // namespace flagstone
