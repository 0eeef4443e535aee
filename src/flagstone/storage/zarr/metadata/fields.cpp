#include "flagstone/storage/zarr/metadata/fields.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/codec/decode.hpp"

namespace flagstone::metadata_json {

void refuse(const std::string& file, const std::string& what) { throw FormatError("open: " + file + ": " + what); }

Json member(const Json& object, const char* name, const std::string& file) {
  if (!object.is_object() || !object.contains(name))
    refuse(file, std::string("'") + name + "' is missing; it is not the metadata of a Zarr array.");
  return object[name];
}

std::string name_in(const Json& object, const char* name, const std::string& file) {
  const Json value = member(object, name, file);
  if (!value.is_string()) refuse(file, std::string("'") + name + "' must be a string.");
  return value.get<std::string>();
}

Shape extents_in(const Json& object, const char* name, Index least, const std::string& file) {
  const Json list = member(object, name, file);
  Shape shape;
  if (!list.is_array()) refuse(file, std::string("'") + name + "' must be a list of extents.");
  for (const Json& extent : list.elements()) {
    if (!extent.is_number_integer() || extent.get<Index>() < least ||
        (extent.is_number_unsigned() && extent.get<std::uint64_t>() > std::numeric_limits<Index>::max()))
      refuse(file, std::string("'") + name + "' must hold integers of at least " + std::to_string(least) + ".");
    shape.push_back(extent.get<Index>());
  }
  if (shape.size() > 64) refuse(file, std::string("'") + name + "' has more than 64 dimensions.");
  return shape;
}

void check_known(const Json& root, std::initializer_list<std::string_view> known, const std::string& file) {
  for (const std::string& name : root.names()) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const Json value = root[name.c_str()];
    const Json must = value.is_object() ? value.value("must_understand", Json()) : Json();
    if (!must.is_boolean() || must.get<bool>())
      refuse(file, "'" + name +
                       "' is not known here and does not say must_understand: false; open it with the program that "
                       "wrote it.");
  }
}

/// Bytes of an array of this shape; refuses what 63 bits cannot count.
void check_size(const Shape& shape, Dtype dtype, const char* what, const std::string& file) {
  Index bytes = static_cast<Index>(size_of(dtype));
  for (Index extent : shape)  // an empty dimension does not excuse the others: strides are products too
    if (__builtin_mul_overflow(bytes, extent == 0 ? 1 : extent, &bytes))
      refuse(file, std::string(what) + " of " + to_string(shape) + " elements is larger than 2^63 bytes.");
}

namespace {

template <class T>
void put(std::vector<std::byte>& to, std::size_t at, T value) {
  std::memcpy(to.data() + at, &value, sizeof value);
}

std::uint16_t to_half(double value) {  // enough for fill values: round to nearest, subnormals become zero
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return sign | 0x7E00;
  const double magnitude = std::fabs(value);
  if (magnitude >= 65520) return sign | 0x7C00;
  if (magnitude < 0x1p-14) return sign;
  int exponent = 0;
  const double fraction = std::frexp(magnitude, &exponent);  // in [0.5, 1)
  const auto mantissa = static_cast<int>(std::lrint((fraction * 2 - 1) * 1024));
  return static_cast<std::uint16_t>(sign | (((exponent + 14) << 10) + mantissa));
}

double real_value(const Json& value, const std::string& file) {
  if (value.is_number()) return value.get<double>();
  if (value.is_string()) {
    const auto text = value.get<std::string>();
    if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
    if (text == "Infinity") return std::numeric_limits<double>::infinity();
    if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
  }
  refuse(file, "fill_value " + value.dump() + " is no number of the array's type.");
}

void put_real(std::vector<std::byte>& to, std::size_t at, Dtype dtype, const Json& value, const std::string& file) {
  const std::size_t item = size_of(dtype);
  if (value.is_string() && value.get<std::string>().rfind("0x", 0) == 0) {  // the bits of a NaN
    const auto text = value.get<std::string>();
    std::uint64_t bits = 0;
    if (text.size() != 2 + 2 * item || text.find_first_not_of("0123456789abcdefABCDEF", 2) != std::string::npos)
      refuse(file, "fill_value " + value.dump() + " is no number of the array's type.");
    bits = std::stoull(text.substr(2), nullptr, 16);
    std::memcpy(to.data() + at, &bits, item);
    return;
  }
  const double number = real_value(value, file);
  if (item == 8) put(to, at, number);
  if (item == 4) put(to, at, static_cast<float>(number));
  if (item == 2) put(to, at, to_half(number));
}

/// An integer of the type's range, perhaps written as 3.0; the bits of one above 2^63.
std::int64_t whole_number(const Json& value, Dtype dtype, const std::string& file) {
  const int bits = dtype == Dtype::boolean ? 1 : 8 * static_cast<int>(size_of(dtype));
  const bool without_sign = dtype == Dtype::boolean || dtype >= Dtype::uint8;
  const double least = without_sign ? 0 : -std::ldexp(1.0, bits - 1);
  const double beyond = std::ldexp(1.0, without_sign ? bits : bits - 1);
  const double near = value.is_number() ? value.get<double>() : beyond;
  const bool exact = value.is_number_integer();  // near is rounded: 2^64 - 1 is beyond
  const bool inside = exact && bits == 64
                          ? (without_sign ? value.is_number_unsigned()
                                          : !value.is_number_unsigned() || value.get<std::uint64_t>() >> 63 == 0)
                          : near >= least && near < beyond && near == std::floor(near);
  if (!inside) refuse(file, "fill_value " + value.dump() + " is no number of the array's type.");
  if (exact) return value.get<std::int64_t>();
  return near < 0 ? static_cast<std::int64_t>(near) : static_cast<std::int64_t>(static_cast<std::uint64_t>(near));
}

}  // namespace

