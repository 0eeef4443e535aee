#pragma once
// Rows of a sparse matrix in memory, as training takes them.
#include <cstdint>

#include "flagstone/base/shape.hpp"

namespace flagstone::kernel {

/// Row i has the values pointers[i] up to pointers[i + 1].
struct SparsePoints {
  Index rows = 0;
  const Index* pointers = nullptr;  // rows + 1, from 0
  const std::uint32_t* columns = nullptr;
  const float* values = nullptr;
};

}  // namespace flagstone::kernel
