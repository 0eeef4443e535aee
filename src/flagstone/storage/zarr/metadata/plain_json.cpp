#include "flagstone/storage/zarr/metadata/plain_json.hpp"

#include "flagstone/storage/zarr/metadata/json.hpp"

namespace flagstone {
namespace {

/// Null where there is none.
Json member(const std::string& object, const char* name) {
  try {
    const Json parsed = Json::parse(object);
    return parsed.contains(name) ? parsed[name] : Json();
  } catch (const JsonError&) {
    return {};
  }
}

}  // namespace

std::string json_text(const std::string& text) { return Json(text).dump_ascii(); }

std::string json_number(double value) { return Json(value).dump(); }

std::optional<std::string> json_text_member(const std::string& object, const char* name) {
  const Json found = member(object, name);
  return found.is_string() ? std::optional(found.get<std::string>()) : std::nullopt;
}

std::optional<std::uint64_t> json_count_member(const std::string& object, const char* name) {
  const Json found = member(object, name);
  return found.is_number_unsigned() ? std::optional(found.get<std::uint64_t>()) : std::nullopt;
}

}  // namespace flagstone
