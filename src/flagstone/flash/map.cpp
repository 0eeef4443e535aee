#include "flagstone/flash/map.hpp"

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/base/grid.hpp"

namespace flagstone::flash {
namespace {

constexpr std::uint64_t block_bytes = 4 * MiB;  // requests of a MiB and more run at the disk's rate

}  // namespace

Blocks::Blocks(const Array& array) : shape_(array.shape()), cell_(array.chunks()) {
  const bool flat = cell_ == shape_;  // flat files and memory: cut anywhere, longest runs first
  if (flat) std::fill(cell_.begin(), cell_.end(), 1);
  std::uint64_t bytes = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(count(cell_)) * size_of(array.dtype()));
  for (std::size_t d = cell_.size(); d-- > 0;) {
    const Index unit = std::max<Index>(1, cell_[d]), steps = ceil_div(shape_[d], unit);
    const Index taken = std::clamp<Index>(static_cast<Index>(block_bytes / bytes), 1, std::max<Index>(1, steps));
    cell_[d] = unit * taken;
    bytes *= static_cast<std::uint64_t>(taken);
    if (taken < steps) break;
  }
  number_ = count(grid_of(shape_, cell_));
}

Box Blocks::operator[](Index i) const {
  Box box{Shape(shape_.size()), Shape(shape_.size())};
  for (std::size_t d = shape_.size(); d-- > 0;) {
    const Index cells = ceil_div(shape_[d], cell_[d]);
    box.start[d] = i % cells * cell_[d];
    box.shape[d] = std::min(cell_[d], shape_[d] - box.start[d]);
    i /= cells;
  }
  return box;
}

void check_elements(const char* who, const char* name, const Array& array, Dtype dtype) {
  if (array.dtype() != dtype)
    throw ShapeError(std::string(who) + ": " + name + " holds " + std::string(name_of(array.dtype())) +
                     " and its elements are taken as " + std::string(name_of(dtype)) + "; name the array's own type.");
}

void check_equal_shapes(const Array& x, const Array& y) {
  if (x.shape() != y.shape())
    throw ShapeError("map: x is " + to_string(x.shape()) + " and y is " + to_string(y.shape()) +
                     "; equal shapes are needed.");
}

void check_apart(const FlashFile* x_file, std::uint64_t x_first, std::uint64_t x_bytes, const FlashFile* y_file,
                 std::uint64_t y_first, std::uint64_t y_bytes) {
  if (x_file != y_file || (x_first == y_first && x_bytes == y_bytes)) return;
  if (x_first < y_first + y_bytes && y_first < x_first + x_bytes)
    throw ShapeError("map: x and y overlap in one file, " + std::to_string(x_first) + " and " +
                     std::to_string(y_first) + " bytes from its start; they must be equal or apart.");
}

}  // namespace flagstone::flash