Json fill_of_times(const Json& value) {
  const bool nat = value.is_string() && value.get<std::string>() == "NaT";
  return nat ? Json(std::numeric_limits<std::int64_t>::min()) : value;
}

std::vector<std::byte> parse_fill(const Json& value, Dtype dtype, const std::string& file) {
  std::vector<std::byte> fill(size_of(dtype));
  if (value.is_null()) return fill;
  if (is_complex(dtype)) {
    if (!value.is_array() || value.size() != 2)
      refuse(file, "fill_value of a complex array must be [real, imaginary].");
    put_real(fill, 0, real_part_of(dtype), value[0], file);
    put_real(fill, fill.size() / 2, real_part_of(dtype), value[1], file);
  } else if (!is_integer(dtype)) {
    put_real(fill, 0, dtype, value, file);
  } else if (value.is_boolean()) {
    fill[0] = std::byte{value.get<bool>()};
  } else {
    const std::int64_t number = whole_number(value, dtype, file);
    std::memcpy(fill.data(), &number, fill.size());  // two's complement: the low bytes are right for all widths
  }
  return fill;
}

namespace {

Json real_json(const std::byte* at, Dtype dtype) {
  double number = 0;
  if (size_of(dtype) == 2) {  // as bits, which all readers take
    std::uint16_t bits = 0;
    std::memcpy(&bits, at, sizeof bits);
    char text[8];
    std::snprintf(text, sizeof text, "0x%04x", static_cast<unsigned>(bits));
    if (bits != 0) return text;
  } else if (size_of(dtype) == 4) {
    float narrow = 0;
    std::memcpy(&narrow, at, sizeof narrow);
    number = narrow;
  } else {
    std::memcpy(&number, at, sizeof number);
  }
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number > 0 ? "Infinity" : "-Infinity";
  return number;
}

}  // namespace

Json fill_json(const std::vector<std::byte>& fill, Dtype dtype) {
  if (fill.size() != size_of(dtype)) return fill_json(std::vector<std::byte>(size_of(dtype)), dtype);
  if (dtype == Dtype::boolean) return fill[0] != std::byte{};
  if (is_complex(dtype))
    return Json::array(
        {real_json(fill.data(), real_part_of(dtype)), real_json(fill.data() + fill.size() / 2, real_part_of(dtype))});
  if (!is_integer(dtype)) return real_json(fill.data(), dtype);
  std::uint64_t bits = 0;
  std::memcpy(&bits, fill.data(), fill.size());
  if (dtype >= Dtype::uint8) return bits;
  const int unused = 64 - 8 * static_cast<int>(fill.size());
  return static_cast<std::int64_t>(bits << unused) >> unused;
}

void add_step(CodecChain& chain, const CodecStep& step, const std::string& file) {
  if (const char* library = missing_library(step.codec))
    refuse(file, std::string("its chunks are packed with ") + std::string(name_of(step.codec)) +
                     ", and this build was made without " + library + "; install it and build again.");
  if (chain.steps.size() == 8) refuse(file, "more than eight codecs in a row are not read.");
  chain.steps.push_back(step);
}

ArrayMetadata parsed(const std::string& text, const std::string& file,
                     ArrayMetadata (*parse)(const Json&, const std::string&)) {
  try {
    return parse(Json::parse(text), file);
  } catch (const JsonError&) {
    refuse(file, text.empty() ? "the file is empty; the array was not written whole."
                              : "it is not valid Zarr metadata (JSON); the file is damaged.");
  } catch (const FormatError& error) {
    const std::string what = error.what();
    if (what.rfind("open: ", 0) == 0) throw;
    refuse(file, what);  // a dtype's complaint does not know the file
  }
}

}  // namespace flagstone::metadata_json
