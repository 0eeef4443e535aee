#pragma once
// Points that are rows of a sparse matrix: panels as stored, decoded a step at a time, batches of rows of each.
#include "flagstone/algorithms/cluster/source.hpp"
#include "flagstone/algorithms/cluster/sparse_rows.hpp"
#include "flagstone/algorithms/sparse/panel_reader.hpp"

namespace flagstone::cluster {

/// One panel in batches of rows. The tiles of a task begin with those of its reader.
struct SparsePanel {
  SparsePanel(const sparse::CsrOperand& a, Index panel);

  sparse::PanelReader reader;
  Index cols, k = 0;  // k: centres that its rows are multiplied with
  bool unit = false;
  Asked asked;

  Index width() const { return kernel::scores_width(std::max<Index>(k, 1)); }
  /// Of scratch memory.
  std::size_t bytes() const { return reader_bytes() + RowBatch::bytes(cols, width()); }
  /// Of the product of its rows with so many centres.
  Cost cost() const;
  /// use(first row in the panel, batch) for all rows, loaded. NumericalError where one holds NaN or Inf.
  template <class Use>
  void each(std::span<const Tile> tiles, std::byte* memory, Use&& use) const {
    RowBatch batch(memory + reader_bytes(), cols, width());
    reader.stream(tiles, memory, [&](Index row, const kernel::CsrRows& step) {
      check_lengths(row, step);
      for (Index at = 0; at < step.rows;) {
        const Index rows = batch.load(step, at, unit);
        if (batch.bad_row() >= 0) refuse(row + at, batch);
        use(row + at, batch);
        at += rows;
      }
    });
  }

 private:
  std::size_t reader_bytes() const;
  void check_lengths(Index row, const kernel::CsrRows& step) const;
  [[noreturn]] void refuse(Index row, const RowBatch& batch) const;
};

std::unique_ptr<Source> make_sparse_source(const PointsInput& x);

}  // namespace flagstone::cluster
