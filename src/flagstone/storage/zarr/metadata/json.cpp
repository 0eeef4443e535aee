#include "flagstone/storage/zarr/metadata/json.hpp"

#include <nlohmann/json.hpp>

namespace flagstone {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

/// What `f` returns; its complaints as ours.
template <class F>
auto told(F&& f) {
  try {
    return f();
  } catch (const json::exception& error) {
    throw JsonError(error.what());
  }
}

template <class T>
std::shared_ptr<json> made(T&& value) {
  return std::make_shared<json>(std::forward<T>(value));
}

class WholeNumbers : public json::json_sax_t {
 public:
  std::string beyond;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(json::number_integer_t) override { return true; }
  bool number_unsigned(json::number_unsigned_t) override { return true; }
  bool number_float(json::number_float_t, const std::string& digits) override {
    if (digits.find_first_of(".eE") != std::string::npos) return true;
    beyond = digits;
    return false;
  }
  bool string(std::string&) override { return true; }
  bool binary(json::binary_t&) override { return true; }
  bool start_object(std::size_t) override { return true; }
  bool key(std::string&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t, const std::string&, const json::exception&) override { return false; }
};

}  // namespace

Json::Json() : node_(made(nullptr)) {}
Json::Json(double value) : node_(made(value)) {}
Json::Json(std::string_view text) : node_(made(text)) {}
Json::Json(const std::vector<std::int64_t>& numbers) : node_(made(numbers)) {}
Json::Json(const std::vector<std::size_t>& numbers) : node_(made(numbers)) {}
Json::Json(const std::vector<std::string>& texts) : node_(made(texts)) {}
Json Json::of(bool value) { return Json(made(value)); }
Json Json::of(std::int64_t value) { return Json(made(value)); }
Json Json::of(std::uint64_t value) { return Json(made(value)); }

Json Json::object(std::initializer_list<Member> members) {
  Json made_of(made(json::object()));
  for (const Member& member : members) made_of.set(member.name, member.value);
  return made_of;
}

Json Json::array(std::initializer_list<Json> elements) {
  Json made_of(made(json::array()));
  for (const Json& element : elements) made_of.push_back(element);
  return made_of;
}

Json Json::parse(std::string_view text) {
  return Json(told([&] { return made(json::parse(text)); }));
}

bool Json::is_null() const { return node_->is_null(); }
bool Json::is_boolean() const { return node_->is_boolean(); }
bool Json::is_number() const { return node_->is_number(); }
bool Json::is_number_integer() const { return node_->is_number_integer(); }
bool Json::is_number_unsigned() const { return node_->is_number_unsigned(); }
bool Json::is_string() const { return node_->is_string(); }
bool Json::is_array() const { return node_->is_array(); }
bool Json::is_object() const { return node_->is_object(); }

template <class T>
T Json::get() const {
  return told([&] { return node_->get<T>(); });
}
template std::string Json::get() const;
template bool Json::get() const;
template int Json::get() const;
template std::int64_t Json::get() const;
template std::uint32_t Json::get() const;
template std::uint64_t Json::get() const;
template double Json::get() const;
template std::vector<std::string> Json::get() const;

Json Json::part(json& value) const { return Json(Node(node_, &value)); }

bool Json::empty() const { return node_->empty(); }
std::size_t Json::size() const { return node_->size(); }

std::vector<Json> Json::elements() const {
  std::vector<Json> all;
  for (json& element : *node_) all.push_back(part(element));
  return all;
}

Json Json::nth(std::size_t element) const {
  return told([&] { return part((*node_)[element]); });
}
bool Json::contains(const char* name) const { return node_->contains(name); }
std::vector<std::string> Json::names() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : node_->items()) names.push_back(name);
  return names;
}
Json Json::operator[](const char* name) const {
  return told([&] { return part((*node_)[name]); });
}
Json Json::at(const char* name) const {
  return told([&] { return part(node_->at(name)); });
}

void Json::set(const char* name, const Json& value) const {
  told([&] { (*node_)[name] = *value.node_; });
}
void Json::push_back(const Json& value) const {
  told([&] { node_->push_back(*value.node_); });
}
void Json::erase(const char* name) const {
  told([&] { node_->erase(name); });
}

std::string Json::dump(int indent) const {
  return told([&] { return node_->dump(indent); });
}
std::string Json::dump_ascii() const { return node_->dump(-1, ' ', true, json::error_handler_t::replace); }
bool operator==(const Json& a, const Json& b) { return *a.node_ == *b.node_; }

std::string with_member(const std::string& text, const char* name, const Json& value) {
  return told([&] {
    auto root = ordered_json::parse(text);
    root[name] = ordered_json::parse(value.dump());
    return root.dump(2) + "\n";
  });
}

std::string beyond_64_bits(std::string_view text) {
  WholeNumbers numbers;
  json::sax_parse(text, &numbers);
  return numbers.beyond;
}

}  // namespace flagstone
