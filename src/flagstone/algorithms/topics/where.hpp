#pragma once
// Where the operands of ISLE's steps lie: in memory for as long as they are needed, or in scratch, whose tiles leave
// memory where their room is needed. The same tasks read both: a place changes no bits.
#include <cstdint>
#include <string>
#include <vector>

#include "flagstone/algorithms/sparse/csr_ops.hpp"

namespace flagstone::topics {

enum class Place : std::uint8_t { automatic, memory, disk };
/// ShapeError: no such place.
Place place_from_name(const std::string& operand, const std::string& name);

struct Where {
  Place thresholded = Place::automatic;  // B's pattern; automatic: kept where it is a quarter of the budget at most
  Place basis = Place::automatic;        // of block Krylov-Schur; automatic: disk
  Place projection = Place::automatic;   // of each document what lies beside the directions, D² and its nearest seed;
                                         // automatic: disk
  Place centers = Place::automatic;      // of k-means in all words, while they move; automatic: memory
  Place buckets = Place::automatic;      // frequencies of documents, brought together by cluster while catchwords are
                                         // looked for; automatic: X is read instead, as often as it takes
};

/// For plans and reports.
struct Placed {
  std::string operand, place;  // "memory", "disk", or "view": nothing is kept
  std::uint64_t bytes = 0;
  std::string how = "";  // what stays in memory meanwhile, where there is a choice
};

/// In memory or in scratch. `tile`: the boxes of all accesses to it.
Array placed(Graph& graph, bool held, const Shape& shape, Dtype dtype, const Shape& tile);

/// B that is kept, and what its column factors take.
struct KeptPattern {
  sparse::CsrOperand operand;
  Charge factors;
};
/// B (Corpus::thresholded) as a byte a stored value, 1 where B is not 0: columns and pointers stay X's, each 1 counts
/// as √ζ of its word. One read of X, 1 byte written for each stored value. What a pass over it decodes is cut as X is,
/// so that its sums keep their bits.
KeptPattern keep_pattern(Graph& graph, const sparse::CsrOperand& b, bool held);

}  // namespace flagstone::topics
