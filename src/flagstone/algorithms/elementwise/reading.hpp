#pragma once
// How the operands of a pass come to its tasks where their boxes lie in short runs, or in chunks that many boxes share:
// read as they are, in pieces that stay in memory, or through a copy in scratch. Arithmetic on layouts, and a stated
// cost. What is chosen moves bytes: tiles, and so results, are the same.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "flagstone/algorithms/elementwise/pass.hpp"
#include "flagstone/algorithms/restructure/restructure.hpp"

namespace flagstone::elementwise {

/// How one operand comes. Pieces are in its own order of dimensions.
struct Reading {
  Shape piece;                            // what is read at once; empty: the box of each task
  std::optional<restructure::Pass> copy;  // the pieces are those of a copy in scratch, made so
};

struct Scheme {
  std::vector<Reading> readings;   // of each operand; empty: boxes
  std::vector<std::size_t> order;  // dimensions along which tiles follow one another, slowest first
  std::size_t look_ahead = 0;      // tasks until a piece is needed again; 0: no pieces
  std::uint64_t scratch_bytes = 0;
  std::string why;  // empty: every operand is read about once

  int passes() const;
};

/// A function of the pass, its tiles, the order they would take, the budget and the workers. budget 0: boxes.
Scheme choose(const Pass& pass, const Shape& tile, std::vector<std::size_t> order, std::uint64_t budget, int workers);

}  // namespace flagstone::elementwise
