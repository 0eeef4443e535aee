// What is packed comes back, stays inside its slot, and is named by a text that gives it again.
#include <gtest/gtest.h>

#include <random>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/storage/codec/codec_name.hpp"
#include "flagstone/storage/codec/decode.hpp"
#include "flagstone/storage/codec/encode.hpp"

namespace flagstone {
namespace {

std::vector<std::byte> noise(std::size_t bytes) {
  std::mt19937_64 random(bytes);
  std::vector<std::byte> data(bytes);
  for (std::byte& one : data) one = static_cast<std::byte>(random());
  return data;
}

TEST(Encode, ComesBackAndStaysInsideItsSlotWhateverIsInIt) {
  for (const std::string text : {"raw", "zstd", "zstd:1", "gzip", "gzip:0", "gzip:9", "blosc-lz4",
                                 "blosc-zstd:5+bitshuffle", "blosc-zlib:1+noshuffle", "blosc-blosclz", "blosc-lz4hc"})
    for (const bool summed : {false, true})
      for (const std::size_t bytes : {8u, 4096u, (1u << 20) + 8}) {
        CodecChain chain = codec_from_text(text);
        if (summed) chain.steps.push_back({.codec = Codec::crc32c});
        std::vector<std::byte> data = noise(bytes);
        for (const bool packable : {false, true}) {
          if (packable) std::fill(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(bytes / 2), std::byte{1});
          std::vector<std::byte> packed(align_up(bytes + page_bytes));
          const Buffer scratch(encode_scratch_bytes(chain, bytes) + 1);
          const std::size_t n = encode_chunk(chain, data, 8, packed, scratch.data());
          EXPECT_LE(n, most_encoded(chain, bytes)) << text;
          EXPECT_LE(most_encoded(chain, bytes), packed.size()) << text;
          EXPECT_EQ(encoded_length(chain, packed, bytes), n) << text;
          std::vector<std::byte> back(bytes);
          const Buffer beside(decode_scratch_bytes(chain, bytes) + 1);
          decode_chunk(chain, Dtype::float64, {packed.data(), n}, back, beside.data(), text);
          EXPECT_EQ(back, data) << text;
        }
      }
}

TEST(CodecText, GivesTheSameCodecAgain) {
  for (const std::string text : {"raw", "zstd", "zstd:22", "gzip", "gzip:9", "blosc-lz4", "blosc-zstd:9+bitshuffle",
                                 "blosc-lz4hc+noshuffle", "blosc-blosclz:0", "blosc-zlib:1"}) {
    EXPECT_EQ(to_text(codec_from_text(text)), text);
    EXPECT_TRUE(can_encode(codec_from_text(text)));
  }
  EXPECT_EQ(to_text(codec_from_text("blosc-lz4:5+shuffle")), "blosc-lz4");
  EXPECT_EQ(to_text(codec_from_text("blosc-lz4+none")), "blosc-lz4+noshuffle");
}

TEST(CodecText, RefusesTheRest) {
  for (const std::string text :
       {"", "lz4", "zstd:", "zstd:0", "zstd:23", "zstd:3x", "zstd: 3", "gzip:10", "gzip:-1", "zstd+shuffle", "blosc",
        "blosc-snappy", "blosc-lz4:5+twist", "blosc-lz4+shuffle:5", "raw:1", "RAW", "auto"})
    EXPECT_THROW(codec_from_text(text), FormatError) << text;
}

TEST(Encode, NotWhatItsMetadataDoNotTell) {
  EXPECT_FALSE(can_encode({{}, false, {{Codec::blosc}}}));                     // no level
  EXPECT_TRUE(can_encode({{}, false, {{.codec = Codec::zstd, .level = 0}}}));  // its word for its default
  EXPECT_FALSE(can_encode({{}, false, {{Codec::crc32c}, {.codec = Codec::gzip, .level = 5}}}));
  EXPECT_TRUE(can_encode({{1, 0}, false, {}}));
  EXPECT_FALSE(can_encode({{}, true, {}}));
  EXPECT_TRUE(can_encode({{}, false, {{.codec = Codec::gzip, .level = 5}, {Codec::crc32c}}}));
}

}  // namespace
}  // namespace flagstone
