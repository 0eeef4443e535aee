#include "flagstone/storage/zarr/metadata/plain_json.hpp"

#include <nlohmann/json.hpp>

namespace flagstone {
namespace {

using nlohmann::json;

/// Null where there is none.
json member(const std::string& object, const char* name) {
  const json parsed = json::parse(object, nullptr, false);
  return parsed.is_object() && parsed.contains(name) ? parsed[name] : json();
}

}  // namespace

std::string json_text(const std::string& text) {
  return json(text).dump(-1, ' ', true, json::error_handler_t::replace);
}

std::string json_number(double value) { return json(value).dump(); }

std::optional<std::string> json_text_member(const std::string& object, const char* name) {
  const json found = member(object, name);
  return found.is_string() ? std::optional(found.get<std::string>()) : std::nullopt;
}

std::optional<std::uint64_t> json_count_member(const std::string& object, const char* name) {
  const json found = member(object, name);
  return found.is_number_unsigned() ? std::optional(found.get<std::uint64_t>()) : std::nullopt;
}

}  // namespace flagstone
