#pragma once
// JSON objects of a few texts and numbers, for rooms that have nothing else to do with JSON.
#include <cstdint>
#include <optional>
#include <string>

namespace flagstone {

/// A text or a number as JSON has it, in ASCII; bytes that are not UTF-8 are replaced.
std::string json_text(const std::string& text);
std::string json_number(double value);
/// A member of an object; nothing where the text is no object or has no such member of that kind.
std::optional<std::string> json_text_member(const std::string& object, const char* name);
std::optional<std::uint64_t> json_count_member(const std::string& object, const char* name);

}  // namespace flagstone
