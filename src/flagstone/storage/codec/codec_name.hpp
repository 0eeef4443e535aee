#pragma once
// Codecs as people write them: "raw", "zstd:3", "blosc-lz4:5+bitshuffle".
#include <optional>
#include <string>
#include <string_view>

#include "flagstone/storage/zarr/metadata/array_metadata.hpp"

namespace flagstone {

/// CODEC[:LEVEL][+SHUFFLE]. CODEC: raw; zstd (levels 1 to 22, default 3); gzip (0 to 9, default 5); blosc-lz4,
/// blosc-lz4hc, blosc-blosclz, blosc-zlib, blosc-zstd (0 to 9, default 5), whose SHUFFLE is shuffle (default),
/// bitshuffle or noshuffle. FormatError: one sentence. The chain has one step, or none.
CodecChain codec_from_text(const std::string& text);
/// The text that gives this chain again, crc32c aside; of what is not written here the names of its steps.
std::string to_text(const CodecChain& chain);

std::string_view name_of(BloscPacker packer) noexcept;
std::string_view name_of(BloscShuffle shuffle) noexcept;
std::optional<BloscPacker> blosc_packer(std::string_view name);
std::optional<BloscShuffle> blosc_shuffle(std::string_view name);

}  // namespace flagstone
