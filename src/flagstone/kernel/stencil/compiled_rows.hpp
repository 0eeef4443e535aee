#pragma once
// Kernels that are machine code made at run time: a loop over one row.
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "flagstone/base/dtype.hpp"
#include "flagstone/kernel/stencil/plane_kernel.hpp"

namespace flagstone::kernel {

/// to[m][i] := value m that the loop makes of rows[k][i] and their neighbours in the row, for i < n. `to[m]` may be the
/// row of the step before; every row is dense.
using RowLoop = void (*)(std::int64_t n, void* const* to, const void* const* rows);

/// What rows[k] is: a field's row beside the point's, from offset[2] on; the step before; a coefficient.
struct LoopRow {
  enum class Kind : std::uint8_t { neighbour, before, coefficient } kind = Kind::neighbour;
  Axes offset{};
  std::size_t number = 0;  // of the field, of the coefficient
};

struct CompiledLoop {
  RowLoop run = nullptr;
  std::shared_ptr<const void> owner;  // of what the code lies in
  std::vector<LoopRow> rows;

  /// Of the coefficients that may have to be made dense.
  std::size_t scratch_bytes(Index item) const;
};

constexpr Index loop_piece = 4096;  // elements of a coefficient that are made dense at once

/// A coefficient's n <= loop_piece elements, `step` bytes apart (0: one for all), as loops take them: where they lie if
/// that is dense, else copied to the scratch of this number.
const std::byte* dense_row(const std::byte* from, Index step, Index n, Index item, std::size_t number,
                           std::byte* scratch);

/// Position-independent code, in pages that may be executed and no longer be written.
class MachineCode {
 public:
  MachineCode(std::span<const std::byte> code, std::size_t entry);
  ~MachineCode();
  MachineCode(const MachineCode&) = delete;
  MachineCode& operator=(const MachineCode&) = delete;
  RowLoop row() const;

 private:
  void* pages_ = nullptr;
  std::size_t bytes_ = 0, entry_ = 0;
};

std::unique_ptr<PlaneKernel> loop_kernel(Dtype dtype, CompiledLoop loop, const Axes& radius, double flops);

}  // namespace flagstone::kernel
