#pragma once
// Arrays that exist only as metadata.
#include <string>

#include "flagstone/storage/array/array.hpp"

namespace flagstone {

/// An array that exists only as metadata: what the planner gives to a routine as its output. Packed chunks count as
/// long as they can be (codec_name.hpp).
Array planned_array(const Shape& shape, Dtype dtype, const Shape& chunks, const std::string& codec = "raw",
                    bool column_major = false);

/// An array whose elements go nowhere when they are written: what a run takes without the writing of its result.
Array dropping_array(const Shape& shape, Dtype dtype, const Shape& chunks);

}  // namespace flagstone
