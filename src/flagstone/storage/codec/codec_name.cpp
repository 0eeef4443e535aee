#include "flagstone/storage/codec/codec_name.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/codec/decode.hpp"

namespace flagstone {
namespace {

constexpr std::string_view packers[] = {"blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"};
constexpr std::string_view shuffles[] = {"noshuffle", "shuffle", "bitshuffle"};

template <class Enum, std::size_t n>
std::optional<Enum> named(const std::string_view (&names)[n], std::string_view name) {
  const auto at = std::find(std::begin(names), std::end(names), name);
  if (at == std::end(names)) return std::nullopt;
  return static_cast<Enum>(at - std::begin(names));
}

struct Levels {
  int least, most, usual;
};

Levels levels_of(Codec codec) {
  if (codec == Codec::zstd) return {1, 22, 3};
  return {0, 9, 5};
}

[[noreturn]] void refuse(const std::string& text, const std::string& what) {
  std::string message = "codec: '";
  ((message += text) += "' ") += what;
  throw FormatError(message += '.');
}

/// The name of the codec, before ':' and '+'.
CodecStep step_for(const std::string& text, std::string_view name) {
  CodecStep step;
  if (name == "zstd" || name == "gzip") {
    step.codec = codec_named(name);
  } else if (const auto packer = name.starts_with("blosc-") ? blosc_packer(name.substr(6)) : std::nullopt;
             packer && *packer != BloscPacker::snappy) {
    step.packer = *packer;
  } else {
    refuse(text,
           "is not written here; choose raw, zstd, gzip, blosc-lz4, blosc-lz4hc, blosc-blosclz, blosc-zlib or "
           "blosc-zstd, with a level as in zstd:3 and a shuffle as in blosc-zstd:5+bitshuffle");
  }
  if (const char* library = missing_library(step.codec))
    refuse(text, std::string("needs ") + library + ", which this build was made without; install it and build again");
  return step;
}

}  // namespace

std::string_view name_of(BloscPacker packer) noexcept { return packers[static_cast<std::size_t>(packer)]; }
std::string_view name_of(BloscShuffle shuffle) noexcept { return shuffles[static_cast<std::size_t>(shuffle)]; }
std::optional<BloscPacker> blosc_packer(std::string_view name) { return named<BloscPacker>(packers, name); }
std::optional<BloscShuffle> blosc_shuffle(std::string_view name) {
  return named<BloscShuffle>(shuffles, name == "none" ? "noshuffle" : name);
}

CodecChain codec_from_text(const std::string& text) {
  if (text == "raw") return {};
  const std::size_t plus = std::min(text.find('+'), text.size()), colon = std::min(text.find(':'), plus);
  CodecStep step = step_for(text, std::string_view(text).substr(0, colon));
  const Levels levels = levels_of(step.codec);
  step.level = levels.usual;
  if (colon < plus) {
    const char *first = text.data() + colon + 1, *last = text.data() + plus;
    const auto [end, error] = std::from_chars(first, last, step.level);
    if (error != std::errc() || end != last || step.level < levels.least || step.level > levels.most)
      refuse(text, "has a level that is not " + std::to_string(levels.least) + " to " + std::to_string(levels.most) +
                       "; give such a whole number behind the colon");
  }
  if (plus < text.size()) {
    const auto shuffle = blosc_shuffle(std::string_view(text).substr(plus + 1));
    if (step.codec != Codec::blosc || !shuffle)
      refuse(text, step.codec != Codec::blosc ? "has a shuffle, which only blosc does; leave it out or use blosc-zstd"
                                              : "has an unknown shuffle; use +shuffle, +bitshuffle or +noshuffle");
    step.shuffle = *shuffle;
  }
  CodecChain chain;
  chain.steps.push_back(step);
  return chain;
}

std::string to_text(const CodecChain& chain) {
  std::string text;
  for (const CodecStep& step : chain.steps) {
    if (step.codec == Codec::crc32c) continue;
    if (!text.empty()) text += ", ";
    text += name_of(step.codec);
    if (step.level == CodecStep::unknown) continue;
    if (step.codec == Codec::blosc) (text += '-') += name_of(step.packer);
    if (step.level != levels_of(step.codec).usual) (text += ':') += std::to_string(step.level);
    if (step.codec == Codec::blosc && step.shuffle != BloscShuffle::shuffle) (text += '+') += name_of(step.shuffle);
  }
  return text.empty() ? "raw" : text;
}

}  // namespace flagstone
