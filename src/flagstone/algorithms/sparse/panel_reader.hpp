#pragma once
// What a panel's task reads, and how its body turns that into decoded rows, some at a time.
#include <functional>
#include <span>

#include "flagstone/algorithms/sparse/csr_ops.hpp"
#include "flagstone/kernel/sparse/csr.hpp"

namespace flagstone::sparse {

// The planner knows one rate for what is not bound by flops: copying. Seconds measured per value on one of two busy
// cores (README.md) are stated as the bytes that the same machine copies meanwhile.
inline constexpr double reference_bytes_per_second = 30e9;

/// Elements [first, last) of a one-dimensional array, spread over chunks (packed or not) or one plain range.
class RangeReader {
 public:
  RangeReader() = default;
  RangeReader(const ElementStream& stream, Index first, Index last);
  /// Appends the accesses; the tiles that come back for them are numbered from `tile`.
  void access(std::vector<Access>& accesses);
  /// Writes elements [from, to) as stored to `target`; `workspace`: kernel::decode_workspace bytes where packed.
  /// FormatError names the array and the damaged chunk.
  void fetch(std::span<const Tile> tiles, Index from, Index to, std::byte* target,
             std::span<std::byte> workspace) const;
  /// The last element up to which decoding from `from` on wastes nothing.
  Index step_end(Index from, Index last) const;
  Dtype dtype() const { return array_.dtype(); }
  std::size_t item() const { return size_of(array_.dtype()); }
  bool packed() const { return static_cast<bool>(encoded_); }

 private:
  struct Piece {
    Index first, last;  // elements it holds
    Index chunk;
  };
  void fetch_piece(const Piece& piece, const Tile& tile, Index from, Index to, std::byte* target,
                   std::span<std::byte> workspace) const;

  Array array_, encoded_;
  std::vector<std::byte> fill_;
  bool once_ = false;
  Index chunk_ = 1;
  DecodeSteps steps_;
  std::vector<Piece> pieces_;
  std::size_t first_tile_ = 0;
};

/// A panel of rows: pointers, columns and values.
class PanelReader {
 public:
  /// `real`: what values become: float32, float64, a complex one, or int64 where they are whole numbers and no step of
  /// a transform changes them. `whole`: all rows in one piece.
  PanelReader(const CsrOperand& a, const CsrPanelRange& panel, Dtype real, bool whole);
  /// Appends the accesses of data, indices and pointers; to be called once. ShapeError where values are complex and
  /// real ones were asked for.
  void access(std::vector<Access>& accesses);
  std::size_t scratch_bytes() const;
  /// Calls `use(first row among those seen in the panel, rows)` for stretches of whole rows, in order.
  void stream(std::span<const Tile> tiles, std::byte* scratch,
              const std::function<void(Index, const kernel::CsrRows&)>& use) const;
  /// Of the rows that are seen (all of the panel's, or those that are chosen): the first one's number among them, how
  /// many, and their stored values; where some are chosen, their share of the panel's.
  Index row() const { return row_; }
  Index rows() const { return rows_; }
  Index nnz() const { return nnz_; }
  Dtype real() const { return real_; }
  Dtype column_dtype() const { return column_; }
  /// Values of the panel's stretch of the matrix: no more stay.
  Index stored_values() const { return panel_.last - panel_.first; }
  /// How many stretches stream() makes at most.
  Index most_stretches() const;
  /// Of columns between two (CsrOperand::between), which share they are of all.
  double share_of_columns() const;
  /// For the planner: unpacked bytes that come from the codec, and seconds of copying and converting on one core.
  double decoded_bytes() const;
  double convert_seconds() const;

 private:
  struct Places {
    std::byte *values, *columns, *staging;
    std::span<std::byte> workspace;
    Index* pointers;       // of the panel's rows, in stored values
    Index *chosen, *ends;  // rows that are seen, counted from the panel's; their ends in values of theirs
    Index* kept;           // their ends in values that stay
  };
  std::size_t staging_bytes() const;
  std::size_t workspace_bytes() const;
  bool selects() const { return between_ || (transform_ && !transform_->place.empty()); }
  Index stored_rows() const { return panel_.row_end - panel_.row; }
  void load_pointers(std::span<const Tile> tiles, const Places& at) const;
  void choose_rows(const Places& at) const;
  template <class F>
  Index each_kept(const Places& at, Index from, Index to, Index next, F f) const;
  Index keep_rows(const Places& at, Index from, Index to, Index next, std::byte* data, std::size_t item) const;
  Index load_elements(std::span<const Tile> tiles, const Places& at, Index from, Index to, Index offset,
                      Index next) const;

  std::string path_;
  CsrPanelRange panel_;
  Index row_, rows_, nnz_;
  Index cols_, stored_cols_;
  std::shared_ptr<const RowChoice> chosen_;
  std::shared_ptr<const Transform> transform_;
  std::optional<ColumnRange> between_;
  Dtype real_, column_;
  Dtype loaded_;        // values as the steps of a transform take them
  std::size_t widest_;  // bytes of a value while they do
  bool whole_;
  Index capacity_;  // elements decoded at a time, the beginning of an unfinished row included
  Index step_;      // of them newly decoded
  RangeReader values_, columns_, pointers_;
};

}  // namespace flagstone::sparse
