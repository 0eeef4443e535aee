#include "flagstone/storage/zarr/shard/shard_list.hpp"

#include <charconv>
#include <filesystem>
#include <optional>
#include <system_error>

#include "flagstone/base/error.hpp"

namespace flagstone {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> names_in(const std::string& path, const std::string& array,
                                  const std::function<void()>& pulse) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
    if (pulse) pulse();
    names.push_back(at->path().filename().string());
  }
  if (error && error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory)
    throw StorageError("storage: cannot list the shards", error.value(), array);
  return names;
}

/// The numbers of "c.3.14" or "3"; none where something else stands there.
std::optional<Shape> numbers_of(std::string_view name, bool prefixed, char separator) {
  Shape numbers;
  if (prefixed) {
    if (name.size() < 2 || name[0] != 'c' || name[1] != separator) return std::nullopt;
    name.remove_prefix(2);
  }
  for (const char *at = name.data(), *end = at + name.size();;) {
    Index number = 0;
    const auto [after, error] = std::from_chars(at, end, number);
    if (error != std::errc() || number < 0) return std::nullopt;
    numbers.push_back(number);
    if (after == end) return numbers;
    if (*after != separator) return std::nullopt;
    at = after + 1;
  }
}

class Walk {
 public:
  Walk(const Directory& place, const ArrayMetadata& about, const std::function<void()>& pulse, const ShardsSeen& seen)
      : place_(place), about_(about), pulse_(pulse), seen_(seen) {}

  /// A directory for each dimension but the last, whose names are files.
  void nested(const std::string& relative, const Shape& before) {
    const bool files = before.size() + 1 == about_.shape.size();
    std::vector<Shape> found;
    for (const std::string& name : names_in(place_.file(relative), place_.path(), pulse_)) {
      const auto number = numbers_of(name, false, '/');
      if (!number || name != std::to_string(number->front())) continue;
      Shape at = before;
      at.push_back(number->front());
      if (files)
        found.push_back(std::move(at));
      else
        nested(relative.empty() ? name : relative + "/" + name, at);
    }
    if (files) seen_(place_.file(relative), found);
  }

  /// All in one directory.
  void flat() {
    std::vector<Shape> found;
    for (const std::string& name : names_in(place_.self(), place_.path(), pulse_)) {
      auto at = numbers_of(name, about_.default_keys, about_.separator);
      if (at && at->size() == about_.shape.size() && name == about_.key(*at)) found.push_back(std::move(*at));
    }
    seen_(place_.self(), found);
  }

 private:
  const Directory& place_;
  const ArrayMetadata& about_;
  const std::function<void()>& pulse_;
  const ShardsSeen& seen_;
};

}  // namespace

void for_existing_shards(const Directory& place, const ArrayMetadata& about, const std::function<void()>& pulse,
                         const ShardsSeen& seen) {
  if (about.shape.empty()) return;
  Walk walk(place, about, pulse, seen);
  if (about.separator == '/')
    walk.nested(about.default_keys ? "c" : "", {});
  else
    walk.flat();
}

}  // namespace flagstone
