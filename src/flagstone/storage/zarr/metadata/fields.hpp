#pragma once
// What the parsers of zarr.json and .zarray share: members with checks, and complaints that name the file.
#include <string>
#include <vector>

#include "flagstone/storage/zarr/metadata/array_metadata.hpp"
#include "flagstone/storage/zarr/metadata/json.hpp"

namespace flagstone::metadata_json {

[[noreturn]] void refuse(const std::string& file, const std::string& what);
Json member(const Json& object, const char* name, const std::string& file);
std::string name_in(const Json& object, const char* name, const std::string& file);
Shape extents_in(const Json& object, const char* name, Index least, const std::string& file);
/// Refuses members beside `known` that do not say that a reader need not understand them, as the standard of Zarr v3
/// asks: they may change what the elements are.
void check_known(const Json& root, std::initializer_list<std::string_view> known, const std::string& file);
/// Refuses what 63 bits cannot count in bytes.
void check_size(const Shape& shape, Dtype dtype, const char* what, const std::string& file);
/// One element; null is zero.
std::vector<std::byte> parse_fill(const Json& value, Dtype dtype, const std::string& file);
/// The fill value of counts of time as that of their int64: "NaT" is the least one.
Json fill_of_times(const Json& value);
/// The inverse, but for the payload of NaNs.
Json fill_json(const std::vector<std::byte>& fill, Dtype dtype);
/// Appends a step; refuses what this build cannot undo.
void add_step(CodecChain& chain, const CodecStep& step, const std::string& file);
/// The codecs of a v3 array whose shape, dtype and (outermost) chunks are known: its chain, its levels of shards.
void parse_codecs(const Json& codecs, ArrayMetadata& metadata, const std::string& file);
/// A step as zarr.json has it.
Json settings_of(const CodecStep& step, Dtype dtype);
/// Parses text as JSON and hands it to `parse`; every complaint becomes a FormatError that names the file.
ArrayMetadata parsed(const std::string& text, const std::string& file,
                     ArrayMetadata (*parse)(const Json&, const std::string&));

}  // namespace flagstone::metadata_json
