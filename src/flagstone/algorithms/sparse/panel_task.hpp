#pragma once
// One panel of one product, as the value of a call.
#include <optional>

#include "flagstone/algorithms/sparse/panel_reader.hpp"

namespace flagstone::sparse {

/// What one panel has to do with vectors; what is not part of it is an empty access. T = A X or given, Z += Aᵀ T.
/// Accesses say what becomes of their regions (last, again), which hold this panel's rows of T, all of X and Z.
struct PanelProduct {
  const char* name;
  Access x;      // n x b, read
  Access given;  // rows x b, read: T comes from here instead of A X
  Access kept;   // rows x b, or more rows: T goes here
  Access sum;    // n x b float64 (complex128), reduced: Z, += Aᵀ given, or Aᴴ T of a T that is made here
  std::optional<Array> shift;  // 1 x n float64
  Access moments;              // 2 x n float64, reduced: sums of the columns and of their squares, of the same read
  bool symmetric = false;      // of a stored triangle, x and sum alone: Z += (A_i + what of A mirrors it) X
  bool ordered = false;        // T has one order of sums (csr_multiply_ordered); kept is updated: T goes on from it

  const Region& in() const { return (x.region.array ? x : given).region; }
  Dtype real() const { return in().array.dtype(); }
  Index width() const { return in().box.shape[1]; }
};

class PanelTask final : public CallValue {
 public:
  PanelTask(const CsrOperand& a, const CsrPanelRange& panel, PanelProduct product);
  TaskSpec spec(std::shared_ptr<PanelTask> self);
  const PanelReader& reader() const { return reader_; }
  void run(std::span<const Tile> tiles) const;

 private:
  /// Where the parts of a task's scratch memory begin.
  struct Parts {
    std::size_t x, rows, partial, shift, sums, reader, bytes;
  };
  Kernel kernel() const;
  void run_symmetric(std::span<const Tile> tiles, const Parts& at) const;
  Tile load_x(std::span<const Tile> tiles, std::byte* memory) const;
  Tile load_rows(std::span<const Tile> tiles, std::byte* memory) const;
  Tile kept_rows(std::span<const Tile> tiles) const;
  Tile start_sum(std::span<const Tile> tiles, std::byte* memory) const;
  Parts parts() const;
  Cost cost() const;

  bool has_x() const { return static_cast<bool>(product_.x.region.array); }
  bool is_given() const { return static_cast<bool>(product_.given.region.array); }
  bool keeps() const { return static_cast<bool>(product_.kept.region.array); }
  bool has_sum() const { return static_cast<bool>(product_.sum.region.array); }
  bool accumulates() const { return product_.ordered && product_.kept.mode == Mode::update; }
  bool padded() const { return padded_ != width_; }
  bool keeps_rows() const { return keeps() || is_given(); }
  /// T stands in scratch where the tile that it comes from or goes to is not as the kernels need it.
  bool rows_aside() const;
  /// Sums in single precision stay inside one panel; others may go straight into the reduction's private tile.
  bool sums_aside() const { return has_sum() && (padded() || real_part_of(real_) == Dtype::float32); }

  PanelProduct product_;
  PanelReader reader_;
  Dtype real_;
  Index n_, width_;
  Index padded_;  // columns that the kernels see
  int x_ = -1, given_ = -1, kept_ = -1, sum_ = -1, shift_ = -1, moments_ = -1, scratch_ = -1;
};

}  // namespace flagstone::sparse
