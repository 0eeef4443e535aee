#pragma once
// How a time loop is carried out: the method, its blocks and its depth, from counts, rates and the budget.
#include <string>
#include <string_view>

#include "flagstone/algorithms/stencil/skewed/skewed.hpp"
#include "flagstone/base/bytes.hpp"

namespace flagstone::stencil {

enum class Method : std::uint8_t { sweep, al1, al2, al3, al4 };
std::string_view name_of(Method method);

/// Seconds are made of these; bits are not.
struct Rates {
  double read = 2e9, written = 1.5e9;    // bytes a second of the disk
  double cached = 4e9, streaming = 2e9;  // updates a second of all workers: from the cache, from memory
};

/// What the caller fixed: 0 or empty: to be chosen.
struct Wishes {
  std::string method = "auto";
  Axes block{};  // al1, al2, al3, sweep; longer than the field: as long
  Index depth = 0;
  Index strip = 0, levels = 0, planes = 0;  // of the cache tier; likewise
  std::array<Index, 2> mesh{1, 1};          // ranks along the first two dimensions
  Rates rates;
  std::uint64_t cache = 0;  // bytes that a worker's steps find in the cache; 0: what the system says
};

struct Scheme {
  Method method = Method::sweep;
  BlockScheme blocks;
  SkewedScheme skewed;
  WavefrontScheme wavefront;
  Index depth = 1, supersteps = 1;
  Index steps = 0;                            // that were done; all that were planned
  double read = 0, written = 0, updates = 0;  // elements of the whole run
  double disk_seconds = 0, compute_seconds = 0;
  double seconds = 0;        // what the choice went by: both, and what they cost each other
  bool fits = false;         // into the budget; else it is the smallest one of its kind
  double face_elements = 0;  // of al4: rows that strips hand on, written once and read once, in memory
  std::uint64_t bytes = 0;   // of memory
  // Of a mesh: what ranks get from each other, all states; sub-buffers in scratch; seconds, in plans by the rates.
  double sleeve_elements = 0, exchange_seconds = 0;
  double barrier_seconds = 0;  // that a rank would wait for the slowest one, on average
  double loop_seconds = 0;     // of a plan: supersteps alone, without distributing and collecting
  std::uint64_t scratch_bytes = 0;
};

/// The scheme that takes the least time by these counts and rates, and fits; the smallest one where the budget is 0 (or
/// nothing fits). It changes no bit of the result.
Scheme choose(const Problem& problem, const Wishes& wishes, std::uint64_t budget, int workers);

/// A scheme that was chosen, carried out.
Scheme run_scheme(Graph& graph, std::shared_ptr<const Problem> problem, Scheme scheme);
/// The whole time loop.
Scheme run(Graph& graph, std::shared_ptr<const Problem> problem, const Wishes& wishes);

}  // namespace flagstone::stencil
