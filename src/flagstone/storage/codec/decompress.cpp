#include "flagstone/storage/codec/decompress.hpp"

#include <blosc.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "flagstone/storage/codec/bitpacked.hpp"
#include "flagstone/storage/codec/decode.hpp"
#if FLAGSTONE_HAVE_BZIP2
#include <bzlib.h>
#endif
#if FLAGSTONE_HAVE_ZSTD
#include <zstd.h>
#endif
#if FLAGSTONE_HAVE_ZLIB
#include <zlib.h>
#endif

namespace flagstone {
namespace {

using From = std::span<const std::byte>;
using To = std::span<std::byte>;
using Size = std::optional<std::size_t>;

Size unpack_blosc(From from, To to) {
  std::size_t unpacked = 0;
  if (from.size() < BLOSC_MIN_HEADER_LENGTH || blosc_cbuffer_validate(from.data(), from.size(), &unpacked) < 0 ||
      unpacked > to.size() || blosc_decompress_ctx(from.data(), to.data(), to.size(), 1) != static_cast<int>(unpacked))
    return std::nullopt;
  return unpacked;
}

Size unpack_zstd([[maybe_unused]] From from, [[maybe_unused]] To to) {
#if FLAGSTONE_HAVE_ZSTD
  const std::unique_ptr<ZSTD_DCtx, std::size_t (*)(ZSTD_DCtx*)> context(ZSTD_createDCtx(), ZSTD_freeDCtx);
  if (!context) return std::nullopt;
  const std::size_t got = ZSTD_decompressDCtx(context.get(), to.data(), to.size(), from.data(), from.size());
  if (!ZSTD_isError(got)) return got;
#endif
  return std::nullopt;
}

/// One or several members (gzip) or one stream (zlib), which zlib tells apart by `window`.
Size inflate_all([[maybe_unused]] From from, [[maybe_unused]] To to, [[maybe_unused]] int window) {
#if FLAGSTONE_HAVE_ZLIB
  z_stream stream{};
  if (::inflateInit2(&stream, window) != Z_OK) return std::nullopt;
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&stream, ::inflateEnd);
  std::size_t read = 0, written = 0;
  constexpr std::size_t most = 1u << 30;  // zlib counts in 32 bits
  for (;;) {
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(from.data() + read));
    stream.next_out = reinterpret_cast<Bytef*>(to.data() + written);
    const auto in = static_cast<uInt>(std::min(most, from.size() - read));
    const auto out = static_cast<uInt>(std::min(most, to.size() - written));
    stream.avail_in = in, stream.avail_out = out;
    const int code = ::inflate(&stream, Z_NO_FLUSH);
    read += in - stream.avail_in, written += out - stream.avail_out;
    if (code == Z_STREAM_END) {
      if (read == from.size() || window < 16) return written;  // what follows a zlib stream is padding
      if (::inflateReset(&stream) != Z_OK) return std::nullopt;
    } else if (code != Z_OK || (in == stream.avail_in && out == stream.avail_out)) {
      return std::nullopt;  // damaged, cut short, or longer than the chunk
    }
  }
#endif
  return std::nullopt;
}

/// One or several streams.
Size unpack_bz2([[maybe_unused]] From from, [[maybe_unused]] To to) {
#if FLAGSTONE_HAVE_BZIP2
  std::size_t read = 0, written = 0;
  constexpr std::size_t most = 1u << 30;  // libbz2 counts in 32 bits
  while (read < from.size()) {
    bz_stream stream{};
    if (::BZ2_bzDecompressInit(&stream, 0, 0) != BZ_OK) return std::nullopt;
    const std::unique_ptr<bz_stream, int (*)(bz_stream*)> end(&stream, ::BZ2_bzDecompressEnd);
    for (int code = BZ_OK; code != BZ_STREAM_END;) {
      stream.next_in = reinterpret_cast<char*>(const_cast<std::byte*>(from.data() + read));
      stream.next_out = reinterpret_cast<char*>(to.data() + written);
      const auto in = static_cast<unsigned>(std::min(most, from.size() - read));
      const auto out = static_cast<unsigned>(std::min(most, to.size() - written));
      stream.avail_in = in, stream.avail_out = out;
      code = ::BZ2_bzDecompress(&stream);
      read += in - stream.avail_in, written += out - stream.avail_out;
      if (code != BZ_OK && code != BZ_STREAM_END) return std::nullopt;
      if (code == BZ_OK && in == stream.avail_in && out == stream.avail_out)
        return std::nullopt;  // cut short, or longer than the chunk
    }
  }
  if (read > 0) return written;
#endif
  return std::nullopt;
}

