#include "flagstone/runtime/graph/task.hpp"

#include "flagstone/base/error.hpp"

namespace flagstone {
namespace {

/// One task that all of `before` precede, in the place of as many edges as tasks to come.
std::vector<TaskId> join(Graph& graph, std::vector<TaskId> before) {
  TaskSpec spec;
  spec.name = "join";
  spec.after = std::move(before);
  return {graph.add(std::move(spec))};
}

}  // namespace

std::size_t Task::declare(Access access) {
  accesses_.push_back(std::move(access));
  return accesses_.size() - 1;
}

TaskSpec Task::spec(std::shared_ptr<Task> self) {
  if (id_ != 0) throw Error("graph: the task '" + name_ + "' was added before; make a new one.");
  TaskSpec spec;
  spec.name = name_;
  spec.accesses = accesses_;
  spec.cost = cost();
  spec.priority = priority_;
  for (const auto& parent : parents_) {
    if (parent->id_ == 0)
      throw Error("graph: the task '" + name_ + "' starts after '" + parent->name_ +
                  "', which was not added yet; add parents first.");
    spec.after.push_back(parent->id_);
  }
  parents_.clear();  // a chain of tasks must not keep all that ran before alive
  spec.body = [self = std::move(self)](std::span<const Tile> tiles) { self->execute(tiles); };
  return spec;
}

TaskId Graph::add(std::shared_ptr<Task> task) { return add(std::move(task), {}); }

TaskId Graph::add(std::shared_ptr<Task> task, std::vector<TaskId> after) {
  if (!task) throw Error("graph: a null task was added; make one with std::make_shared.");
  TaskSpec spec = task->spec(task);
  spec.after.insert(spec.after.end(), after.begin(), after.end());
  return task->id_ = add(std::move(spec));  // it may have run by now; `task` keeps it
}

Composition serial(std::vector<Composition> parts) { return {Composition::Kind::serial, std::move(parts)}; }
Composition parallel(std::vector<Composition> parts) { return {Composition::Kind::parallel, std::move(parts)}; }

std::vector<TaskId> add(Graph& graph, const Composition& composition, std::vector<TaskId> after) {
  if (composition.kind_ == Composition::Kind::task) return {graph.add(composition.task_, std::move(after))};
  if (composition.kind_ == Composition::Kind::serial) {
    for (const Composition& part : composition.parts_) {
      const bool fans_out = part.kind_ != Composition::Kind::task;
      if (fans_out && after.size() > 1) after = join(graph, std::move(after));
      after = add(graph, part, std::move(after));
    }
    return after;
  }
  std::vector<TaskId> ends;
  for (const Composition& part : composition.parts_) {
    const auto part_ends = add(graph, part, after);
    ends.insert(ends.end(), part_ends.begin(), part_ends.end());
  }
  return composition.parts_.empty() ? after : ends;
}

}  // namespace flagstone
