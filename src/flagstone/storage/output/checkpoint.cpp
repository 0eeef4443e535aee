#include "flagstone/storage/output/checkpoint.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <memory>

#include "flagstone/base/bytes.hpp"
#include "flagstone/storage/file/crc32c.hpp"
#include "flagstone/storage/file/descriptor.hpp"
#include "flagstone/storage/file/directory.hpp"
#include "flagstone/storage/file/file.hpp"
#include "flagstone/storage/file/sync.hpp"
#include "flagstone/storage/zarr/metadata/json.hpp"

namespace flagstone {
namespace {

constexpr double least_ratio = 100;  // run time ÷ time for checkpoints
constexpr std::size_t most_head = std::size_t{1} << 20, piece = std::size_t{1} << 20;
constexpr std::size_t crc_digits = 8;

std::string hex(std::uint32_t number) {
  char text[crc_digits + 1];
  std::snprintf(text, sizeof text, "%08x", number);
  return text;
}

void write_all(int file, std::span<const std::byte> bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw StorageError("checkpoint: cannot write", errno, path);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

/// Up to the end of the file.
std::size_t read_all(int file, std::byte* to, std::size_t bytes, std::size_t offset, const std::string& path) {
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t got = ::pread(file, to + done, bytes - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw StorageError("checkpoint: cannot read", errno, path);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

/// The first line of an open file, and more; empty where it has none.
std::string head_of(int file, const std::string& path) {
  std::string head(most_head, '\0');
  head.resize(read_all(file, reinterpret_cast<std::byte*>(head.data()), head.size(), 0, path));
  const std::size_t end = head.find('\n');
  head.resize(end == std::string::npos || end <= crc_digits + 1 || head[crc_digits] != ' ' ? 0 : end);
  return head;
}

}  // namespace

Checkpoint::Checkpoint(std::string directory, double every, std::function<void(int)> saved)
    : directory_(std::move(directory)), every_(every), saved_(std::move(saved)) {
  open();
}

void Checkpoint::throw_damaged(const std::string& what) const {
  throw FormatError("resume: " + path() + " is damaged (" + what + "); remove what was left with 'flagstone scratch " +
                    "--clear --all', or make the call again.");
}

void Checkpoint::open() {
  const Descriptor file(open_regular(path(), O_RDONLY));
  if (file < 0 && errno == ENOENT) return;
  if (file < 0) throw StorageError("checkpoint: cannot open", errno, path());
  const std::string head = head_of(file, path());
  if (head.empty()) throw_damaged("it has no head");
  const std::string text = head.substr(crc_digits + 1);
  if (head.substr(0, crc_digits) != hex(crc32c(text.data(), text.size()))) throw_damaged("its head");
  try {
    const Json about = Json::parse(text);
    done_ = about.at("done").get<double>();
    saves_ = about.at("saves").get<int>();
    std::size_t offset = head.size() + 1;
    for (const Json& one : about.at("parts").elements()) {
      entries_.push_back({one.at("name").get<std::string>(), one.at("bytes").get<std::uint64_t>(), offset,
                          one.at("crc").get<std::uint32_t>()});
      offset += entries_.back().bytes;
    }
  } catch (const JsonError& error) {
    throw_damaged(error.what());
  }
  verify(file);
}

void Checkpoint::verify(int file) const {
  const auto buffer = std::make_unique<std::byte[]>(piece);
  for (const Entry& entry : entries_) {
    std::uint32_t crc = 0;
    for (std::size_t at = 0; at < entry.bytes; at += piece) {
      const std::size_t wanted = std::min(piece, entry.bytes - at);
      if (read_all(file, buffer.get(), wanted, entry.offset + at, path()) != wanted) throw_damaged("it ends too early");
      crc = crc32c(buffer.get(), wanted, crc);
    }
    if (crc != entry.crc) throw_damaged("its part '" + entry.name + "'");
  }
}

bool Checkpoint::ready() const {
  const double since = std::chrono::duration<double>(Clock::now() - last_).count();
  return since >= every_ && (every_ == 0 || since >= least_ratio * cost_);
}

bool Checkpoint::due() {
  const bool now = ready();
  if (now) began_ = Clock::now();
  return now;
}

void Checkpoint::save(double done, const std::vector<Part>& parts) {
  const Json told = Json::array();
  for (const Part& one : parts)
    told.push_back(Json::object(
        {{"name", one.name}, {"bytes", one.bytes.size()}, {"crc", crc32c(one.bytes.data(), one.bytes.size())}}));
  const Json about = Json::object({{"done", done}, {"saves", saves_ + 1}, {"process", ::getpid()}, {"parts", told}});
  const std::string text = about.dump();
  const std::string head = hex(crc32c(text.data(), text.size())) + " " + text + "\n";
  const std::string fresh = path() + ".new";
  {
    const Descriptor file(open_regular(fresh, O_WRONLY | O_CREAT | O_TRUNC));
    if (file < 0) throw StorageError("checkpoint: cannot create", errno, fresh);
    write_all(file, std::as_bytes(std::span(head)), fresh);
    for (const Part& one : parts) write_all(file, one.bytes, fresh);
    sync_file(file, fresh, "checkpoint: cannot sync");
  }
  if (::rename(fresh.c_str(), path().c_str()) != 0) throw StorageError("checkpoint: cannot rename", errno, path());
  sync_directory(directory_);
  done_ = done;
  ++saves_;
  entries_.clear();
  std::size_t offset = head.size();
  for (const Part& one : parts) {
    entries_.push_back({one.name, one.bytes.size(), offset, 0});
    offset += one.bytes.size();
  }
  last_ = Clock::now();
  cost_ = std::chrono::duration<double>(last_ - began_).count();
  if (saved_) saved_(saves_);
}

const Checkpoint::Entry* Checkpoint::find(const std::string& name) const {
  const auto at = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& one) { return one.name == name; });
  return at == entries_.end() ? nullptr : &*at;
}

bool Checkpoint::has_state(const std::string& name) const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [&](const Entry& one) { return one.name == name || one.name.starts_with(name + "/"); });
}

std::size_t Checkpoint::bytes_of(const std::string& name) const {
  const Entry* entry = find(name);
  return entry ? entry->bytes : 0;
}

void Checkpoint::load(const std::string& name, void* to, std::size_t bytes) const {
  const Entry* entry = find(name);
  if (!entry || entry->bytes != bytes) throw_damaged("its part '" + name + "' does not fit");
  const Descriptor file(open_regular(path(), O_RDONLY));
  if (file < 0) throw StorageError("checkpoint: cannot open", errno, path());
  if (read_all(file, static_cast<std::byte*>(to), bytes, entry->offset, path()) != bytes)
    throw_damaged("it ends too early");
}

LastSave last_save(const std::string& directory) try {
  const std::string path = directory + "/state";
  const Descriptor file(open_regular(path, O_RDONLY));
  struct stat status;
  if (file < 0 || ::fstat(file, &status) != 0) return {};
  const std::string head = head_of(file, path);
  if (head.empty()) return {};
  const Json about = Json::parse(head.substr(crc_digits + 1));
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  const double then = static_cast<double>(status.st_mtim.tv_sec) + 1e-9 * static_cast<double>(status.st_mtim.tv_nsec);
  return {about.at("done").get<double>(), about.at("saves").get<int>(), about.at("process").get<int>(),
          std::max(0.0, now.count() - then)};
} catch (const std::exception&) {
  return {};
}

}  // namespace flagstone
