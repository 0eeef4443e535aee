#pragma once
// BLAKE2b (RFC 7693) without a key: hashes that name what a record speaks of.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace flagstone {

class Blake2b {
 public:
  /// `digest_bytes`: 1 to 64.
  explicit Blake2b(std::size_t digest_bytes);
  void update(std::string_view bytes);
  /// In hexadecimal digits; once.
  std::string digest();

 private:
  static constexpr std::size_t block_bytes = 128;
  void compress(bool last);

  std::size_t digest_bytes_, filled_ = 0;
  std::uint64_t total_ = 0;  // bytes before the block at hand; 2^64 are enough
  std::array<std::uint64_t, 8> state_;
  std::array<unsigned char, block_bytes> block_{};
};

}  // namespace flagstone
