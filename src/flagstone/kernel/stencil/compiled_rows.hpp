#pragma once
// Kernels that are machine code made at run time: a loop over one row.
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "flagstone/base/dtype.hpp"
#include "flagstone/kernel/stencil/plane_kernel.hpp"

namespace flagstone::kernel {

/// to[i] := what the loop makes of rows[k][i] and their neighbours in the row, for i < n. `to` may be the row of the
/// step before; every row is dense.
using RowLoop = void (*)(std::int64_t n, void* to, const void* const* rows);

/// What rows[k] is: the field's row beside the point's, from offset[2] on; the step before; a coefficient.
struct LoopRow {
  enum class Kind : std::uint8_t { neighbour, before, coefficient } kind = Kind::neighbour;
  Axes offset{};
  std::size_t coefficient = 0;
};

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

/// `owner` holds what the loop's code lies in.
std::unique_ptr<PlaneKernel> loop_kernel(Dtype dtype, RowLoop loop, std::shared_ptr<const void> owner,
                                         std::vector<LoopRow> rows, const Axes& radius, double flops);

}  // namespace flagstone::kernel
