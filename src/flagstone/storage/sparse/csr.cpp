#include "flagstone/storage/sparse/csr.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/storage/array/requests.hpp"
#include "flagstone/storage/file/build_name.hpp"
#include "flagstone/storage/file/text_file.hpp"
#include "flagstone/storage/sparse/panels.hpp"
#include "flagstone/storage/zarr/metadata/checksum.hpp"
#include "flagstone/storage/zarr/metadata/group.hpp"
#include "flagstone/storage/zarr/metadata/json.hpp"
#include "flagstone/storage/zarr/store/zarr_store.hpp"

namespace flagstone {
namespace {

Json attributes_of(const std::string& directory) {
  return Json::parse(open_group(directory).attributes);  // open_group has parsed it once already
}

/// The binsparse descriptor, wherever its writer put it.
Json descriptor_of(const Json& attributes) {
  if (!attributes.is_object() || !attributes.contains("binsparse")) return Json::object();
  const Json outer = attributes["binsparse"];
  return outer.is_object() && outer.contains("binsparse") ? outer["binsparse"] : outer;
}

std::string text_in(const Json& object, const char* name) {
  return object.is_object() && object.contains(name) && object[name].is_string() ? object[name].get<std::string>()
                                                                                 : std::string();
}

bool says(const Json& attributes, const std::string& kind, const char* format) {
  return text_in(attributes, "encoding-type") == kind + "_matrix" ||
         text_in(descriptor_of(attributes), "format") == format;
}
bool says_csr(const Json& attributes) { return says(attributes, "csr", "CSR"); }

void shape_of(const std::string& directory, const Json& attributes, CsrMatrix& matrix) {
  const Json descriptor = descriptor_of(attributes);
  const Json& owner = attributes.contains("shape") ? attributes : descriptor;
  const Json shape = owner.is_object() && owner.contains("shape") ? owner["shape"] : Json();
  if (!shape.is_array() || shape.size() != 2 || !shape[0].is_number_unsigned() || !shape[1].is_number_unsigned() ||
      shape[0].get<std::uint64_t>() >> 62 != 0 || shape[1].get<std::uint64_t>() >> 62 != 0)
    throw FormatError("open: " + directory + ": the attribute 'shape' must be two extents; the group is damaged.");
  matrix.rows = shape[0].get<Index>();
  matrix.cols = shape[1].get<Index>();
}

Array member(const std::string& directory, const char* name, const char* other) {
  return open_zarr_array(directory + "/" + (is_zarr_array(directory + "/" + name) ? name : other));
}

/// What one pass reads: whole pages of every stored chunk (of a pattern's values none); flat files have as many bytes
/// as elements.
std::uint64_t pass_bytes(const Array& array) {
  const std::uint64_t stored = array.store().pass_bytes();
  const bool chunks = dynamic_cast<const ZarrStore*>(&array.store()) != nullptr;
  return chunks || stored > 0 ? stored : align_up(array.nbytes());
}

/// Pointers of 8 bytes, by rows or by columns, fill the 47 bits of address that a process has.
constexpr Index most_extent = Index{1} << 44;

void check(const std::string& directory, const CsrMatrix& matrix) {
  const auto refuse = [&](const std::string& what) {
    throw FormatError("open: " + directory + ": " + what + "; the group is damaged or no CSR matrix.");
  };
  const std::string shape = "its shape is " + to_string(Shape{matrix.rows, matrix.cols});
  if (matrix.rows < 0 || matrix.cols < 0) refuse(shape + ", and extents must not be negative");
  if (std::max(matrix.rows, matrix.cols) >= most_extent)
    refuse(shape + ", and no memory holds pointers of so many rows or columns");
  if (matrix.data.ndim() != 1 || matrix.indices.ndim() != 1 || matrix.indptr.ndim() != 1)
    refuse("data, indices and indptr must be one-dimensional");
  if (matrix.data.shape() != matrix.indices.shape())
    refuse("data has " + to_string(matrix.data.shape()) + " values and indices " + to_string(matrix.indices.shape()));
  if (matrix.indptr.shape()[0] != matrix.rows + 1)
    refuse("indptr has " + to_string(matrix.indptr.shape()) + " entries and " + std::to_string(matrix.rows) +
           " rows need one more");
  if (!is_integer(matrix.indices.dtype()) || !is_integer(matrix.indptr.dtype()))
    refuse("indices and indptr must be integers");
  if (matrix.triangle && matrix.rows != matrix.cols) refuse(shape + ", and one triangle is stored of a square one");
  const Index first = read_integers(matrix.indptr, 0, 1)[0];
  if (first != 0) refuse("indptr begins at " + std::to_string(first) + ", 0 is needed");
  const Index last = read_integers(matrix.indptr, matrix.rows, 1)[0];
  if (last != matrix.nnz)
    refuse("indptr ends at " + std::to_string(last) + " and there are " + std::to_string(matrix.nnz) + " values");
}

/// A chunk of zeros is absent, and the checksums know that: one that is absent without them was lost.
void check_all_there(const Array& array) {
  const auto* store = dynamic_cast<const ZarrStore*>(&array.store());
  if (store == nullptr) return;
  for (const Shape& chunk : store->layout().touched(whole(array.shape())))
    if (store->locate(chunk).bytes == 0 && !store->absent_for_good(chunk))
      throw FormatError("open: " + array.path() + ": the stored chunk " + to_string(chunk) +
                        " is missing; the group is damaged, copy it again.");
}

}  // namespace

std::vector<Index> read_integers(const Array& array, Index first, Index n) {
  if (n == 0) return {};
  const Transfer transfer = array.store().read({{first}, {n}});
  const Buffer buffer(transfer.buffer_bytes), staging(transfer.staging_bytes);
  std::byte* base = transfer.staging_bytes ? staging.data() : buffer.data();
  const auto requests = requests_of(transfer, base, false, 0);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const Request& request = requests[i];  // one row: these arrays are one-dimensional
    std::int64_t moved = 0;
    for (const auto bytes = static_cast<std::int64_t>(request.bytes()); moved < bytes;) {
      const ssize_t got = ::pread(request.fd, request.memory + moved, static_cast<std::size_t>(bytes - moved),
                                  static_cast<off_t>(request.offset) + moved);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) {
        moved = got < 0 ? -errno : moved;
        break;
      }
      moved += got;
    }
    check_completion(transfer, i, {request.tag, moved}, false);
  }
  transfer.finish(buffer.data(), staging.data());
  const std::size_t item = size_of(array.dtype());
  const bool is_signed = array.dtype() >= Dtype::int8 && array.dtype() <= Dtype::int64;
  std::vector<Index> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::byte* at = buffer.data() + transfer.origin + static_cast<Index>(i) * transfer.strides[0];
    std::memcpy(&values[i], at, item);  // little-endian; then the sign
    const int unused = 64 - 8 * static_cast<int>(item);
    if (is_signed && unused > 0)
      values[i] = static_cast<Index>(static_cast<std::uint64_t>(values[i]) << unused) >> unused;
  }
  return values;
}

