#pragma once
// Arrays in memory.
#include <memory>

#include "flagstone/storage/array/array.hpp"

namespace flagstone {

/// A view of memory that somebody else owns (a NumPy operand); `owner` keeps it alive.
Array memory_array(std::byte* data, const Shape& shape, Dtype dtype, const Shape& strides_bytes,
                   std::shared_ptr<void> owner = {});

}  // namespace flagstone
