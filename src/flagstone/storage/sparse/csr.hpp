#pragma once
// A CSR matrix as one Zarr group that anndata, binsparse and SciPy read (data, indices, indptr + links).
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "flagstone/storage/zarr/zarr.hpp"

namespace flagstone {

/// Rows [row, row_end) hold stored values [first, last): a stretch of a few million values, fixed when the matrix is
/// written (never a function of the memory limit, so that sums over panels keep their bits).
struct CsrPanelRange {
  Index row = 0, row_end = 0, first = 0, last = 0;
};

/// Attribute of a group of ours: CsrMatrix::value_dtype.
inline constexpr const char* value_dtype_key = "flagstone-value-dtype";

/// Of wider matrices nobody keeps a number a column: 2^40 columns of a million values must be written in fixed memory.
inline constexpr Index most_counted_columns = Index{1} << 20;

/// Collected at ingest, so that no pass is spent on them later.
struct CsrStatistics {
  double sum_row_nnz_squared = 0;       // flops/2 of a Gram matrix
  double sum_squares = 0;               // of all values' magnitudes
  Index bad_row = -1, bad_column = -1;  // first NaN or Inf, or -1
  std::vector<double> column_sums;      // n, or none of more than most_counted_columns; of complex values real parts
  std::vector<double> column_squares;   // as many
};

/// Statistics that were read, and what they and the arrays were then; copies of a matrix share it.
struct CsrLearned {
  std::mutex mutex;
  std::string stamp;
  std::optional<CsrStatistics> statistics;
};

struct CsrMatrix {
  Index rows = 0, cols = 0, nnz = 0;
  Array data, indices, indptr;  // 1-D; data and indices have the same chunk length; indptr int64
  std::string path;
  std::uint64_t stored_bytes = 0;  // what one pass over data + indices + indptr reads (chunks as stored)
  std::shared_ptr<CsrLearned> learned = {};
  bool triangle = false;       // elements on and below the diagonal are stored of a symmetric (Hermitian) matrix
  std::optional<Dtype> given;  // what the values are, where data holds small integers in fewer bytes

  Dtype value_dtype() const { return given.value_or(data.dtype()); }
};

bool is_csr_group(const std::string& directory);
/// Of a matrix in columns: AnnData's or binsparse's.
bool is_csc_group(const std::string& directory);
/// Opens ours and peers' (anndata-written) groups. FormatError names what does not fit.
CsrMatrix open_csr(const std::string& directory);
/// From arrays of any storage (a file of HDF5): rows, cols, the three arrays and path are given. FormatError as above.
CsrMatrix csr_of(CsrMatrix parts);
/// Ours: read from the group; a foreign group: computed by one streaming pass over indptr.
std::vector<CsrPanelRange> csr_panels(const CsrMatrix& matrix);
/// Ours: read from the group, once as long as its files stay what they are; absent (foreign) otherwise.
std::optional<CsrStatistics> csr_statistics(const CsrMatrix& matrix);

/// How a group lies on disk; every reader of ours takes all of them. `pattern`: all values are 1, and none is stored
/// (the fill value, which peers know too). `bitpacked`: indices as differences in few bits, which no peer reads.
/// `triangle`: of a symmetric or Hermitian matrix the elements on and below the diagonal.
struct CsrLayout {
  bool bitpacked = false, pattern = false, triangle = false;
};
/// Writes a CSR group from row blocks in fixed memory: chunks of 2^19 values, blosc lz4 + shuffle on all three
/// arrays (values and indices that shrink little stay raw), indices as narrow as `cols` allows. Rows are canonicalised
/// (sorted, duplicates summed).
class CsrWriter {
 public:
  /// `directory`: where the group is built (an Output's directory()). value dtype float32, float64, complex or integer.
  /// `narrow`: data is uint8 as long as all values are integers from 0 to 255, whatever value_dtype: counts unpack
  /// three times faster from a byte than from a float (0.44 against 1.28 ns, and half the space). Peers would see
  /// another dtype, so this is for scratch.
  CsrWriter(const std::string& directory, Index cols, Dtype value_dtype, bool narrow = false, CsrLayout layout = {});
  /// Goes on where a dead writer's state() was saved; the other arguments are those that it had. The same bits come
  /// out, however rows are cut into blocks.
  CsrWriter(const std::string& directory, Index cols, Dtype value_dtype, std::span<const std::byte> state,
            CsrLayout layout = {});
  ~CsrWriter();
  /// What one holds at most, beside sums and squares of the columns (16 bytes each, twice that while they grow; none of
  /// more than most_counted_columns).
  static std::uint64_t memory_bytes(Index cols, Dtype value_dtype);
  /// One block of rows: pointers (rows + 1, relative: pointers[0] == 0), column indices, values of value_dtype.
  /// FormatError names the global row when an index is out of range or pointers decrease.
  void append(Index rows, const Index* pointers, const Index* columns, const void* values);
  void append(Index rows, const Index* pointers, const std::int32_t* columns, const void* values);
  /// Makes what was appended durable and returns what a writer needs to go on from here: the chunks that are not full,
  /// the indexes of open shards, the sums: some 12 MiB and 16 bytes a counted column. Not of a narrow writer.
  std::vector<std::byte> state();
  Index rows() const;
  /// Writes tails, indptr, panels, statistics, metadata, links. `cols` < 0 at construction: taken as the maximum + 1.
  CsrMatrix finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flagstone
