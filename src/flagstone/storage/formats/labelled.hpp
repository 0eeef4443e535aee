#pragma once
// Lines of the Extreme Classification Repository: "label,label feature:value feature:value".
#include "flagstone/storage/formats/text_number.hpp"

namespace flagstone {

/// Where rows go: labels and values, each with pointers (most_rows + 1).
struct LabelledTarget {
  Index* label_pointers = nullptr;
  Index* labels = nullptr;
  Index most_labels = 0;
  Index* pointers = nullptr;
  Index* columns = nullptr;
  double* values = nullptr;
  Index most_values = 0;
  Index most_rows = 0;
};

/// Whole lines of `text`, as many as there is room for; a line that is empty is a row without labels and values.
ParsedText parse_labelled(const char* text, std::size_t bytes, const LabelledTarget& to);

}  // namespace flagstone