bool is_csr_group(const std::string& directory) {
  try {
    return says_csr(attributes_of(directory));
  } catch (const std::exception&) {
    return false;
  }
}

bool is_csc_group(const std::string& directory) {
  try {
    return says(attributes_of(directory), "csc", "CSC");
  } catch (const std::exception&) {
    return false;
  }
}

CsrMatrix open_csr(const std::string& directory) {
  const Json attributes = attributes_of(directory);
  if (!says_csr(attributes)) {
    const std::string kind = text_in(attributes, "encoding-type");
    throw FormatError("open: " + directory + ": a CSR matrix is needed, the group says '" +
                      (kind.empty() ? "nothing" : kind) + "'; convert it with X.tocsr().");
  }
  CsrMatrix matrix;
  matrix.path = directory;
  shape_of(directory, attributes, matrix);
  matrix.data = member(directory, "data", "values");
  matrix.indices = member(directory, "indices", "indices_1");
  matrix.indptr = member(directory, "indptr", "pointers_to_1");
  if (const std::string file = directory + "/zarr.json"; ::access(file.c_str(), F_OK) == 0)
    check_metadata(file, read_text(file), group_stamp(matrix.data.path()));
  const std::string structure = text_in(descriptor_of(attributes), "structure");
  matrix.triangle = structure == "symmetric_lower" || structure == "hermitian_lower";
  if (!matrix.triangle && !structure.empty() && structure != "general")
    throw FormatError("open: " + directory + ": the structure '" + structure +
                      "' is not read; symmetric_lower, hermitian_lower or all elements are.");
  const std::string values = text_in(attributes, value_dtype_key);
  if (!values.empty()) {
    matrix.given = dtype_from_name(values);
    for (const Array* part : {&matrix.data, &matrix.indices, &matrix.indptr}) check_all_there(*part);
  }
  return csr_of(std::move(matrix));
}

