#include "flagstone/algorithms/spectral/panel_basis.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include "flagstone/algorithms/kernels/dense.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/storage/array/memory_array.hpp"

namespace flagstone::spectral {
namespace {

constexpr std::uint64_t panel_bytes = 8 * MiB;
constexpr Index least_rows = 256, most_rows = 8192;  // enough for gemm's rate; enough panels for workers

}  // namespace

PanelCut::PanelCut(Index n, Index block, Index slots, Dtype dtype) : n(n), block(block), slots(slots), dtype(dtype) {
  const std::uint64_t row = static_cast<std::uint64_t>(slots * block) * size_of(dtype);
  rows = std::clamp(static_cast<Index>(std::bit_floor(std::max<std::uint64_t>(1, panel_bytes / row))), least_rows,
                    most_rows);
}

void PanelBasis::list_parts(StateParts& parts) {
  parts.values("widths", widths_);
  columns_ = std::accumulate(widths_.begin(), widths_.end(), Index{0});
}

PanelBasis PanelBasis::in(Array array) const {
  PanelBasis made = *this;
  made.array_ = std::move(array);
  return made;
}

std::vector<PanelBasis::Part> PanelBasis::parts(Index from, Index end) const {
  std::vector<Part> found;
  Index start = 0;
  for (Index s = 0; s < slots(); start += widths_[s++]) {
    const Index first = std::max(from, start), last = std::min(end, start + widths_[s]);
    if (first < last) found.push_back({s, first - start, last - first, first});
  }
  return found;
}

Region PanelBasis::region(Index panel, Index slot) const {
  return {array_, {{cut_.first(panel), slot * cut_.block}, {cut_.length(panel), cut_.block}}};
}

PanelTask::PanelTask(std::string name, const PanelCut& cut, Index panel) : cut_(cut), panel_(panel) {
  spec_.name = std::move(name);
  spec_.cost.float64 = true;
}

std::uint32_t PanelTask::touch(const Region& region, Mode mode) {
  for (std::uint32_t i = 0; i < spec_.accesses.size(); ++i)
    if (spec_.accesses[i].region.array.id() == region.array.id() && spec_.accesses[i].region.box == region.box)
      return i;
  Access access = mode == Mode::read     ? read(region)
                  : mode == Mode::write  ? write(region)
                  : mode == Mode::update ? update(region)
                                         : reduce(region);
  spec_.accesses.push_back(mode == Mode::write ? again(std::move(access)) : std::move(access));
  return static_cast<std::uint32_t>(spec_.accesses.size() - 1);
}

TilePart PanelTask::columns(const PanelBasis& v, const PanelBasis::Part& part, Mode mode) {
  return slot(v, part.slot, part.from, part.width, mode);
}

TilePart PanelTask::slot(const PanelBasis& v, Index slot, Index from, Index width, Mode mode) {
  const std::uint32_t access = touch(v.region(panel_, slot), mode);
  if (mode == Mode::read) slots_.push_back(access);
  return {access, false, false, {{0, from}, {cut_.length(panel_), width}}};
}

TilePart PanelTask::rows(const Array& tall, Index from, Index width, Mode mode) {
  const Index rows = cut_.length(panel_);
  const std::uint32_t access = touch({tall, {{cut_.first(panel_), 0}, {rows, tall.shape()[1]}}}, mode);
  return {access, false, false, {{0, from}, {rows, width}}};
}

TilePart PanelTask::small(const Array& matrix, Box part, Mode mode) {
  return {touch({matrix, whole(matrix.shape())}, mode), false, false, std::move(part)};
}

void PanelTask::gemm(double alpha, const TilePart& a, const TilePart& b, double beta, const TilePart& c) {
  const Index depth = a.part.shape[a.transpose ? 0 : 1];
  const double flops = (cut_.dtype == Dtype::complex128 ? 8.0 : 2.0) * static_cast<double>(depth) *
                       static_cast<double>(c.part.shape[0]) * static_cast<double>(c.part.shape[1]);
  spec_.calls.push_back(call::gemm(cut_.dtype, alpha, a, b, beta, c));
  spec_.calls.back().flops = flops;
  spec_.cost.flops += flops;
}

void PanelTask::copy(const TilePart& from, const TilePart& to) {
  spec_.calls.push_back(call::copy(cut_.dtype, from, to));
  spec_.cost.bytes_touched +=
      2.0 * static_cast<double>(count(to.part.shape)) * static_cast<double>(size_of(cut_.dtype));
}

void PanelTask::zero(const TilePart& to) { spec_.calls.push_back(call::zero(cut_.dtype, to)); }

void PanelTask::add_to(Graph& graph) {
  if (drop_)
    for (const std::uint32_t access : slots_) spec_.accesses[access].last = true;
  graph.add(std::move(spec_));
}

TilePart adjoint(TilePart part) {
  part.transpose = true, part.conjugate = true;
  return part;
}

Array again_as(const Array& array) {
  return memory_array(array.store().memory(), array.shape(), array.dtype(), array.store().memory_strides(),
                      array.shared_store());
}

}  // namespace flagstone::spectral
