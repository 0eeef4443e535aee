#include "flagstone/kernel/stencil/compiled_rows.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"

namespace flagstone::kernel {
namespace {

constexpr std::size_t on_stack = 64;  // rows; a star of radius 4 has 17

class LoopKernel final : public PlaneKernel {
 public:
  LoopKernel(Dtype dtype, CompiledLoop loop, const Axes& radius, double flops)
      : item_(static_cast<Index>(size_of(dtype))), loop_(std::move(loop)), radius_(radius), flops_(flops) {}

  void run(const PlaneCall& call, std::byte* scratch) const override {
    const std::vector<LoopRow>& rows = loop_.rows;
    const bool dense = std::ranges::all_of(rows, [&](const LoopRow& row) {
      return row.kind != LoopRow::Kind::coefficient || call.coefficients[row.number].step == item_;
    });
    const Index longest = dense ? call.columns : loop_piece;
    std::array<const void*, on_stack> few;
    std::vector<const void*> many(rows.size() > on_stack ? rows.size() : 0);
    const void** const at = many.empty() ? few.data() : many.data();
    for (Index y = 0; y < call.rows; ++y)
      for (Index x = 0; x < call.columns; x += longest) {
        const Index n = std::min(longest, call.columns - x);
        for (std::size_t k = 0; k < rows.size(); ++k) at[k] = row(call, rows[k], y, x, n, scratch);
        void* const to = call.to + y * call.to_pitch + x * item_;
        loop_.run(n, &to, at);
      }
  }

  std::size_t scratch_bytes() const override { return loop_.scratch_bytes(item_); }
  const Axes& radius() const override { return radius_; }
  double flops() const override { return flops_; }

 private:
  const std::byte* row(const PlaneCall& call, const LoopRow& row, Index y, Index x, Index n, std::byte* scratch) const {
    if (row.kind == LoopRow::Kind::before) return call.before + y * call.before_pitch + x * item_;
    if (row.kind == LoopRow::Kind::neighbour)
      return call.planes[row.offset[0] + radius_[0]] + (y + row.offset[1]) * call.pitch + (x + row.offset[2]) * item_;
    const CoefficientRows& given = call.coefficients[row.number];
    return dense_row(given.data + y * given.pitch + x * given.step, given.step, n, item_, row.number, scratch);
  }

  Index item_;
  CompiledLoop loop_;
  Axes radius_;
  double flops_;
};

}  // namespace

std::size_t CompiledLoop::scratch_bytes(Index item) const {
  std::size_t coefficients = 0;
  for (const LoopRow& row : rows)
    if (row.kind == LoopRow::Kind::coefficient) coefficients = std::max(coefficients, row.number + 1);
  return coefficients * static_cast<std::size_t>(loop_piece * item);
}

const std::byte* dense_row(const std::byte* from, Index step, Index n, Index item, std::size_t number,
                           std::byte* scratch) {
  if (step == item) return from;
  std::byte* const dense = scratch + static_cast<Index>(number) * loop_piece * item;
  for (Index i = 0; i < n; ++i) std::memcpy(dense + i * item, from + i * step, static_cast<std::size_t>(item));
  return dense;
}

MachineCode::MachineCode(std::span<const std::byte> code, std::size_t entry) : entry_(entry) {
  bytes_ = align_up(std::max<std::size_t>(1, code.size()), static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)));
  pages_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages_ == MAP_FAILED) throw Error("stencil: no memory for a compiled kernel.");
  std::memcpy(pages_, code.data(), code.size());
  if (::mprotect(pages_, bytes_, PROT_READ | PROT_EXEC) != 0) {
    ::munmap(pages_, bytes_);
    throw Error("stencil: this system does not let a compiled kernel run.");
  }
}

MachineCode::~MachineCode() { ::munmap(pages_, bytes_); }

RowLoop MachineCode::row() const { return std::bit_cast<RowLoop>(static_cast<std::byte*>(pages_) + entry_); }

std::unique_ptr<PlaneKernel> loop_kernel(Dtype dtype, CompiledLoop loop, const Axes& radius, double flops) {
  return std::make_unique<LoopKernel>(dtype, std::move(loop), radius, flops);
}

}  // namespace flagstone::kernel
