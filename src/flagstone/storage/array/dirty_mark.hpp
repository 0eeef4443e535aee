#pragma once
// The mark of what is being changed in place without a transaction: a flat file between an assignment and its flush.
#include "flagstone/storage/array/array.hpp"

namespace flagstone {

/// Set before the first write, cleared by a completed flush; nothing for arrays without a path. Durable when it
/// returns.
void mark_dirty(const Array& array, bool dirty);
bool is_dirty(const Array& array);

}  // namespace flagstone
