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

constexpr Index piece = 4096;         // elements of a coefficient that is made dense at once
constexpr std::size_t on_stack = 64;  // rows; a star of radius 4 has 17

class LoopKernel final : public PlaneKernel {
 public:
  LoopKernel(Dtype dtype, RowLoop loop, std::shared_ptr<const void> owner, std::vector<LoopRow> rows,
             const Axes& radius, double flops)
      : item_(static_cast<Index>(size_of(dtype))),
        loop_(loop),
        owner_(std::move(owner)),
        rows_(std::move(rows)),
        radius_(radius),
        flops_(flops) {
    for (const LoopRow& row : rows_)
      if (row.kind == LoopRow::Kind::coefficient) coefficients_ = std::max(coefficients_, row.coefficient + 1);
  }

  void run(const PlaneCall& call, std::byte* scratch) const override {
    const bool dense = std::ranges::all_of(rows_, [&](const LoopRow& row) {
      return row.kind != LoopRow::Kind::coefficient || call.coefficients[row.coefficient].step == item_;
    });
    const Index longest = dense ? call.columns : piece;
    std::array<const void*, on_stack> few;
    std::vector<const void*> many(rows_.size() > on_stack ? rows_.size() : 0);
    const void** const at = many.empty() ? few.data() : many.data();
    for (Index y = 0; y < call.rows; ++y)
      for (Index x = 0; x < call.columns; x += longest) {
        const Index n = std::min(longest, call.columns - x);
        for (std::size_t k = 0; k < rows_.size(); ++k) at[k] = row(call, rows_[k], y, x, n, scratch);
        loop_(n, call.to + y * call.to_pitch + x * item_, at);
      }
  }

  std::size_t scratch_bytes() const override { return coefficients_ * static_cast<std::size_t>(piece * item_); }
  const Axes& radius() const override { return radius_; }
  double flops() const override { return flops_; }

 private:
  const std::byte* row(const PlaneCall& call, const LoopRow& row, Index y, Index x, Index n, std::byte* scratch) const {
    if (row.kind == LoopRow::Kind::before) return call.before + y * call.before_pitch + x * item_;
    if (row.kind == LoopRow::Kind::neighbour)
      return call.planes[row.offset[0] + radius_[0]] + (y + row.offset[1]) * call.pitch + (x + row.offset[2]) * item_;
    const CoefficientRows& given = call.coefficients[row.coefficient];
    const std::byte* const from = given.data + y * given.pitch + x * given.step;
    if (given.step == item_) return from;
    std::byte* const dense = scratch + static_cast<Index>(row.coefficient) * piece * item_;
    for (Index i = 0; i < n; ++i)
      std::memcpy(dense + i * item_, from + i * given.step, static_cast<std::size_t>(item_));
    return dense;
  }

  Index item_;
  RowLoop loop_;
  std::shared_ptr<const void> owner_;
  std::vector<LoopRow> rows_;
  Axes radius_;
  double flops_;
  std::size_t coefficients_ = 0;
};

}  // namespace

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

std::unique_ptr<PlaneKernel> loop_kernel(Dtype dtype, RowLoop loop, std::shared_ptr<const void> owner,
                                         std::vector<LoopRow> rows, const Axes& radius, double flops) {
  return std::make_unique<LoopKernel>(dtype, loop, std::move(owner), std::move(rows), radius, flops);
}

}  // namespace flagstone::kernel
