#include "flagstone/algorithms/stencil/mesh/moves.hpp"

#include <utility>

namespace flagstone::stencil {

struct Moves::Work final : StencilWork {
  struct Copy {
    std::size_t from = 0, to = 0;
    Range3 range;
    Axes shift;
  };
  std::shared_ptr<const Problem> problem;
  std::vector<Range3> boxes;  // of each tile
  std::vector<Copy> copies;

  void run(std::span<const Tile> tiles) const override {
    for (const Copy& copy : copies)
      kernel::copy_points(points_of(*problem, tiles[copy.from], boxes[copy.from], copy.shift),
                          points_of(*problem, tiles[copy.to], boxes[copy.to]), copy.range, problem->space.item);
  }
};

Moves::Moves(std::shared_ptr<const Problem> problem, std::string name) : work_(std::make_shared<Work>()) {
  work_->problem = std::move(problem), task_.name = std::move(name);
}

std::size_t Moves::read_box(Region region, const Range3& range) {
  task_.accesses.push_back(read(std::move(region)));
  work_->boxes.push_back(range);
  return work_->boxes.size() - 1;
}

std::size_t Moves::write_box(Region region, const Range3& range) {
  task_.accesses.push_back(once(write(std::move(region))));
  work_->boxes.push_back(range);
  return work_->boxes.size() - 1;
}

void Moves::copy(std::size_t from, std::size_t to, const Range3& range, const Axes& shift) {
  work_->copies.push_back({from, to, range, shift});
  task_.cost.bytes_touched += 2 * static_cast<double>(range.count() * work_->problem->item());
}

void Moves::add_to(Graph& graph) {
  task_.calls = {call_of(*work_->problem, work_, 0, Kernel::stencil_copy)};
  graph.add(std::move(task_));
}

}  // namespace flagstone::stencil
