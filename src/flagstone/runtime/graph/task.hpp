#pragma once
// Tasks as classes, and tasks put together. The same words as in graph.hpp: a derived class declares what it touches in
// its constructor and computes in execute().
#include <memory>
#include <string>
#include <vector>

#include "flagstone/runtime/graph/graph.hpp"

namespace flagstone {

/// Derive from it, declare in the constructor, compute in execute(), and give it to Graph::add. A task is added once;
/// the graph keeps it alive until it has run.
class Task {
 public:
  virtual ~Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  /// On a worker thread; `tiles` in the order of the declarations. What it throws stops the graph and leaves run().
  virtual void execute(std::span<const Tile> tiles) = 0;
  /// For plans and statistics; asked once, when the task is added.
  virtual Cost cost() const { return {}; }

  /// What accesses do not express: this task starts after `parent` has finished. The parent is added first.
  void after(const std::shared_ptr<Task>& parent) { parents_.push_back(parent); }
  /// Higher first among startable tasks.
  void set_priority(int priority) { priority_ = priority; }
  const std::string& name() const { return name_; }
  /// Once it was added; 0 before. For who adds, not for execute().
  TaskId id() const { return id_; }

 protected:
  explicit Task(std::string name) : name_(std::move(name)) {}

  // Each says which of execute()'s tiles the access is.
  std::size_t input(Region region) { return declare(flagstone::read(std::move(region))); }
  /// Overwrites all of it: never loaded.
  std::size_t output(Region region) { return declare(flagstone::write(std::move(region))); }
  std::size_t update(Region region) { return declare(flagstone::update(std::move(region))); }
  /// A private tile, zero at entry, that is added into the region in a fixed tree.
  std::size_t reduce(Region region) { return declare(flagstone::reduce(std::move(region))); }
  std::size_t scratch(std::size_t bytes) { return declare(flagstone::scratch(bytes)); }
  std::size_t declare(Access access);

 private:
  friend class Graph;
  TaskSpec spec(std::shared_ptr<Task> self);

  std::string name_;
  std::vector<Access> accesses_;
  std::vector<std::shared_ptr<Task>> parents_;
  int priority_ = 0;
  TaskId id_ = 0;
};

/// Tasks put together, one after the other or side by side, as deep as you like. A value: nothing happens before add().
class Composition {
 public:
  Composition(std::shared_ptr<Task> task) : task_(std::move(task)) {}  // NOLINT: meant to convert
  template <class Derived>
  Composition(std::shared_ptr<Derived> task) : task_(std::move(task)) {}

  friend Composition serial(std::vector<Composition> parts);
  friend Composition parallel(std::vector<Composition> parts);
  /// Adds all of it; the first tasks start after `after`. Returns the tasks that end it: what starts after those starts
  /// after all of it. Cost: where p tasks meet q others, one empty task instead of p q edges.
  friend std::vector<TaskId> add(Graph& graph, const Composition& composition, std::vector<TaskId> after);

 private:
  enum class Kind { task, serial, parallel };
  Composition(Kind kind, std::vector<Composition> parts) : kind_(kind), parts_(std::move(parts)) {}

  Kind kind_ = Kind::task;
  std::shared_ptr<Task> task_;
  std::vector<Composition> parts_;
};
Composition serial(std::vector<Composition> parts);
Composition parallel(std::vector<Composition> parts);
std::vector<TaskId> add(Graph& graph, const Composition& composition, std::vector<TaskId> after = {});

}  // namespace flagstone
