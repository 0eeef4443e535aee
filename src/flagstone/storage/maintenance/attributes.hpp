#pragma once
// What a stored array says of itself beside its elements: attributes and names of dimensions.
#include <string>
#include <vector>

namespace flagstone {

/// Gives the Zarr array in `directory` other attributes (the text of a JSON object) and names of dimensions ("": one
/// without a name; none: no names). v3: the members of zarr.json; v2: .zattrs, where the names are xarray's
/// _ARRAY_DIMENSIONS. All else in the file stays as somebody wrote it.
///
/// One writer, by the array's lock; the replacement of the file is the commit, durable when this returns. Moves no
/// element. StorageError; FormatError where the text is no object; ShapeError where there are other than no names or
/// one for each dimension.
void set_attributes(const std::string& directory, const std::string& attributes,
                    const std::vector<std::string>& dimension_names);

}  // namespace flagstone
