#include "flagstone/algorithms/operator/operator.hpp"

namespace flagstone::spectral {

Tile matrix(double* data, Index rows, Index cols) {
  Tile tile;
  tile.data = reinterpret_cast<std::byte*>(data);
  tile.shape = {rows, cols};
  tile.strides = {cols * 8, 8};
  tile.bytes = static_cast<std::size_t>(rows * cols * 8);
  return tile;
}

}  // namespace flagstone::spectral
