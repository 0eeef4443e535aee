#include "flagstone/storage/formats/svmlight.hpp"

namespace flagstone {
namespace {

using text::each_line;
using text::Line;
using text::put_number;

/// One row of SVMlight behind its label; what is wrong, or null.
const char* svmlight_values(Line& line, const SvmlightTarget& to, Index& filled, bool& room) {
  while (!line.done() && line.peek() != '#') {
    if (line.peek() == 'q') {  // a query's number: of no use here
      line.skip_to(':');
      Index query = 0;
      if (!line.take(':') || !line.number(query)) return "after 'qid' ':' and a whole number are needed";
      continue;
    }
    if (filled == to.most_values) {
      room = false;
      return nullptr;
    }
    if (!line.number(to.columns[filled]) || !line.take(':') || !line.number(to.values[filled]) || !line.at_word_end())
      return "'index:value' is needed";
    ++filled;
  }
  return nullptr;
}

}  // namespace

ParsedText parse_svmlight(const char* text, std::size_t bytes, const SvmlightTarget& to) {
  to.pointers[0] = 0;
  return each_line(text, bytes, '#', [&](Line& line, bool& room, ParsedText& so_far) -> const char* {
    if (so_far.entries == to.most_rows) {
      room = false;
      return nullptr;
    }
    if (!line.number(to.labels[so_far.entries])) return "a label (a number) is needed first";
    bool several = false;
    for (double more = 0; line.take(','); several = true)
      if (!line.number(more)) return "after ',' another label is needed";
    if (!line.at_word_end()) return "a blank is needed behind the label";
    Index filled = so_far.values;
    const char* wrong = svmlight_values(line, to, filled, room);
    if (wrong || !room) return wrong;
    so_far.values = filled;
    so_far.several += several ? 1 : 0;
    to.pointers[so_far.entries + 1] = filled;
    return nullptr;
  });
}

std::string format_svmlight(Index n, const double* labels, const Index* pointers, const Index* columns, Index base,
                            TextField field, const void* values) {
  std::string text;
  text.reserve(static_cast<std::size_t>(pointers[n]) * 20 + static_cast<std::size_t>(n) * 8);
  for (Index row = 0; row < n; ++row) {
    put_number(text, labels[row], ' ');
    for (Index i = pointers[row]; i < pointers[row + 1]; ++i) {
      put_number(text, columns[i] + base, ':');
      if (field == TextField::integer)
        put_number(text, static_cast<const std::int64_t*>(values)[i], ' ');
      else
        put_number(text, static_cast<const double*>(values)[i], ' ');
    }
    text.back() = '\n';
  }
  return text;
}

}  // namespace flagstone