CsrMatrix csr_of(CsrMatrix matrix) {
  matrix.path = from_root(matrix.path);
  matrix.nnz = matrix.data.shape().empty() ? 0 : matrix.data.shape()[0];
  matrix.learned = std::make_shared<CsrLearned>();
  check(matrix.path, matrix);
  matrix.stored_bytes = pass_bytes(matrix.data) + pass_bytes(matrix.indices) + pass_bytes(matrix.indptr);
  return matrix;
}

namespace {

/// Calls f(row, its first value, the next row's first value); one pass over indptr in steps of a chunk.
template <class F>
void for_each_row(const CsrMatrix& matrix, F&& f) {
  const Index step = std::clamp<Index>(matrix.indptr.chunks()[0], Index{1} << 16, Index{1} << 19);
  for (Index row = 0; row < matrix.rows; row += step) {
    const Index n = std::min(step, matrix.rows - row);
    const std::vector<Index> pointers = read_integers(matrix.indptr, row, n + 1);
    for (Index i = 0; i < n; ++i) {
      const Index first = pointers[static_cast<std::size_t>(i)], last = pointers[static_cast<std::size_t>(i) + 1];
      if (first > last || first < 0 || last > matrix.nnz)
        throw FormatError("open: " + matrix.path + ": the row pointers decrease at row " + std::to_string(row + i) +
                          "; the group is damaged.");
      f(row + i, first, last);
    }
  }
}

}  // namespace

std::vector<CsrPanelRange> panels_of(const CsrMatrix& matrix, Index rows) {
  std::vector<CsrPanelRange> panels;
  for_each_row(matrix, [&](Index row, Index first, Index last) {
    if (row % rows == 0) panels.push_back({row, row, first, first});
    panels.back().row_end = row + 1;
    panels.back().last = last;
  });
  return panels;
}

std::vector<CsrPanelRange> csr_panels(const CsrMatrix& matrix) {
  if (auto known = load_panels(matrix)) return *known;
  PanelChooser chooser;
  for_each_row(matrix, [&](Index, Index first, Index last) { chooser.add(last - first); });
  return panels_of(matrix, chooser.panel_rows());
}

std::optional<CsrStatistics> csr_statistics(const CsrMatrix& matrix) {
  if (!matrix.learned) return load_statistics(matrix);
  const std::string stamp = statistics_stamp(matrix);
  const std::lock_guard lock(matrix.learned->mutex);
  if (matrix.learned->stamp != stamp) {
    matrix.learned->statistics = load_statistics(matrix);
    matrix.learned->stamp = stamp;
  }
  return matrix.learned->statistics;
}

}  // namespace flagstone
