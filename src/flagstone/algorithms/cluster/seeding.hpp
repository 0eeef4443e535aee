#pragma once
// Where k-means starts: k of the points, drawn at random.
#include <cstdint>
#include <string>

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

}  // namespace flagstone::cluster
