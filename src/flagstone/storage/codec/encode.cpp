#include "flagstone/storage/codec/encode.hpp"

#include <blosc.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/codec/codec_name.hpp"
#include "flagstone/storage/codec/decode.hpp"
#include "flagstone/storage/file/crc32c.hpp"
#if FLAGSTONE_HAVE_ZSTD
#define ZSTD_STATIC_LINKING_ONLY  // contexts in memory that is charged
#include <zstd.h>
#endif
#if FLAGSTONE_HAVE_ZLIB
#include <zlib.h>
#endif

namespace flagstone {
namespace {

using From = std::span<const std::byte>;
using To = std::span<std::byte>;

constexpr std::size_t sum_bytes = sizeof(std::uint32_t);

/// The step that packs; null where there is none.
const CodecStep* packing(const CodecChain& chain) {
  return chain.steps.empty() || chain.steps.front().codec == Codec::crc32c ? nullptr : &chain.steps.front();
}

/// Where it is given more room than that, it may use it instead of copying what does not shrink.
std::size_t pack_blosc(const CodecStep& step, From from, std::size_t item, To to) {
  const std::string name(name_of(step.packer));
  const int packed =
      blosc_compress_ctx(step.level, static_cast<int>(step.shuffle), item, from.size(), from.data(), to.data(),
                         std::min(to.size(), from.size() + BLOSC_MAX_OVERHEAD), name.c_str(), 0, 1);
  if (packed <= 0)
    throw Error("blosc: cannot pack " + format_bytes(from.size()) + " with " + name +
                "; use chunks below 2 GiB and a packer that this libblosc has.");
  return static_cast<std::size_t>(packed);
}

#if FLAGSTONE_HAVE_ZSTD
std::size_t zstd_workspace(int level, std::size_t bytes) {
  return ZSTD_estimateCCtxSize_usingCParams(ZSTD_getCParams(level, bytes, 0));
}
#endif

/// One frame, with its length in the header: TensorStore reads no more than one.
std::size_t pack_zstd([[maybe_unused]] int level, [[maybe_unused]] From from, [[maybe_unused]] To to,
                      [[maybe_unused]] std::byte* scratch) {
#if FLAGSTONE_HAVE_ZSTD
  ZSTD_CCtx* context = ZSTD_initStaticCCtx(scratch, align_up(zstd_workspace(level, from.size())));
  if (!context) throw Error("zstd: its workspace is too small; this is a fault of Flagstone.");
  ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, level);
  const std::size_t packed = ZSTD_compress2(context, to.data(), to.size(), from.data(), from.size());
  if (!ZSTD_isError(packed)) return packed;
  throw Error(std::string("zstd: cannot pack a chunk: ") + ZSTD_getErrorName(packed) + ".");
#else
  return 0;
#endif
}

#if FLAGSTONE_HAVE_ZLIB
constexpr std::size_t deflate_workspace = 384 * KiB;  // (1 << 17) + (1 << 17) of zlib's own account, and its state

/// zlib's memory, from a piece that is charged: nothing is given back before the end.
struct Workspace {
  std::byte* next;
  std::size_t left;

