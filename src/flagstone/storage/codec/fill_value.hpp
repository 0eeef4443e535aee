#pragma once
// Whether memory holds one element over and over: what such chunks need not store.
#include <cstddef>
#include <span>

namespace flagstone {

/// Compares bits: -0.0 is not 0.0, and a NaN is only the same NaN. Ends at the first 64 bytes that differ; cost where
/// nothing differs: one read of `data`. `element`: 1, 2, 4, 8 or 16 bytes, and `data` a whole number of them.
bool is_filled(std::span<const std::byte> data, std::span<const std::byte> element);

}  // namespace flagstone