/// LibLZF's format: a byte below 32 copies so many plus one bytes; else three bits of length (7: another byte adds) and
/// thirteen of distance, both less than what they mean (by 2 and by 1).
Size unpack_lzf(From from, To to) {
  std::size_t read = 0, written = 0;
  while (read < from.size()) {
    const auto control = static_cast<std::size_t>(from[read++]);
    if (control < 32) {
      const std::size_t n = control + 1;
      if (n > from.size() - read || n > to.size() - written) return std::nullopt;
      std::memcpy(to.data() + written, from.data() + read, n);
      read += n, written += n;
      continue;
    }
    std::size_t n = (control >> 5) + 2;
    if (n == 9 && read < from.size()) n += static_cast<std::size_t>(from[read++]);
    if (read == from.size()) return std::nullopt;
    const std::size_t distance = ((control & 31) << 8 | static_cast<std::size_t>(from[read++])) + 1;
    if (distance > written || n > to.size() - written) return std::nullopt;
    for (std::size_t i = 0; i < n; ++i, ++written) to[written] = to[written - distance];  // may overlap itself
  }
  return written;
}

/// Byte j of every element stands together; what is left of the last element follows as it is.
Size unshuffle(From from, To to, std::size_t item) {
  if (from.size() > to.size()) return std::nullopt;
  const std::size_t n = from.size() / item;
  constexpr std::size_t strip = 4096;  // elements: source and target stay in the cache
  for (std::size_t first = 0; first < n; first += strip) {
    const std::size_t end = std::min(n, first + strip);
    for (std::size_t j = 0; j < item; ++j) {
      const std::byte* source = from.data() + j * n;
      std::byte* target = to.data() + j;
      for (std::size_t i = first; i < end; ++i) target[i * item] = source[i];
    }
  }
  std::memcpy(to.data() + n * item, from.data() + n * item, from.size() - n * item);
  return from.size();
}

}  // namespace

const char* missing_library(Codec codec) noexcept {
#if !FLAGSTONE_HAVE_ZSTD
  if (codec == Codec::zstd) return "libzstd (Debian, Ubuntu: libzstd-dev)";
#endif
#if !FLAGSTONE_HAVE_ZLIB
  if (codec == Codec::gzip || codec == Codec::zlib) return "zlib (Debian, Ubuntu: zlib1g-dev)";
#endif
#if !FLAGSTONE_HAVE_BZIP2
  if (codec == Codec::bz2) return "libbz2 (Debian, Ubuntu: libbz2-dev)";
#endif
  static_cast<void>(codec);
  return nullptr;
}

Size unpack(const CodecStep& step, From from, To to) {
  switch (step.codec) {
    case Codec::blosc:
      return unpack_blosc(from, to);
    case Codec::zstd:
      return unpack_zstd(from, to);
    case Codec::gzip:
      return inflate_all(from, to, 15 + 16);
    case Codec::zlib:
      return inflate_all(from, to, 15);
    case Codec::bz2:
      return unpack_bz2(from, to);
    case Codec::lzf:
      return unpack_lzf(from, to);
    case Codec::shuffle:
      return unshuffle(from, to, std::max<std::size_t>(1, step.item));
    case Codec::bitpacked:
      return unpack_bits(from, step.item, to);
    default:
      return std::nullopt;
  }
}

std::uint32_t fletcher32(const std::byte* data, std::size_t bytes) {
  std::uint64_t low = 0, high = 0;
  const auto fold = [](std::uint64_t sum) { return (sum & 0xFFFF) + (sum >> 16); };
  const auto add = [&](std::uint64_t word) {
    low += word;
    high += low;
  };
  std::size_t i = 0;
  while (i + 1 < bytes) {
    const std::size_t end = std::min(bytes - 1, i + 720);  // before 32 bits of the sums could overflow, as HDF5 does
    for (; i < end; i += 2) add(static_cast<std::uint64_t>(data[i]) << 8 | static_cast<std::uint64_t>(data[i + 1]));
    low = fold(low), high = fold(high);
  }
  if (bytes % 2) {
    add(static_cast<std::uint64_t>(data[bytes - 1]) << 8);
    low = fold(low), high = fold(high);
  }
  low = fold(low), high = fold(high);
  return static_cast<std::uint32_t>(high << 16 | low);
}

}  // namespace flagstone
