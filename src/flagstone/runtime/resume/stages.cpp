#include "flagstone/runtime/resume/stages.hpp"

#include "flagstone/runtime/resume/finished_tiles.hpp"
#include "flagstone/runtime/resume/partial_tiles.hpp"

namespace flagstone {

std::string StateParts::full(const std::string& name) const { return name.empty() ? prefix_ : prefix_ + "/" + name; }

void StateParts::bytes(const std::string& name, std::span<std::byte> bytes) {
  if (loading())
    from_->load(full(name), bytes.data(), bytes.size());
  else
    parts_.push_back({full(name), bytes});
}

void StateParts::array(const std::string& name, Array& array) {
  std::vector<Index>& shape = shapes_.emplace_back();
  if (!loading()) {
    shape = array.shape();
    shape.push_back(static_cast<Index>(array.dtype()));
  }
  values(name.empty() ? "shape" : name + "/shape", shape);
  if (loading() && !array) {
    const auto dtype = static_cast<Dtype>(shape.back());
    shape.pop_back();
    array = graph_.allocate(shape, dtype);
  }
  bytes(name, {array.store().memory(), array.nbytes()});
}

void Stages::load(const State& state) const {
  StateParts parts(graph_, state.name, checkpoint_.get());
  state.list(parts);
}

std::shared_ptr<const Stages::State> Stages::add(State state) {
  return states_.emplace_back(std::make_shared<const State>(std::move(state)));
}

Stages::Kept Stages::keep(const std::string& name, std::function<void(StateParts&)> list) {
  const std::shared_ptr<const State> state = add({name, std::move(list)});
  const bool saved = has(name);
  if (saved) load(*state);
  return {*this, state, saved};
}

FinishedTiles Stages::tiles(const Array& out, const Shape& tile, const std::string& name) {
  return {*this, out, tile, name};
}

PartialTiles Stages::tiles(const Array& out, const Shape& tile, Index inner, Index step) {
  return {*this, out, tile, inner, step};
}

Array Stages::kept(const std::string& name, const Shape& shape, Dtype dtype, const Shape& tile, Written written) const {
  std::vector<std::uint8_t> tiles;
  if (checkpoint_->has(name)) tiles = checkpoint_->load<std::uint8_t>(name);
  return kept_array(shape, dtype, tile, checkpoint_->directory() + "/" + name, tiles, written);
}

Array Stages::array_between(const std::string& name, const Shape& shape, Dtype dtype, const Shape& tile,
                            const ScratchSpace& scratch, bool anew) {
  if (!checkpoint_) return temporary_array(shape, dtype, tile, scratch);
  if (anew) checkpoint_->forget(name);
  return kept(name, shape, dtype, tile, Written::always);
}

Array Stages::temporary(const std::string& name, const Shape& shape, Dtype dtype, const Shape& tile, Written written) {
  if (!checkpoint_) return graph_.temporary(shape, dtype, tile, written);
  return kept(name, shape, dtype, tile, written == Written::for_room ? Written::with_checkpoints : written);
}

void Stages::offer(std::optional<double> done) {
  if (!checkpoint_ || !graph_.agree(checkpoint_->due())) return;
  if (!tiles_.empty()) graph_.drain();
  for (FinishedTiles* tiles : tiles_) tiles->settle();
  save(done ? *done : this->done());
}

/// Arrays of one operation are equal shares of its work.
double Stages::done() const {
  double sum = 0;
  for (const FinishedTiles* tiles : tiles_) sum += tiles->done();
  return tiles_.empty() ? 0.0 : sum / static_cast<double>(tiles_.size());
}

void Stages::save(double done) {
  std::deque<StateParts> lists;  // they hold what parts point to
  std::vector<Checkpoint::Part> parts;
  for (const auto& state : states_) {
    StateParts& list = lists.emplace_back(StateParts(graph_, state->name, nullptr));
    state->list(list);
    parts.insert(parts.end(), list.parts_.begin(), list.parts_.end());
  }
  for (const FinishedTiles* tiles : tiles_)
    parts.push_back(Checkpoint::part(tiles->name_, tiles->noted_.data(), tiles->noted_.size()));
  checkpoint_->save(done, parts);
}

}  // namespace flagstone
