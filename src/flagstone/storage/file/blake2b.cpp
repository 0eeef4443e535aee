#include "flagstone/storage/file/blake2b.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace flagstone {
namespace {

using Word = std::uint64_t;

constexpr std::array<Word, 8> initial = {0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b,
                                         0xa54ff53a5f1d36f1, 0x510e527fade682d1, 0x9b05688c2b3e6c1f,
                                         0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};
constexpr unsigned char order[10][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0}};

void mix(Word& a, Word& b, Word& c, Word& d, Word x, Word y) {
  a += b + x, d = std::rotr(d ^ a, 32), c += d, b = std::rotr(b ^ c, 24);
  a += b + y, d = std::rotr(d ^ a, 16), c += d, b = std::rotr(b ^ c, 63);
}

}  // namespace

Blake2b::Blake2b(std::size_t digest_bytes) : digest_bytes_(digest_bytes), state_(initial) {
  state_[0] ^= 0x01010000 ^ digest_bytes;
}

void Blake2b::compress(bool last) {
  Word m[16], v[16];
  std::memcpy(m, block_.data(), sizeof m);
  std::copy(state_.begin(), state_.end(), v);
  std::copy(initial.begin(), initial.end(), v + 8);
  v[12] ^= total_;
  if (last) v[14] = ~v[14];
  for (int round = 0; round < 12; ++round) {
    const unsigned char* s = order[round % 10];
    for (int i = 0; i < 4; ++i) mix(v[i], v[4 + i], v[8 + i], v[12 + i], m[s[2 * i]], m[s[2 * i + 1]]);
    for (int i = 0; i < 4; ++i)
      mix(v[i], v[4 + (i + 1) % 4], v[8 + (i + 2) % 4], v[12 + (i + 3) % 4], m[s[8 + 2 * i]], m[s[9 + 2 * i]]);
  }
  for (int i = 0; i < 8; ++i) state_[i] ^= v[i] ^ v[i + 8];
}

void Blake2b::update(std::string_view bytes) {
  while (!bytes.empty()) {
    if (filled_ == block_bytes) {  // the last block is compressed by digest()
      total_ += block_bytes;
      compress(false);
      filled_ = 0;
    }
    const std::size_t taken = std::min(bytes.size(), block_bytes - filled_);
    std::memcpy(block_.data() + filled_, bytes.data(), taken);
    filled_ += taken;
    bytes.remove_prefix(taken);
  }
}

std::string Blake2b::digest() {
  std::fill(block_.begin() + static_cast<std::ptrdiff_t>(filled_), block_.end(), 0);
  total_ += filled_;
  compress(true);
  const char* digits = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < digest_bytes_; ++i) {
    const auto byte = static_cast<unsigned>(state_[i / 8] >> (8 * (i % 8))) & 0xff;
    text += {digits[byte / 16], digits[byte % 16]};
  }
  return text;
}

}  // namespace flagstone
