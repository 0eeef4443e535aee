#pragma once
// Where k-means starts: k of the points, drawn at random.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "flagstone/algorithms/cluster/source.hpp"

namespace flagstone::cluster {

/// parallel: k-means|| (Bahmani, Moseley, Vattani, Kumar, Vassilvitskii 2012): five reads draw k candidates each, in
/// proportion to their squared distance from those before, one more read weighs them, and greedy k-means++ and Lloyd's
/// iterations in memory choose among them. plus_plus: one read for each centre (Arthur and Vassilvitskii 2007). random:
/// one read.
enum class Init : std::uint8_t { parallel, plus_plus, random };
Init init_from_name(const std::string& name);

/// k x d float64 in memory. Fewer than k points that differ: some appear more than once.
Array seeds(Graph& graph, const PointsInput& x, const Source& points, Index k, Init init, std::uint64_t seed);
/// Reads of the points that it takes.
Index seeding_passes(Init init, Index k);

inline constexpr Index seeding_rounds = 5;  // of k-means||: more find no better seeds (the paper's figure 5.3)
inline constexpr Index seeding_moves = 20;  // iterations over its candidates
/// Candidates of k-means||, wherever they lie.
class Candidates {
 public:
  virtual ~Candidates() = default;
  /// to[t][i] := ‖candidate i - candidate places[t]‖², of all of them.
  virtual void squares(std::span<const Index> places, std::span<std::vector<double>> to) = 0;
};
/// Draws of greedy k-means++ for each of k seeds; of all trials the squares are in memory, 8 bytes a candidate.
Index greedy_trials(Index k);
/// Greedy k-means++: of the trials, drawn in proportion to weight · D², the one that leaves the least Σ weight · D²
/// (Arthur and Vassilvitskii 2007, as scikit-learn has it). Returns k of the n candidates, fewer than k of which differ
/// at times. 3 n k trials d flops.
std::vector<Index> choose_greedily(Candidates& candidates, const double* weights, Index n, Index k, std::uint64_t seed);

}  // namespace flagstone::cluster
