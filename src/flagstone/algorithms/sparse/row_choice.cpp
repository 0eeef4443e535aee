#include "flagstone/algorithms/sparse/row_choice.hpp"

#include <algorithm>
#include <bit>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"

namespace flagstone::sparse {

RowChoice::RowChoice(Index first, Index last) : first_(first), last_(last) {
  if (first < 0 || last < first)
    throw ShapeError("csr: rows " + std::to_string(first) + " to " + std::to_string(last) +
                     " are no stretch of a matrix; give the first and the end.");
}

RowChoice::RowChoice(std::span<const Index> rows) {
  if (rows.empty()) return;
  if (rows.front() < 0 || std::ranges::adjacent_find(rows, std::greater_equal<>()) != rows.end())
    throw ShapeError("csr: the chosen rows must increase from 0 on, each once; sort them.");
  first_ = rows.front() / word_rows * word_rows, last_ = rows.back() + 1;
  const Index words = ceil_div(last_ - first_, word_rows);
  bits_.assign(static_cast<std::size_t>(words), 0);
  for (const Index row : rows) {
    const Index at = row - first_;
    bits_[static_cast<std::size_t>(at / word_rows)] |= std::uint64_t{1} << (at % word_rows);
  }
  Index seen = 0;
  for (Index word = 0; word < words; ++word) {
    if (word % block_words == 0) ranks_.push_back(seen);
    seen += std::popcount(bits_[static_cast<std::size_t>(word)]);
  }
  ranks_.push_back(seen);
}

Index RowChoice::before(Index row) const {
  const Index at = std::clamp(row, first_, last_) - first_;
  if (bits_.empty()) return at;
  if (at == last_ - first_) return count();
  const Index word = at / word_rows, block = word / block_words;
  Index found = ranks_[static_cast<std::size_t>(block)];
  for (Index w = block * block_words; w < word; ++w) found += std::popcount(bits_[static_cast<std::size_t>(w)]);
  const std::uint64_t below = (std::uint64_t{1} << (at % word_rows)) - 1;
  return found + std::popcount(bits_[static_cast<std::size_t>(word)] & below);
}

void RowChoice::list(Index row, Index row_end, Index* to) const {
  const Index low = std::max(row, first_), high = std::min(row_end, last_);
  if (bits_.empty()) {
    for (Index at = low; at < high; ++at) *to++ = at - row;
    return;
  }
  if (low >= high) return;
  for (Index word = (low - first_) / word_rows; word * word_rows < high - first_; ++word)
    for (std::uint64_t left = bits_[static_cast<std::size_t>(word)]; left != 0; left &= left - 1) {
      const Index at = first_ + word * word_rows + std::countr_zero(left);
      if (at >= low && at < high) *to++ = at - row;
    }
}

}  // namespace flagstone::sparse
