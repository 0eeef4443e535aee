#include "flagstone/storage/array/array.hpp"

#include <algorithm>
#include <bit>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/file/build_name.hpp"

namespace flagstone {

const Array::About Array::nothing;

Array::Array(Shape shape, Dtype dtype, Shape chunks, std::shared_ptr<ArrayStore> store, std::string path)
    : about_(std::make_shared<const About>(
          About{std::move(shape), dtype, std::move(chunks), std::move(store), from_root(path)})) {}

void check_has_elements(const Array& array) {
  if (array.store().imagined())
    throw Error("the array " + to_string(array.shape()) + " of " + std::string(name_of(array.dtype())) +
                " exists in plans alone; give one that has elements, or call the routine's plan().");
}

bool reads_any_box(const Array& array) {
  if (array.in_memory()) return true;
  return array.chunks() == array.shape() && !(array.store().verified() && array.nbytes() <= 4 * MiB);
}

Shape default_chunks(const Shape& shape, Dtype dtype) {
  // Squares of at most 4 MiB; what a short side leaves over goes to the other one, then to the leading dimensions.
  const auto power = [](Index n) { return static_cast<Index>(std::bit_ceil(static_cast<std::uint64_t>(n))); };
  Index left = static_cast<Index>(4 * MiB / size_of(dtype));
  Shape chunks(shape.size(), 1);
  if (shape.empty()) return chunks;
  const std::size_t last = shape.size() - 1;
  if (last == 0) return {std::min(power(std::max<Index>(shape[0], 1)), left)};
  Index side = 1;
  while (4 * side * side <= left) side *= 2;
  const Index rows = power(std::max<Index>(shape[last - 1], 1)), cols = power(std::max<Index>(shape[last], 1));
  chunks[last - 1] = std::min(rows, std::max(side, left / std::min(cols, side)));
  chunks[last] = std::min(cols, std::max(side, left / std::min(rows, side)));
  if (rows > side && cols > side) chunks[last - 1] = chunks[last] = side;
  if (chunks[last - 1] < rows || chunks[last] < cols) return chunks;
  left /= chunks[last - 1] * chunks[last];
  for (std::size_t d = last - 1; d-- > 0 && left > 1; left /= chunks[d])
    chunks[d] = std::min(power(std::max<Index>(shape[d], 1)), left);
  return chunks;
}

std::uint64_t place_bytes(const Array& array) {
  constexpr std::uint64_t of_a_chunk = 64;
  std::uint64_t chunks = 1;
  for (std::size_t d = 0; d < array.ndim(); ++d)
    chunks *= static_cast<std::uint64_t>(ceil_div(array.shape()[d], std::max<Index>(1, array.chunks()[d])));
  return align_down(chunks * of_a_chunk);
}

std::size_t chunk_bytes(const Array& array) {
  return static_cast<std::size_t>(count(array.chunks())) * size_of(array.dtype());
}

}  // namespace flagstone
