#include "flagstone/cuda/work.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace flagstone::cuda {

Tile Workspace::matrix(Dtype dtype, Index rows, Index cols) {
  const auto item = static_cast<Index>(size_of(dtype));
  const auto bytes = static_cast<std::size_t>(rows * cols * item);
  return {take(bytes), dtype, {rows, cols}, {item, std::max<Index>(1, rows) * item}, bytes};
}

Tile transposed(Tile tile) {
  std::swap(tile.shape[0], tile.shape[1]);
  std::swap(tile.strides[0], tile.strides[1]);
  return tile;
}

Tile diagonal_of(const Tile& tile) {
  return {tile.data, tile.dtype, {std::min(tile.shape[0], tile.shape[1])}, {tile.strides[0] + tile.strides[1]}, 0};
}

Tile Work::turned(std::size_t i) const { return call.operands()[i].transpose ? transposed(at(i)) : at(i); }

void Columns::copy_of(Work& work, const Tile& tile, bool read) {
  tile_ = tile, copied = true;
  seen = work.space.matrix(tile.dtype, tile.shape[0], tile.shape[1]);
  if (read && work.runs()) copy(work.stream(), tile, seen);
}

Columns::Columns(Work& work, const Tile& tile, bool read) {
  const kernel::BlasLayout layout = kernel::blas_layout(tile);
  const auto item = static_cast<Index>(size_of(tile.dtype));
  if (layout.column_ld > 0) {
    seen = tile, seen.strides = {item, layout.column_ld * item};
  } else if (layout.row_ld > 0) {
    turned = true, seen = transposed(tile), seen.strides = {item, layout.row_ld * item};
  } else {
    copy_of(work, tile, read);
  }
}

Columns Columns::upright(Work& work, const Tile& tile, bool read) {
  Columns made;
  const kernel::BlasLayout layout = kernel::blas_layout(tile);
  const auto item = static_cast<Index>(size_of(tile.dtype));
  if (layout.column_ld > 0)
    made.seen = tile, made.seen.strides = {item, layout.column_ld * item};
  else
    made.copy_of(work, tile, read);
  return made;
}

void Columns::write(Work& work) const {
  if (copied && work.runs()) copy(work.stream(), seen, tile_);
}

Index Columns::ld() const {
  return std::max<Index>({1, seen.shape[0], seen.strides[1] / static_cast<Index>(size_of(seen.dtype))});
}

cudaDataType type_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::float32:
      return CUDA_R_32F;
    case Dtype::complex64:
      return CUDA_C_32F;
    case Dtype::complex128:
      return CUDA_C_64F;
    default:
      return CUDA_R_64F;
  }
}

Scalar::Scalar(Dtype dtype, std::complex<double> value) {
  visit_blas_type(dtype, [&]<class T>(T narrow) {
    if constexpr (std::is_floating_point_v<T>)
      narrow = static_cast<T>(value.real());
    else
      narrow = T(value);
    std::memcpy(bytes, &narrow, sizeof narrow);
  });
}

}  // namespace flagstone::cuda
