#pragma once
// How a dense array is cut for streaming: panels of whole chunks along its longer side.
#include "flagstone/runtime/graph/graph.hpp"

namespace flagstone::spectral {

/// Which way panels are cut: along the longer side of X, or along its rows however many there are.
enum class Along : std::uint8_t { longer, rows };

/// X = array or its transpose. A function of shape, dtype and layout only, so that the bits do not depend on limits.
struct DensePanels {
  DensePanels(const Array& x, bool transpose, Along along = Along::longer);
  /// Extent of a panel of an array in memory, of lines of so many bytes.
  static Index step_in_memory(Index extent, std::uint64_t line);

  Array array;
  bool transpose;
  bool tall;  // panels of rows (of a matrix with at least as many rows as columns, G = XᵀX); else of columns,
              // G = XXᵀ
  Index side, extent;  // the shorter and the longer side of X; of panels along rows, columns and rows
  Index step;          // extent of a panel along the second

  Index rows() const { return tall ? extent : side; }
  Index cols() const { return tall ? side : extent; }
  Index count() const { return ceil_div(extent, step); }
  Index first(Index panel) const { return panel * step; }
  Index length(Index panel) const { return std::min(step, extent - first(panel)); }
  /// The panel in the array's own coordinates.
  Region region(Index panel) const;
  /// A tile of `region` seen as a part of X: rows x cols.
  Tile view(const Tile& tile) const;
  /// Length of the part of a panel that is converted at a time, so that it stays in a core's cache.
  Index piece(Dtype compute) const;
};

}  // namespace flagstone::spectral
