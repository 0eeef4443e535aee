#pragma once
// One panel of one product, as the value of a call.
#include <cstddef>
#include <optional>

#include "flagstone/algorithms/kernels/sparse.hpp"
#include "flagstone/algorithms/sparse/panel_reader.hpp"

namespace flagstone::sparse {

/// The value of a call that a panel's kernels make on the host.
struct PanelWork : CallValue {
  virtual void run(const Call& call, std::span<const Tile> tiles) const = 0;
};

/// What one panel has to do with vectors; what is not part of it is an empty access. T = A X or given, Z += Aᵀ T.
/// Accesses say what becomes of their regions (last, again), which hold this panel's rows of T, all of X and Z.
struct PanelProduct {
  const char* name;
  Access x;      // n x b, read
  Access given;  // rows x b, read: T comes from here instead of A X
  Access kept;   // rows x b, or more rows: T goes here
  Access sum;    // n x b float64 (complex128), reduced or updated: Z, += Aᵀ given, or Aᴴ T of a T that is made here
  std::optional<Array> shift;  // 1 x n float64
  Access moments;              // 2 x n float64, reduced: sums of the columns and of their squares, of the same read
  bool symmetric = false;      // of a stored triangle, x and sum alone: Z += (A_i + what of A mirrors it) X
  bool ordered = false;        // T has one order of sums (csr_multiply_ordered); kept is updated: T goes on from it

  const Region& in() const { return (x.region.array ? x : given).region; }
  Dtype real() const { return in().array.dtype(); }
  Index width() const { return in().box.shape[1]; }
};

/// Adds its task, which decodes the panel step by step beside the arithmetic. In a run with devices they are two: the
/// host unpacks the panel into tiles of its own (unpacked_bytes), the product runs where its result is placed. Bits are
/// the same, since the stretches are.
void add_panel(Graph& graph, const CsrOperand& a, const CsrPanelRange& panel, PanelProduct product);

/// Bytes of the tiles that hold an unpacked panel.
std::size_t unpacked_bytes(const PanelReader& reader);

}  // namespace flagstone::sparse
