#include "flagstone/storage/formats/labelled.hpp"

namespace flagstone {
namespace {

using text::Line;

/// Labels up to the first blank; what is wrong, or null.
const char* read_labels(Line& line, const LabelledTarget& to, Index& filled, bool& room) {
  if (line.at_word_end()) return nullptr;  // none: the line begins with a blank
  do {
    if (filled == to.most_labels) {
      room = false;
      return nullptr;
    }
    if (!line.number(to.labels[filled])) return "labels (whole numbers with commas) are needed first";
    ++filled;
  } while (line.take(','));
  return line.at_word_end() ? nullptr : "a blank is needed behind the labels";
}

const char* read_values(Line& line, const LabelledTarget& to, Index& filled, bool& room) {
  while (!line.done()) {
    if (filled == to.most_values) {
      room = false;
      return nullptr;
    }
    if (!line.number(to.columns[filled]) || !line.take(':') || !line.number(to.values[filled]) || !line.at_word_end())
      return "'feature:value' is needed";
    ++filled;
  }
  return nullptr;
}

}  // namespace

ParsedText parse_labelled(const char* text, std::size_t bytes, const LabelledTarget& to) {
  ParsedText parsed;
  to.pointers[0] = to.label_pointers[0] = 0;
  Index labels = 0;
  const char *at = text, *end = text + bytes;
  while (at < end && parsed.entries < to.most_rows) {
    const auto* stop = static_cast<const char*>(std::memchr(at, '\n', static_cast<std::size_t>(end - at)));
    if (!stop) break;
    Line line(at, stop);
    bool room = true;
    Index these = labels, values = parsed.values;
    const char* wrong = read_labels(line, to, these, room);
    if (!wrong && room) wrong = read_values(line, to, values, room);
    if (!room) break;
    if (wrong) {
      parsed.error = wrong;
      break;
    }
    labels = these, parsed.values = values;
    ++parsed.entries, ++parsed.lines;
    to.label_pointers[parsed.entries] = labels, to.pointers[parsed.entries] = values;
    at = stop + 1;
    parsed.bytes = static_cast<std::size_t>(at - text);
  }
  parsed.several = labels;
  return parsed;
}

}  // namespace flagstone
