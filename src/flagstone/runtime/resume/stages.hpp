#pragma once
// The stages of a long operation: what a process that took over from a dead one does not compute again.
#include <concepts>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "flagstone/runtime/graph/graph.hpp"
#include "flagstone/storage/array/scratch_array.hpp"
#include "flagstone/storage/output/checkpoint.hpp"
#include "flagstone/storage/scratch/quota.hpp"

namespace flagstone {

class FinishedTiles;
class PartialTiles;

/// The parts of a state, named. One function lists them, for saving and for loading: where a state is saved its parts
/// are read, where it is loaded they are set.
class StateParts {
 public:
  bool loading() const { return from_ != nullptr; }

  template <class T>
  requires std::is_trivially_copyable_v<T>
  void value(const std::string& name, T& value) { bytes(name, std::as_writable_bytes(std::span(&value, 1))); }
  /// A vector or a string.
  template <class Values>
  void values(const std::string& name, Values& values) {
    if (loading()) values.resize(from_->bytes_of(full(name)) / sizeof(typename Values::value_type));
    bytes(name, std::as_writable_bytes(std::span(values.data(), values.size())));
  }
  /// In memory. Loaded into an empty one it is allocated, and charged.
  void array(const std::string& name, Array& array);

 private:
  friend class Stages;
  StateParts(Graph& graph, std::string prefix, const Checkpoint* from)
      : graph_(graph), prefix_(std::move(prefix)), from_(from) {}
  /// "" is the state itself.
  std::string full(const std::string& name) const;
  void bytes(const std::string& name, std::span<std::byte> bytes);

  Graph& graph_;
  std::string prefix_;
  const Checkpoint* from_;
  std::vector<Checkpoint::Part> parts_;
  std::deque<std::vector<Index>> shapes_;  // of arrays that are saved
};

/// The parts of what Stages::once returns; a type of one's own has such a function beside it.
inline void list_parts(StateParts& parts, Array& array) { parts.array("", array); }

/// One operation's. Everything that is kept is saved together, where a checkpoint is due and somebody offers one; what
/// a dead process saved is loaded instead of computed. A stage that is done takes the place of what was kept inside it.
/// Tiles of outputs belong to the same save: finished_tiles.hpp and, of tiles that go on changing, partial_tiles.hpp.
/// Without a checkpoint, and in planned runs, nothing is saved and nothing is loaded. The builder's thread only; lives
/// as long as the run's build at most.
class Stages {
 public:
  Stages(Graph& graph, std::shared_ptr<Checkpoint> checkpoint)
      : graph_(graph), checkpoint_(graph.planning() ? nullptr : std::move(checkpoint)) {}
  Stages(const Stages&) = delete;

  /// make(), or what a dead process's make() returned. `done`: of all the work, once this is: a number, or a function
  /// of the result.
  template <class Make, class Done>
  auto once(const std::string& name, Make&& make, Done&& done) {
    using Result = std::invoke_result_t<Make&>;
    if (!checkpoint_) return make();
    Result result;
    const bool saved = has(name);
    const std::size_t outside = states_.size();
    if (saved) {
      load({name, [&](StateParts& parts) { list_parts(parts, result); }});
    } else {
      result = make();
      states_.resize(outside);
    }
    add({name, [kept = result](StateParts& parts) mutable { list_parts(parts, kept); }});
    if (saved) return result;
    if constexpr (std::invocable<Done&, const Result&>)
      offer(done(result));
    else
      offer(done);
    return result;
  }

  class Kept;
  /// Keeps a state that goes on changing while the result lives: loaded here, if a dead process saved it, and a part of
  /// every save. One without parts is not saved.
  [[nodiscard]] Kept keep(const std::string& name, std::function<void(StateParts&)> list);

  /// What the operation was begun with, a vector or a string, noted in every save; true where a dead process began with
  /// the same.
  template <class Values>
  bool begun_with(const std::string& name, Values values) {
    const std::optional<Values> before = begun_before<Values>(checkpoint_.get(), name);
    add({name, [values](StateParts& parts) mutable { parts.values("", values); }});
    return before == values;
  }
  /// For choices that are made before there is a run: what a dead process began with.
  template <class Values>
  static std::optional<Values> begun_before(const Checkpoint* checkpoint, const std::string& name) {
    if (!checkpoint || !checkpoint->has(name)) return std::nullopt;
    Values values(checkpoint->bytes_of(name) / sizeof(typename Values::value_type), {});
    checkpoint->load(name, values.data(), values.size() * sizeof(typename Values::value_type));
    return values;
  }

  /// The tiles of an output, each written once.
  FinishedTiles tiles(const Array& out, const Shape& tile, const std::string& name = "tiles");
  /// The tiles of a matrix that are summed up in steps of `step` along an inner dimension of extent `inner`.
  PartialTiles tiles(const Array& out, const Shape& tile, Index inner, Index step);
  /// An array of tiles between two parts of the work: nameless in `scratch`, or in a file beside the checkpoint, with
  /// what a dead process wrote of it unless `anew`. Its tiles() have the same name.
  Array array_between(const std::string& name, const Shape& shape, Dtype dtype, const Shape& tile,
                      const ScratchSpace& scratch, bool anew);

  /// Graph::temporary; where something is saved, in a file beside the checkpoint, with what a dead process wrote of it:
  /// its tiles() have the same name, and it is written where room is needed or a save speaks of it (`streamed`: as soon
  /// as it is made).
  Array temporary(const std::string& name, const Shape& shape, Dtype dtype, const Shape& tile,
                  Written written = Written::for_room);

  /// Where a checkpoint is due: waits until everything added so far is computed and written, syncs the outputs, saves.
  /// `done`: of all the work; as the tiles say where it is not given.
  void offer(std::optional<double> done = {});
  /// Whether anything is saved at all.
  bool saving() const { return checkpoint_ != nullptr; }
  /// Where it is saved, and files beside it lie.
  const std::string& directory() const { return checkpoint_->directory(); }
  /// Whether a dead process saved a state of this name.
  bool has(const std::string& name) const { return checkpoint_ && checkpoint_->has_state(name); }

 private:
  friend class FinishedTiles;
  friend class PartialTiles;
  Array kept(const std::string& name, const Shape& shape, Dtype dtype, const Shape& tile, Written written) const;
  struct State {
    std::string name;
    std::function<void(StateParts&)> list;
  };
  void load(const State& state) const;
  std::shared_ptr<const State> add(State state);
  double done() const;
  void save(double done);

  Graph& graph_;
  std::shared_ptr<Checkpoint> checkpoint_;
  std::vector<std::shared_ptr<const State>> states_;
  std::vector<FinishedTiles*> tiles_;
};

/// A state is kept while it lives.
class Stages::Kept {
 public:
  Kept(const Kept&) = delete;
  ~Kept() { std::erase(stages_.states_, state_); }
  /// Whether a dead process saved it.
  bool loaded() const { return loaded_; }

 private:
  friend class Stages;
  Kept(Stages& stages, std::shared_ptr<const State> state, bool loaded)
      : stages_(stages), state_(std::move(state)), loaded_(loaded) {}

  Stages& stages_;
  std::shared_ptr<const State> state_;
  bool loaded_;
};

}  // namespace flagstone
