#include "flagstone/storage/codec/decompress.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/codec/decode.hpp"

namespace flagstone {
namespace {

std::vector<std::byte> bytes_of(const std::string& text) {
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

std::string unpacked(Codec codec, const std::string& packed, std::size_t room, std::size_t item = 1) {
  std::vector<std::byte> to(room);
  const auto got = unpack({codec, item}, bytes_of(packed), to);
  return got ? std::string(reinterpret_cast<const char*>(to.data()), *got) : "damaged";
}

TEST(Unpack, LzfCopiesLiteralsAndOverlaps) {
  // "ab", then eight bytes from two back; then twelve (2 + 7 + 3) from one back.
  const std::string packed{1, 'a', 'b', char(6 << 5), 1, char(7 << 5), 3, 0};
  EXPECT_EQ(unpacked(Codec::lzf, packed, 100), "ab" + std::string("abababab") + std::string(12, 'b'));
  EXPECT_EQ(unpacked(Codec::lzf, packed, 21), "damaged");                         // one byte too few
  EXPECT_EQ(unpacked(Codec::lzf, packed.substr(0, 4), 100), "damaged");           // cut
  EXPECT_EQ(unpacked(Codec::lzf, std::string{char(1 << 5), 0}, 100), "damaged");  // before the beginning
}

TEST(Unpack, ShuffleKeepsWhatIsNoWholeElement) {
  EXPECT_EQ(unpacked(Codec::shuffle, "adgbehcfiXY", 11, 3), "abcdefghiXY");
  EXPECT_EQ(unpacked(Codec::shuffle, "abc", 2, 1), "damaged");
}

TEST(Unpack, Fletcher32OfPublishedTexts) {
  // With the words big-endian, as HDF5 takes them.
  EXPECT_EQ(fletcher32(bytes_of("badc").data(), 4), 0x2926C6C4u);
  EXPECT_EQ(fletcher32(bytes_of("badcfe").data(), 6), 0x56502D2Au);
  EXPECT_EQ(fletcher32(bytes_of("badcfehg").data(), 8), 0xEBE19591u);
}

TEST(Unpack, StepsAreUndoneLastFirstAndMaskedOnesAreLeftOut) {
  CodecChain chain;
  chain.steps = {{Codec::shuffle, 2}, {Codec::lzf}, {Codec::fletcher32}};
  const std::string shuffled = "acebdf";
  std::vector<std::byte> lzf = bytes_of(std::string(1, 5) + shuffled);
  const std::uint32_t sum = fletcher32(lzf.data(), lzf.size());
  lzf.resize(lzf.size() + 4);
  std::memcpy(lzf.data() + lzf.size() - 4, &sum, 4);
  std::vector<std::byte> decoded(6), scratch(decode_scratch_bytes(chain, 6));
  decode_chunk(chain, Dtype::uint8, {lzf.data(), lzf.size(), 0}, decoded, scratch.data(), "x");
  EXPECT_EQ(decoded, bytes_of("abcdef"));
  decode_chunk(chain, Dtype::uint8, {lzf.data(), lzf.size(), 0b001}, decoded, scratch.data(), "x");
  EXPECT_EQ(decoded, bytes_of(shuffled));
  decode_chunk(chain, Dtype::uint8, {bytes_of(shuffled).data(), 6, 0b110}, decoded, scratch.data(), "x");
  EXPECT_EQ(decoded, bytes_of("abcdef"));
  lzf[2] ^= std::byte{1};
  EXPECT_THROW(decode_chunk(chain, Dtype::uint8, {lzf.data(), lzf.size(), 0}, decoded, scratch.data(), "x"),
               FormatError);
}

/// Python's bz2.compress(b"abcabc"): no packer of its own is linked.
constexpr unsigned char packed_abcabc[] = {0x42, 0x5a, 0x68, 0x39, 0x31, 0x41, 0x59, 0x26, 0x53, 0x59,
                                           0x86, 0x45, 0x44, 0x33, 0x00, 0x00, 0x00, 0x81, 0x00, 0x38,
                                           0x00, 0x20, 0x00, 0x21, 0x26, 0x41, 0x98, 0x84, 0x8e, 0x2e,
                                           0xe4, 0x8a, 0x70, 0xa1, 0x21, 0x0c, 0x8a, 0x88, 0x66};

TEST(Unpack, StreamsOfBz2OneBehindTheOther) {
  if (missing_library(Codec::bz2)) GTEST_SKIP() << "built without libbz2";
  std::vector<std::byte> one, room(12);
  for (const unsigned char byte : packed_abcabc) one.push_back(static_cast<std::byte>(byte));
  ASSERT_EQ(unpack({Codec::bz2}, one, room), 6u);
  std::vector<std::byte> two = one;
  two.insert(two.end(), one.begin(), one.end());
  ASSERT_EQ(unpack({Codec::bz2}, two, room), 12u);
  EXPECT_EQ(room, bytes_of("abcabcabcabc"));
  EXPECT_FALSE(unpack({Codec::bz2}, {two.data(), two.size() - 3}, room));  // cut short
  EXPECT_FALSE(unpack({Codec::bz2}, two, std::span(room).first(11)));      // longer than the chunk
  two[20] ^= std::byte{4};
  EXPECT_FALSE(unpack({Codec::bz2}, two, room));
  EXPECT_FALSE(unpack({Codec::bz2}, {}, room));
}

TEST(Unpack, RandomBytesNeverLeaveTheirBounds) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 3000; ++i) {
    std::vector<std::byte> from(random() % 200), to(random() % 200);
    for (auto& byte : from) byte = static_cast<std::byte>(random());
    for (const Codec codec : {Codec::blosc, Codec::zstd, Codec::gzip, Codec::zlib, Codec::bz2, Codec::lzf})
      if (const auto got = unpack({codec}, from, to)) {
        EXPECT_LE(*got, to.size());
      }
  }
}

}  // namespace
}  // namespace flagstone
