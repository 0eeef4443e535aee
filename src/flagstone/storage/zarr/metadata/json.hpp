#pragma once
// JSON as values. Behind them is nlohmann/json, which costs a source that sees it six seconds of compiling: json.cpp
// does.
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace flagstone {

/// A text is no JSON, or a value not of the kind that was asked for.
struct JsonError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A value of JSON: a cheap handle, also of a member or an element, which keeps the whole alive; a change of the whole
/// ends the handles of its parts. Members are sorted by name. What is asked of a value of another kind throws
/// JsonError.
class Json {
 public:
  struct Member;

  Json();  // null
  template <std::integral T>
  Json(T value) : Json(of(value)) {}
  Json(double value);
  Json(std::string_view text);
  Json(const char* text) : Json(std::string_view(text)) {}
  Json(const std::string& text) : Json(std::string_view(text)) {}
  Json(const std::vector<std::int64_t>& numbers);
  Json(const std::vector<std::size_t>& numbers);
  Json(const std::vector<std::string>& texts);
  static Json object(std::initializer_list<Member> members = {});
  static Json array(std::initializer_list<Json> elements = {});
  static Json parse(std::string_view text);

  bool is_null() const;
  bool is_boolean() const;
  bool is_number() const;
  bool is_number_integer() const;   // written without a fraction
  bool is_number_unsigned() const;  // as parsed: and not below zero
  bool is_string() const;
  bool is_array() const;
  bool is_object() const;
  /// Of std::string, bool, int, std::int64_t, std::uint32_t, std::uint64_t, double, std::vector<std::string>.
  template <class T>
  T get() const;

  /// No elements, no members, or null.
  bool empty() const;
  std::size_t size() const;
  std::vector<Json> elements() const;
  template <std::integral T>
  Json operator[](T element) const {
    return nth(static_cast<std::size_t>(element));
  }
  bool contains(const char* name) const;
  std::vector<std::string> names() const;  // of the members
  /// The member of that name; null, and added, where there is none.
  Json operator[](const char* name) const;
  /// JsonError where there is none.
  Json at(const char* name) const;
  template <class T>
  T value(const char* name, T otherwise) const {
    return contains(name) ? (*this)[name].get<T>() : otherwise;
  }
  Json value(const char* name, Json otherwise) const { return contains(name) ? (*this)[name] : otherwise; }

  void set(const char* name, const Json& value) const;
  void push_back(const Json& value) const;
  void erase(const char* name) const;

  /// `indent` below 0: in one line.
  std::string dump(int indent = -1) const;
  /// In one line, in ASCII; bytes that are not UTF-8 are replaced.
  std::string dump_ascii() const;
  friend bool operator==(const Json& a, const Json& b);

 private:
  using Node = std::shared_ptr<nlohmann::json>;
  explicit Json(Node node) : node_(std::move(node)) {}
  Json part(nlohmann::json& value) const;
  Json nth(std::size_t element) const;
  static Json of(bool value);
  static Json of(std::int64_t value);
  static Json of(std::uint64_t value);
  template <std::integral T>
  static Json of(T value) {
    if constexpr (std::signed_integral<T>) return of(static_cast<std::int64_t>(value));
    return of(static_cast<std::uint64_t>(value));
  }

  Node node_;
};

struct Json::Member {
  const char* name;
  Json value;
};

/// The text of an object with one member given anew (or behind the others), which keep their order; with line breaks.
std::string with_member(const std::string& text, const char* name, const Json& value);
/// The first whole number in a text that 64 bits do not hold, as it stands there; empty: none. Such a number would
/// silently become a fraction.
std::string beyond_64_bits(std::string_view text);

}  // namespace flagstone