  static void* take(void* self, unsigned n, unsigned size) {
    auto* space = static_cast<Workspace*>(self);
    const std::size_t bytes = (std::size_t{n} * size + 63) / 64 * 64;
    if (bytes > space->left) return nullptr;
    space->left -= bytes;
    return std::exchange(space->next, space->next + bytes);
  }
  static void give(void*, void*) {}
};

/// 0 where it does not fit.
std::size_t deflate_all(int level, From from, To to, std::byte* scratch) {
  Workspace space{scratch, deflate_workspace};
  z_stream stream{};
  stream.zalloc = &Workspace::take, stream.zfree = &Workspace::give, stream.opaque = &space;
  if (::deflateInit2(&stream, level, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    throw Error("gzip: its workspace is too small; this is a fault of Flagstone.");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(from.data()));
  stream.next_out = reinterpret_cast<Bytef*>(to.data());
  stream.avail_in = static_cast<uInt>(from.size()), stream.avail_out = static_cast<uInt>(to.size());
  const bool done = ::deflate(&stream, Z_FINISH) == Z_STREAM_END;
  return done ? to.size() - stream.avail_out : 0;
}
#endif

std::uint64_t most_gzip(std::uint64_t n) { return n + 5 * (n / 65535 + 2) + 18; }

/// One member. What deflate makes longer than that is stored instead: 5 bytes for every 65,535.
std::size_t pack_gzip([[maybe_unused]] int level, [[maybe_unused]] From from, [[maybe_unused]] To to,
                      [[maybe_unused]] std::byte* scratch) {
#if FLAGSTONE_HAVE_ZLIB
  const To most = to.first(std::min<std::size_t>(to.size(), most_gzip(from.size())));
  if (const std::size_t packed = deflate_all(level, from, most, scratch)) return packed;
  if (const std::size_t stored = deflate_all(0, from, to, scratch)) return stored;
#endif
  throw Error("gzip: cannot pack a chunk of " + format_bytes(from.size()) + ".");
}

}  // namespace

std::size_t encode_blosc(From decoded, std::size_t item_bytes, To encoded) {
  return pack_blosc({.level = 5}, decoded, item_bytes, encoded);
}

bool can_encode(const CodecChain& chain) {
  if (chain.big_endian) return false;
  const CodecStep* packer = packing(chain);
  if (chain.steps.size() != (packer ? 1u : 0u) + (chain.summed_inside() ? 1u : 0u)) return false;
  if (!packer) return true;
  try {
    CodecStep step = *packer;
    if (step.codec == Codec::zstd && step.level == 0) step.level = 3;  // zstd's word for its default
    const CodecChain same = codec_from_text(to_text({{}, false, {step}}));
    return same.steps == std::vector<CodecStep>{step};
  } catch (const FormatError&) {
    return false;  // a level or a codec that is not written here
  }
}

std::uint64_t most_encoded(const CodecChain& chain, std::uint64_t n) {
  const CodecStep* packer = packing(chain);
  std::uint64_t most = n;
  // blosc copies what does not shrink; zstd stores blocks of 128 KiB; gzip, at worst, blocks of 64 KiB.
  if (packer && packer->codec == Codec::blosc) most += BLOSC_MAX_OVERHEAD;
  if (packer && packer->codec == Codec::zstd) most += 3 * (n / (128 * KiB) + 1) + 18;
  if (packer && packer->codec == Codec::gzip) most = most_gzip(n);
  return most + (chain.summed_inside() ? sum_bytes : 0);
}

std::size_t encode_scratch_bytes(const CodecChain& chain, std::size_t chunk_bytes) {
  const CodecStep* packer = packing(chain);
  if (!packer) return 0;
#if FLAGSTONE_HAVE_ZLIB
  if (packer->codec == Codec::gzip) return deflate_workspace;
#endif
#if FLAGSTONE_HAVE_ZSTD
  if (packer->codec == Codec::zstd) return align_up(zstd_workspace(packer->level, chunk_bytes));
#endif
  std::size_t held = 0;
  if (packer->codec == Codec::blosc) {
    // As in decoding: three of its blocks, which the runtime's reserve covers where they are small.
    if (chunk_bytes > MiB) held = 3 * std::min<std::size_t>(chunk_bytes, 8 * MiB);
#if FLAGSTONE_HAVE_ZSTD
    if (packer->packer == BloscPacker::zstd)  // its level 9 is zstd's 22, the others 2 level - 1
      held += zstd_workspace(packer->level == 9 ? 22 : std::max(1, 2 * packer->level - 1),
                             std::min<std::size_t>(chunk_bytes, 2 * MiB));
#endif
  }
  return align_up(held);
}

std::size_t encode_chunk(const CodecChain& chain, From decoded, std::size_t item_bytes, To encoded,
                         std::byte* scratch) {
  const CodecStep* packer = packing(chain);
  const To room = chain.summed_inside() ? encoded.first(encoded.size() - sum_bytes) : encoded;
  std::size_t bytes = decoded.size();
  if (!packer)
    std::memcpy(room.data(), decoded.data(), bytes);
  else if (packer->codec == Codec::blosc)
    bytes = pack_blosc(*packer, decoded, item_bytes, room);
  else if (packer->codec == Codec::zstd)
    bytes = pack_zstd(packer->level, decoded, room, scratch);
  else
    bytes = pack_gzip(packer->level, decoded, room, scratch);
  if (!chain.summed_inside()) return bytes;
  const std::uint32_t sum = crc32c(encoded.data(), bytes);
  std::memcpy(encoded.data() + bytes, &sum, sizeof sum);
  return bytes + sizeof sum;
}

std::size_t encoded_length(const CodecChain& chain, From encoded, std::size_t chunk_bytes) {
  const CodecStep* packer = packing(chain);
  std::size_t length = chunk_bytes;
  if (packer && packer->codec == Codec::blosc) {
    std::uint32_t packed = 0;
    if (encoded.size() >= BLOSC_MIN_HEADER_LENGTH) std::memcpy(&packed, encoded.data() + 12, sizeof packed);
    length = packed >= BLOSC_MIN_HEADER_LENGTH ? packed : 0;
  }
#if FLAGSTONE_HAVE_ZSTD
  if (packer && packer->codec == Codec::zstd) {
    length = ZSTD_findFrameCompressedSize(encoded.data(), encoded.size());
    if (ZSTD_isError(length)) length = 0;
  }
#endif
#if FLAGSTONE_HAVE_ZLIB
  if (packer && packer->codec == Codec::gzip) {
    z_stream stream{};
    if (::inflateInit2(&stream, 31) != Z_OK) return 0;
    std::byte dropped[16 * KiB];
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(encoded.data()));
    stream.avail_in = static_cast<uInt>(encoded.size());
    int code = Z_OK;
    while (code == Z_OK) {
      stream.next_out = reinterpret_cast<Bytef*>(dropped), stream.avail_out = sizeof dropped;
      code = ::inflate(&stream, Z_NO_FLUSH);
    }
    length = code == Z_STREAM_END ? encoded.size() - stream.avail_in : 0;
    ::inflateEnd(&stream);
  }
#endif
  if (length == 0) return 0;
  length += chain.summed_inside() ? sum_bytes : 0;
  return length <= encoded.size() ? length : 0;
}

}  // namespace flagstone
