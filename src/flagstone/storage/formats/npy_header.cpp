#include "flagstone/storage/formats/npy_header.hpp"

#include <cctype>
#include <limits>
#include <optional>
#include <string_view>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/file/file.hpp"

namespace flagstone {
namespace {

constexpr std::uint64_t largest_header = MiB;

[[noreturn]] void refuse(const File& file, const std::string& what) {
  throw FormatError("open: " + file.path() + ": " + what);
}

/// Reads the one Python literal that a header is: a dictionary of strings, booleans and a tuple of integers.
class Literal {
 public:
  explicit Literal(std::string_view text) : text_(text) {}

  bool take(char c) {
    while (!text_.empty() && std::isspace(static_cast<unsigned char>(text_.front()))) text_.remove_prefix(1);
    if (text_.empty() || text_.front() != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  std::optional<std::string> string() {
    const char quote = take('\'') ? '\'' : take('"') ? '"' : '\0';
    if (!quote) return std::nullopt;
    const auto end = text_.find(quote);
    if (end == std::string_view::npos) return std::nullopt;
    std::string value(text_.substr(0, end));
    text_.remove_prefix(end + 1);
    return value;
  }
  std::optional<bool> boolean() {
    take(' ');
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(0, word.size()) != word) continue;
      text_.remove_prefix(word.size());
      return value;
    }
    return std::nullopt;
  }
  std::optional<Index> integer() {
    take(' ');
    Index value = 0;
    std::size_t digits = 0;
    for (; digits < text_.size() && std::isdigit(static_cast<unsigned char>(text_[digits])); ++digits)
      if (__builtin_mul_overflow(value, Index{10}, &value) ||
          __builtin_add_overflow(value, text_[digits] - '0', &value))
        return std::nullopt;
    if (digits == 0) return std::nullopt;
    text_.remove_prefix(digits);
    take('L');  // Python 2 wrote long integers so
    return value;
  }
  std::optional<Shape> tuple() {
    if (!take('(')) return std::nullopt;
    Shape shape;
    while (!take(')')) {
      const auto extent = integer();
      if (!extent || shape.size() >= 64) return std::nullopt;
      shape.push_back(*extent);
      if (take(',')) continue;
      if (!take(')')) return std::nullopt;
      break;
    }
    return shape;
  }

 private:
  std::string_view text_;
};

std::optional<Dtype> dtype_of(const std::string& description) {
  if (description.size() < 3) return std::nullopt;
  const std::string code = description.substr(1);
  const std::pair<const char*, Dtype> known[] = {
      {"b1", Dtype::boolean},   {"i1", Dtype::int8},       {"i2", Dtype::int16},   {"i4", Dtype::int32},
      {"i8", Dtype::int64},     {"u1", Dtype::uint8},      {"u2", Dtype::uint16},  {"u4", Dtype::uint32},
      {"u8", Dtype::uint64},    {"f2", Dtype::float16},    {"f4", Dtype::float32}, {"f8", Dtype::float64},
      {"c8", Dtype::complex64}, {"c16", Dtype::complex128}};
  for (const auto& [name, dtype] : known)
    if (code == name) return dtype;
  return std::nullopt;
}

void parse_literal(const File& file, std::string_view text, NpyHeader& header) {
  const auto damaged = [&] { refuse(file, "its header is not what NumPy writes; the file is damaged or no .npy."); };
  Literal literal(text);
  std::optional<std::string> description;
  std::optional<bool> fortran;
  std::optional<Shape> shape;
  if (!literal.take('{')) damaged();
  while (!literal.take('}')) {
    const auto key = literal.string();
    if (!key || !literal.take(':')) damaged();
    if (*key == "descr") {
      description = literal.string();
      if (!description) refuse(file, "structured types are not supported; save one plain number type.");
    } else if (*key == "fortran_order") {
      fortran = literal.boolean();
    } else if (*key == "shape") {
      shape = literal.tuple();
    } else {
      damaged();
    }
    if (!literal.take(',') && !literal.take('}')) damaged();
    if (description && fortran && shape) break;
  }
  if (!description || !fortran || !shape) damaged();
  const auto dtype = dtype_of(*description);
  if (!dtype || std::string("<>|=").find(description->front()) == std::string::npos)
    refuse(file, "its element type '" + *description + "' is not supported; use bool, integers, floats or complex.");
  header.dtype = *dtype;
  header.big_endian = description->front() == '>' && size_of(*dtype) > 1;
  header.fortran_order = *fortran;
  header.shape = *shape;
}

}  // namespace

NpyHeader read_npy_header(const File& file) {
  const std::uint64_t size = file.size();
  unsigned char start[12] = {};
  if (size < 10) refuse(file, size == 0 ? "the file is empty; it is no .npy." : "it is too short for a .npy file.");
  read_exactly(file, start, size < 12 ? 10 : 12, 0);
  if (std::string_view(reinterpret_cast<char*>(start), 6) != std::string_view("\x93NUMPY", 6))
    refuse(file, "it does not begin as a .npy file does; save it with numpy.save.");
  if (start[6] < 1 || start[6] > 3) refuse(file, "version " + std::to_string(start[6]) + " of .npy is unknown.");
  const std::uint64_t before = start[6] == 1 ? 10 : 12;
  std::uint64_t length = start[8] | start[9] << 8;
  if (before == 12) length |= static_cast<std::uint64_t>(start[10]) << 16 | static_cast<std::uint64_t>(start[11]) << 24;
  if (length > largest_header || before + length > size)
    refuse(file, "its header of " + std::to_string(length) + " bytes does not fit the file of " + std::to_string(size) +
                     "; the file is damaged or truncated.");
  std::string text(length, '\0');
  read_exactly(file, text.data(), text.size(), before);
  NpyHeader header;
  header.data_offset = before + length;
  parse_literal(file, text, header);
  Index bytes = static_cast<Index>(size_of(header.dtype));
  for (Index extent : header.shape)
    if (__builtin_mul_overflow(bytes, extent == 0 ? 1 : extent, &bytes))
      refuse(file, "an array of " + to_string(header.shape) + " elements is larger than 2^63 bytes.");
  const std::uint64_t data = static_cast<std::uint64_t>(count(header.shape)) * size_of(header.dtype);
  if (data > size - header.data_offset)
    refuse(file, "truncated: the header says " + std::to_string(data) + " bytes of data, the file has " +
                     std::to_string(size - header.data_offset) + "; write or copy it again.");
  return header;
}

std::string make_npy_header(const Shape& shape, Dtype dtype) {
  const char* codes[] = {"|b1", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2",
                         "<u4", "<u8", "<f2", "<f4", "<f8", "<c8", "<c16"};
  std::string extents;
  for (Index extent : shape) extents += std::to_string(extent) + ", ";
  if (shape.size() > 1) extents.resize(extents.size() - 2);
  if (shape.size() == 1) extents.resize(extents.size() - 1);
  const std::string literal = "{'descr': '" + std::string(codes[static_cast<std::size_t>(dtype)]) +
                              "', 'fortran_order': False, 'shape': (" + extents + "), }";
  const std::size_t length = page_bytes - 10;
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(length & 0xFF);
  header += static_cast<char>(length >> 8);
  header += literal;
  header.resize(page_bytes - 1, ' ');
  return header + '\n';
}

}  // namespace flagstone
