#include "flagstone/algorithms/stencil/schedules/block_step.hpp"

#include <algorithm>

#include "flagstone/base/bytes.hpp"

namespace flagstone::stencil {

Index BlockBuffer::pitch() const {
  return static_cast<Index>(align_up(static_cast<std::uint64_t>(range.extent(2) * item), 64)) + 64;
}

std::uint64_t BlockBuffer::bytes() const {
  return range.empty() ? 0 : static_cast<std::uint64_t>(range.extent(0) * range.extent(1) * pitch());
}

kernel::Points BlockBuffer::points(std::byte* data) const {
  return {data, range.first, {range.extent(1) * pitch(), pitch(), item}};
}

BlockFields block_fields(const kernel::Points& from, const kernel::Points& to, const kernel::Points& before,
                         std::span<const kernel::Points> coefficients) {
  return {[from](Index plane, Index row, Index column) { return from.at(plane, row, column); }, from.strides[1], to,
          before, coefficients};
}

void step_on(const Problem& problem, const BlockFields& fields, const Range3& range, Index rows, std::byte* scratch) {
  if (range.empty()) return;
  const Index reach = problem.space.radius[0], strip = rows > 0 ? rows : range.extent(1);
  const auto& [from, pitch, to, before, coefficients] = fields;
  std::vector<const std::byte*> planes(static_cast<std::size_t>(2 * reach + 1));
  std::vector<kernel::CoefficientRows> given(coefficients.size());
  kernel::PlaneCall call;
  call.columns = range.extent(2);
  call.pitch = pitch, call.to_pitch = to.strides[1], call.before_pitch = before.strides[1];
  call.planes = planes.data(), call.coefficients = given;
  const Index x = range.first[2];
  for (Index y = range.first[1]; y < range.last[1]; y += strip) {
    call.rows = std::min(strip, range.last[1] - y);
    for (Index z = range.first[0]; z < range.last[0]; ++z) {
      for (Index dz = -reach; dz <= reach; ++dz) planes[static_cast<std::size_t>(dz + reach)] = from(z + dz, y, x);
      for (std::size_t c = 0; c < given.size(); ++c)
        given[c] = {coefficients[c].at(z, y, x), coefficients[c].strides[1], coefficients[c].strides[2]};
      call.to = to.at(z, y, x), call.before = before.at(z, y, x);
      problem.kernel->run(call, scratch);
    }
  }
}

Index rows_in_cache(const Problem& problem, Index columns, std::uint64_t bytes) {
  const auto planes =
      static_cast<std::uint64_t>(2 * problem.space.radius[0] + 2) + problem.order() - 1 + problem.coefficients.size();
  const auto row = static_cast<std::uint64_t>(std::max<Index>(1, columns * problem.item())) * planes;
  return std::max<Index>(8, static_cast<Index>(bytes / row) - 2 * problem.space.radius[1]);
}

}  // namespace flagstone::stencil
