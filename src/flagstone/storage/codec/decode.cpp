#include "flagstone/storage/codec/decode.hpp"

#include <algorithm>
#include <cstring>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/codec/decompress.hpp"
#include "flagstone/storage/file/crc32c.hpp"

namespace flagstone {
namespace {

bool is_checksum(Codec codec) { return codec == Codec::crc32c || codec == Codec::fletcher32; }

/// Most bytes that a chunk has between two steps: no codec makes incompressible data longer than this.
std::size_t between_steps(std::size_t chunk_bytes) { return align_up(chunk_bytes + chunk_bytes / 64 + 1024); }

/// One chunk on its way back through the steps.
class Undoing {
 public:
  Undoing(const CodecChain& chain, const EncodedChunk& encoded, std::span<std::byte> decoded, std::byte* scratch,
          const std::string& where)
      : chain_(chain), encoded_(encoded), decoded_(decoded), scratch_(scratch), where_(where) {}

  void run() {
    at_ = encoded_.data, bytes_ = encoded_.bytes;
    for (std::size_t i = chain_.steps.size(); i-- > 0;) {
      if (skipped(i)) continue;
      if (is_checksum(chain_.steps[i].codec))
        check(chain_.steps[i].codec);
      else
        unpack(i);
    }
    if (bytes_ != decoded_.size())
      throw damaged("it has " + std::to_string(bytes_) + " bytes and needs " + std::to_string(decoded_.size()));
    if (at_ != decoded_.data()) std::memcpy(decoded_.data(), at_, bytes_);
  }

 private:
  bool skipped(std::size_t step) const { return step < 32 && (encoded_.skipped >> step & 1); }

  FormatError damaged(const std::string& what) const {
    return FormatError("read: " + where_ + ": " + what + "; the chunk is damaged, write or copy it again.");
  }

  void check(Codec codec) {
    std::uint32_t stored = 0;
    if (bytes_ < sizeof stored) throw damaged("it is too short for its checksum");
    bytes_ -= sizeof stored;
    std::memcpy(&stored, at_ + bytes_, sizeof stored);
    if (stored != (codec == Codec::crc32c ? crc32c(at_, bytes_) : fletcher32(at_, bytes_)))
      throw damaged("its checksum does not match");
  }

  /// Into the chunk where nothing is left to undo, else into one of two places in scratch, in turn.
  void unpack(std::size_t step) {
    bool last = true;
    for (std::size_t i = 0; i < step; ++i) last = last && skipped(i);
    std::span<std::byte> to = decoded_;
    if (!last) {
      const std::size_t room = between_steps(decoded_.size());
      to = {scratch_ + (turn_ ? room : 0), room};
      turn_ = !turn_;
    }
    const CodecStep& codec = chain_.steps[step];
    const auto got = flagstone::unpack(codec, {at_, bytes_}, to);
    if (!got)
      throw damaged(std::string(name_of(codec.codec)) + " cannot unpack its " + std::to_string(bytes_) + " bytes to " +
                    std::to_string(decoded_.size()));
    at_ = to.data(), bytes_ = *got;
  }

  const CodecChain& chain_;
  const EncodedChunk& encoded_;
  std::span<std::byte> decoded_;
  std::byte* scratch_;
  const std::string& where_;
  const std::byte* at_ = nullptr;
  std::size_t bytes_ = 0;
  bool turn_ = false;
};

template <class Word>
void swap_words(std::byte* data, std::byte* end) {
  for (; data < end; data += sizeof(Word)) {
    Word word;
    std::memcpy(&word, data, sizeof word);
    if constexpr (sizeof word == 2) word = __builtin_bswap16(word);
    if constexpr (sizeof word == 4) word = __builtin_bswap32(word);
    if constexpr (sizeof word == 8) word = __builtin_bswap64(word);
    std::memcpy(data, &word, sizeof word);
  }
}

}  // namespace

void swap_bytes(std::byte* data, std::size_t bytes, Dtype dtype) {
  const std::size_t item = size_of(real_part_of(dtype));
  if (item == 2) swap_words<std::uint16_t>(data, data + bytes);
  if (item == 4) swap_words<std::uint32_t>(data, data + bytes);
  if (item == 8) swap_words<std::uint64_t>(data, data + bytes);
}

namespace {
constexpr std::string_view names[] = {"blosc", "zstd", "gzip", "zlib", "bz2", "lzf", "shuffle", "crc32c", "fletcher32"};
}

std::string_view name_of(Codec codec) noexcept { return names[static_cast<std::size_t>(codec)]; }

Codec codec_named(std::string_view name) {
  const auto at = std::find(std::begin(names), std::end(names), name);
  if (at == std::end(names)) throw FormatError("codec '" + std::string(name) + "' is not read here.");
  return static_cast<Codec>(at - std::begin(names));
}

std::size_t decode_scratch_bytes(const CodecChain& chain, std::size_t chunk_bytes) {
  std::size_t moving = 0, workspace = 0;
  for (std::size_t i = 0; i < chain.steps.size(); ++i) {
    const Codec codec = chain.steps[i].codec;
    if (i > 0 && !is_checksum(codec)) ++moving;
    // blosc holds three of its blocks, which a writer may have made as long as the chunk; the runtime's reserve covers
    // small ones. Held, not used: libblosc takes them from malloc.
    if (codec == Codec::blosc && chunk_bytes > MiB) workspace = 3 * std::min<std::size_t>(chunk_bytes, 8 * MiB);
    if (codec == Codec::bz2) workspace = std::max(workspace, bz2_workspace);
  }
  return std::min<std::size_t>(moving, 2) * between_steps(chunk_bytes) + align_up(workspace);
}

void decode_chunk(const CodecChain& chain, Dtype dtype, const EncodedChunk& encoded, std::span<std::byte> decoded,
                  std::byte* scratch, const std::string& where) {
  Undoing(chain, encoded, decoded, scratch, where).run();
  if (chain.big_endian) swap_bytes(decoded.data(), decoded.size(), dtype);
}

}  // namespace flagstone
