#include "flagstone/algorithms/elementwise/tile.hpp"

#include <algorithm>

#include "flagstone/algorithms/elementwise/operand.hpp"
#include "flagstone/base/bytes.hpp"

namespace flagstone::elementwise {
namespace {

constexpr std::uint64_t tile_bytes = 4 * MiB;  // of the widest array: one request of this size fills a disk
constexpr std::uint64_t most_bytes = 32 * MiB;
/// A chunk of so many bytes is a tile: read alone it is one run of memory. Beside a neighbour its rows lie apart, and
/// the kernel splits a request where a device's list of places ends (254 places for virtio: 4 KiB rows made of each
/// MiB two requests, the second of 8 KiB, and of 1.0 GB/s 0.5).
constexpr std::uint64_t whole_request = MiB;
constexpr std::size_t short_run = 256 * KiB;  // requests below it cost more than their bytes

/// Chunks of an operand along the pass's dimensions; 0: it does not say.
Shape chunks_of(const Operand& operand, std::size_t dims) {
  const Shape own = operand.transpose ? reversed(operand.array.chunks()) : operand.array.chunks();
  const Shape extents = operand.transpose ? reversed(operand.array.shape()) : operand.array.shape();
  Shape chunks(dims, 0);
  for (std::size_t d = 0; d < own.size(); ++d)
    if (extents[d] != 1) chunks[dims - own.size() + d] = own[d];
  return chunks;
}

/// Multiplies the box by whole units, the dimension that lies closest in storage first, while it stays within `limit`
/// bytes.
void grow(Shape& box, const Shape& unit, const Shape& shape, std::size_t item, std::uint64_t limit, bool backward) {
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::size_t d = backward ? i : shape.size() - 1 - i;
    if (box[d] >= shape[d]) continue;
    const Index fits = static_cast<Index>(limit / std::max<std::uint64_t>(1, bytes_of(box, item)));
    if (fits <= 1) return;
    box[d] = std::min(shape[d], box[d] * fits);
    if (box[d] < shape[d]) {
      box[d] = std::max(unit[d], box[d] / unit[d] * unit[d]);
      return;
    }
  }
}

/// Whether the first dimension of a flat array is the one that lies closest in its file, not the last.
bool column_major(const Array& array) {
  const Shape& shape = array.shape();
  const auto longer = [](Index extent) { return extent > 1; };
  const auto first = std::find_if(shape.begin(), shape.end(), longer);
  if (std::count_if(first, shape.end(), longer) < 2) return false;
  Shape two(shape.size(), 1);
  two[static_cast<std::size_t>(first - shape.begin())] = 2;
  return array.store().run_bytes(two) > size_of(array.dtype());
}

/// Whether all flat files of the pass lie with its first dimension closest (Fortran order, or C order transposed):
/// tiles are slabs of columns then. Where some lie one way and some the other, rows as in C order.
bool lies_backward(const Pass& pass) {
  bool backward = false;
  for (const Store& store : pass.stores)
    if (!store.array.in_memory()) return false;
  for (const Operand& operand : pass.operands) {
    if (operand.array.in_memory() || broadcast(operand, pass)) continue;
    if (column_major(operand.array) == operand.transpose) return false;
    backward = true;
  }
  return backward;
}

/// The array whose layout decides: what is written to disk, else the largest operand on disk, else none.
struct Lead {
  Shape chunks;
  bool flat = true;  // rows of any length may be taken
};
Lead lead_of(const Pass& pass) {
  const std::size_t dims = pass.shape.size();
  Lead lead{Shape(dims, 1), true};
  for (const Store& store : pass.stores)
    if (!store.array.in_memory() && store.array.chunks() != store.array.shape()) return {store.array.chunks(), false};
  std::uint64_t most = 0;
  for (const Operand& operand : pass.operands) {
    const Shape chunks = chunks_of(operand, dims);
    const bool stretched = count(operand.array.shape()) != count(pass.shape);
    const bool one_chunk = operand.array.chunks() == operand.array.shape();
    if (operand.array.nbytes() <= most || reads_any_box(operand.array) || (one_chunk && stretched)) continue;
    most = operand.array.nbytes();
    lead = {chunks, false};
    for (Index& extent : lead.chunks) extent = std::max<Index>(extent, 1);
  }
  return lead;
}

}  // namespace

Shape choose_tile(const Pass& pass) {
  std::size_t item = 1;
  for (const Operand& operand : pass.operands) item = std::max(item, size_of(operand.array.dtype()));
  for (const Store& store : pass.stores) item = std::max(item, size_of(store.array.dtype()));
  for (const Reduction& reduction : pass.reductions)
    item = std::max(item, size_of(pass.program.dtype(reduction.value)));
  for (const int value : pass.visit.values) item = std::max(item, size_of(pass.program.dtype(value)));
  const Lead lead = lead_of(pass);
  const std::size_t dims = pass.shape.size();
  Shape unit = lead.chunks, box(dims, 1);
  for (std::size_t d = 0; d < dims; ++d)
    unit[d] = std::min(std::max<Index>(unit[d], 1), std::max<Index>(pass.shape[d], 1)), box[d] = unit[d];
  if (lead.flat || bytes_of(unit, item) < whole_request)
    grow(box, unit, pass.shape, item, tile_bytes, lead.flat && lies_backward(pass));
  // Whole rows for operands whose layout has short runs otherwise (.npy).
  for (const Operand& operand : pass.operands) {
    if (operand.array.in_memory() || box.empty()) continue;
    const Box part = box_of(operand, {Shape(dims, 0), box});
    const std::size_t along = operand.transpose ? 0 : dims - 1;
    Shape rows = box;
    rows[along] = pass.shape[along];
    const Box longer = box_of(operand, {Shape(dims, 0), rows});
    const auto& store = operand.array.store();
    if (store.run_bytes(part.shape) < short_run && store.run_bytes(longer.shape) > store.run_bytes(part.shape)) {
      const Index fits = static_cast<Index>(most_bytes / std::max<std::uint64_t>(1, bytes_of(box, item)));
      box[along] = std::min(pass.shape[along], std::max<Index>(1, fits) * box[along]);
      if (box[along] < pass.shape[along]) box[along] = std::max(unit[along], box[along] / unit[along] * unit[along]);
    }
  }
  return box;
}

}  // namespace flagstone::elementwise
