#include "flagstone/algorithms/stencil/mesh/transport.hpp"

#include "flagstone/algorithms/stencil/mesh/moves.hpp"

namespace flagstone::stencil {

void Copies::send(const Parcel& parcel) {
  // Both hold the same points: counted from the box's first one.
  const Range3 box = problem_->range({Shape(parcel.taken.box.shape.size(), 0), parcel.taken.box.shape});
  Moves moves(problem_, "stencil_exchange");
  const std::size_t from = moves.read_box(parcel.taken, box), to = moves.write_box(parcel.placed, box);
  moves.copy(from, to, box);
  if (parcel.from % graph_.nodes() != parcel.to % graph_.nodes()) moves.send();
  moves.add_to(graph_);
}

}  // namespace flagstone::stencil
