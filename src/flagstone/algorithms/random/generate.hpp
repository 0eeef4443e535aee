#pragma once
// Random numbers written straight to where they belong.
#include <memory>

#include "flagstone/kernel/random/draw.hpp"
#include "flagstone/runtime/graph/graph.hpp"

namespace flagstone::random {

/// out := the draw's numbers, one task for about 4 MiB of whole chunks. One write. Each number is a function of the
/// seed, the call and its place alone.
void generate(Graph& graph, std::shared_ptr<const kernel::Draw> draw, const Array& out);

}  // namespace flagstone::random
