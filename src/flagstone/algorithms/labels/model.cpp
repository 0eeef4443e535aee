#include "flagstone/algorithms/labels/model.hpp"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/kernel/decode/blosc.hpp"
#include "flagstone/storage/sparse/panels.hpp"

namespace flagstone::labels {
namespace {

constexpr Index most_entries = Index{1} << 20;  // of a block, and no less than a chunk

FormatError damaged(const std::string& path, const std::string& what) {
  return FormatError("open_labels: " + path + ": " + what + "; the model is damaged, write or copy it again.");
}

std::vector<Chunk> table_of(const ModelParts& parts) {
  const Index n = parts.chunks.shape()[0];
  if (n % chunk_numbers != 0) throw damaged(parts.path, "the table of chunks ends in the middle of a row");
  const std::vector<Index> numbers = read_integers(parts.chunks, 0, n);
  std::vector<Chunk> made;
  const Index rows = parts.steps.shape()[0], entries = parts.children.shape()[0];
  for (Index at = 0; at < n; at += chunk_numbers) {
    const Index* v = numbers.data() + at;
    made.push_back({v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9]});
    const Chunk& one = made.back();
    const bool fits = one.level >= 0 && one.tree >= 0 && one.tree < parts.trees && one.node >= 0 && one.first >= 0 &&
                      one.children >= 1 && one.children <= kernel::most_children && one.row >= 0 && one.rows >= 0 &&
                      one.row + one.rows <= rows && one.entry >= 0 && one.entries >= 0 &&
                      one.entry + one.entries <= entries && one.column >= 0 &&
                      (!parts.scales || one.column <= parts.scales->shape()[0] - one.children);
    if (!fits) throw damaged(parts.path, "chunk " + std::to_string(at / chunk_numbers) + " is out of range");
  }
  return made;
}

void add_to(Block& block, const Chunk& one) {
  if (block.chunks.empty()) block.row = one.row, block.entry = one.entry, block.column = one.column;
  block.rows += one.rows, block.entries += one.entries, block.columns += one.children;
  block.most_rows = std::max(block.most_rows, one.rows);
  block.chunks.push_back(one);
}

void finish(Block& block) {
  std::ranges::sort(block.chunks, {}, [](const Chunk& c) { return std::tuple(c.tree, c.node, c.first); });
  Index parts = 0;
  for (std::size_t i = 0; i < block.chunks.size(); ++i) {
    const bool same =
        i > 0 && block.chunks[i - 1].tree == block.chunks[i].tree && block.chunks[i - 1].node == block.chunks[i].node;
    parts = same ? parts + 1 : 1;
    block.most_parts = std::max(block.most_parts, parts);
  }
}

std::vector<Block> blocks_of(std::vector<Chunk> chunks) {
  std::ranges::sort(chunks, {}, &Chunk::column);  // as they lie
  std::vector<Block> made;
  for (const Chunk& one : chunks) {
    const bool follows = !made.empty() && made.back().row + made.back().rows == one.row &&
                         made.back().entry + made.back().entries == one.entry &&
                         made.back().column + made.back().columns == one.column &&
                         made.back().entries + one.entries <= most_entries;
    if (!follows) made.emplace_back();
    add_to(made.back(), one);
  }
  for (Block& block : made) finish(block);
  return made;
}

/// What each part is stored as, and that those which belong together are as long.
void check_parts(const ModelParts& parts) {
  const auto is = [&](const Array& part, Dtype dtype, const char* name) {
    if (part.ndim() != 1 || part.dtype() != dtype)
      throw damaged(parts.path, std::string(name) + " is " + to_string(part.shape()) + " " +
                                    std::string(name_of(part.dtype())) + " where a line of " +
                                    std::string(name_of(dtype)) + " is needed");
  };
  is(parts.steps, Dtype::uint16, "steps");
  is(parts.counts, Dtype::uint8, "counts");
  is(parts.children, Dtype::uint8, "children");
  is(parts.weights, parts.scales ? Dtype::int8 : Dtype::float32, "weights");
  if (parts.scales) is(*parts.scales, Dtype::float32, "scales");
  is(parts.chunks, Dtype::int64, "chunks");
  is(parts.order, Dtype::int32, "order");
  if (parts.counts.shape() != parts.steps.shape() || parts.weights.shape() != parts.children.shape())
    throw damaged(parts.path, "parts of it are cut short");
}

}  // namespace

Model::Model(ModelParts parts) : ModelParts(std::move(parts)) {
  check_parts(*this);
  std::vector<Chunk> table = table_of(*this);
  if (table.empty()) throw damaged(path, "it has no nodes");
  forest ? take_forest(std::move(table)) : take_trees(table);
  streams = {
      sparse::stream_of(steps), sparse::stream_of(counts), sparse::stream_of(children), sparse::stream_of(weights), {}};
  if (scales) streams.scales = sparse::stream_of(*scales);
}

void Model::take_trees(const std::vector<Chunk>& table) {
  Index deepest = 0;
  for (const Chunk& one : table) deepest = std::max(deepest, one.level);
  if (deepest > 64) throw damaged(path, "a chunk lies at level " + std::to_string(deepest));
  if (order.shape()[0] != trees * labels) throw damaged(path, "its order of labels has another length");
  const std::vector<Index> places = read_integers(order, 0, trees * labels);
  for (const Index label : places)
    if (label < 0 || label >= labels) throw damaged(path, "label " + std::to_string(label) + " is out of range");
  label_at.assign(places.begin(), places.end());
  leaves.resize(static_cast<std::size_t>(trees));
  depth = deepest + 1;
  for (Index level = 0; level <= deepest; ++level) {
    std::vector<Chunk> own;
    std::ranges::copy_if(table, std::back_inserter(own), [&](const Chunk& one) { return one.level == level; });
    if (own.empty()) throw damaged(path, "level " + std::to_string(level) + " has no nodes");
    if (level == deepest) {
      std::ranges::sort(own, {}, [](const Chunk& c) { return std::tuple(c.tree, c.node, c.first); });
      for (const Chunk& one : own) {
        auto& of_tree = leaves[static_cast<std::size_t>(one.tree)];
        const auto node = static_cast<std::size_t>(one.node);
        if (node > label_at.size()) throw damaged(path, "leaf " + std::to_string(node) + " is out of range");
        if (of_tree.size() <= node) of_tree.resize(node + 1, {0, 0});
        if (of_tree[node].second == 0) of_tree[node].first = static_cast<std::int32_t>(one.first);
        of_tree[node].second += static_cast<std::int32_t>(one.children);
        const Index end = Index{of_tree[node].first} + of_tree[node].second;
        if (end != one.first + one.children || end > labels)
          throw damaged(path, "the labels of leaf " + std::to_string(node) + " have gaps");
        most_leaf = std::max(most_leaf, Index{of_tree[node].second});
      }
    }
    levels.push_back(blocks_of(std::move(own)));
  }
}

void Model::take_forest(std::vector<Chunk> table) {
  const auto of = [&](Index level) {
    std::vector<Chunk> own;
    std::ranges::copy_if(table, std::back_inserter(own), [&](const Chunk& one) { return one.level == level; });
    return own;
  };
  Index deepest = -1;
  for (const Chunk& one : table) {
    if (one.children != 1 || one.node >= Index{1} << 31 || one.first >= (Index{1} << 31) - 1)
      throw damaged(path, "a node of a forest is out of range");
    if (one.level == leaf_level) most_leaf = std::max(most_leaf, one.entries);
    if (one.level < leaf_level) deepest = std::max(deepest, one.level);
    if (one.level < leaf_level && one.first <= one.node)
      throw damaged(path, "node " + std::to_string(one.node) + " of tree " + std::to_string(one.tree) +
                              " has children before it");
    if (one.level == tail_level && one.node >= labels) throw damaged(path, "its tail has more labels than it");
  }
  if (most_leaf > labels) throw damaged(path, "a leaf has more labels than it");
  depth = deepest + 1;
  leaf_vectors = blocks_of(of(leaf_level)), tail = blocks_of(of(tail_level));
  std::erase_if(table, [](const Chunk& one) { return one.level >= leaf_level; });
  if (!table.empty()) levels.push_back(blocks_of(table));
}

std::size_t Model::held_bytes() const {
  std::size_t chunks_held = 0, leaves_held = 0;
  const auto add = [&](const std::vector<Block>& blocks) {
    for (const Block& block : blocks) chunks_held += sizeof(Block) + block.chunks.size() * sizeof(Chunk);
  };
  for (const auto& level : levels) add(level);
  add(leaf_vectors), add(tail);
  for (const auto& of_tree : leaves) leaves_held += of_tree.size() * 8;
  return chunks_held + leaves_held + label_at.size() * 4;
}

Index Model::leaves_for(Index k) const {
  Index most = 1;
  for (const auto& of_tree : leaves) {
    std::vector<std::int32_t> sizes;
    for (const auto& [first, n] : of_tree)
      if (n > 0) sizes.push_back(n);
    std::ranges::sort(sizes);
    Index held = 0, number = 0;
    for (auto size = sizes.begin(); size != sizes.end() && held < k; ++size) held += *size, ++number;
    most = std::max(most, number);
  }
  return most;
}

BlockReader::BlockReader(const Model& model, const Block& block)
    : path_(model.path),
      features_(model.features),
      labels_(model.labels),
      block_(block),
      small_(model.small()),
      steps_(model.streams.steps, block.row, block.row + block.rows),
      counts_(model.streams.counts, block.row, block.row + block.rows),
      children_(model.streams.children, block.entry, block.entry + block.entries),
      weights_(model.streams.weights, block.entry, block.entry + block.entries) {
  if (small_) scales_ = {model.streams.scales, block.column, block.column + block.columns};
}

void BlockReader::access(std::vector<Access>& accesses) {
  steps_.access(accesses), counts_.access(accesses), children_.access(accesses), weights_.access(accesses);
  if (small_) scales_.access(accesses);
}

namespace {

std::size_t room(Index n, std::size_t item) { return align_up(static_cast<std::size_t>(n) * item, 64); }

}  // namespace

std::size_t BlockReader::scratch_bytes() const {
  return room(block_.rows, 2) + room(block_.rows, 1) + room(block_.entries, 1) + room(block_.entries, small_ ? 1 : 4) +
         room(block_.columns, 4) + kernel::decode_workspace;
}

double BlockReader::decoded_bytes() const {
  return 3.0 * static_cast<double>(block_.rows) + 5.0 * static_cast<double>(block_.entries);
}

void BlockReader::load(std::span<const Tile> tiles, std::byte* memory) {
  const auto take = [&](const sparse::RangeReader& from, Index first, Index n, std::size_t item) {
    std::byte* to = std::exchange(memory, memory + room(n, item));
    return std::tuple(to, &from, first, n);
  };
  const auto parts = {take(steps_, block_.row, block_.rows, 2), take(counts_, block_.row, block_.rows, 1),
                      take(children_, block_.entry, block_.entries, 1),
                      take(weights_, block_.entry, block_.entries, small_ ? 1 : 4)};
  auto* scales = reinterpret_cast<float*>(std::exchange(memory, memory + room(block_.columns, 4)));
  const std::span<std::byte> workspace(memory, kernel::decode_workspace);
  for (const auto& [to, from, first, n] : parts)
    if (n > 0) from->fetch(tiles, first, first + n, to, workspace);
  if (small_ && block_.columns > 0)
    scales_.fetch(tiles, block_.column, block_.column + block_.columns, reinterpret_cast<std::byte*>(scales),
                  workspace);
  const auto at = [&](std::size_t i) { return std::get<0>(parts.begin()[i]); };
  all_ = {block_.rows,
          0,
          reinterpret_cast<const std::uint16_t*>(at(0)),
          reinterpret_cast<const std::uint8_t*>(at(1)),
          reinterpret_cast<const std::uint8_t*>(at(2)),
          at(3),
          small_ ? scales : nullptr};
  for (std::size_t i = 0; i < block_.chunks.size(); ++i) {
    const kernel::ChunkView one = chunk(i);
    Index feature = 0, entries = 0;
    for (Index r = 0; r < one.rows; ++r) feature += one.steps[r], entries += one.counts[r];
    const bool children = std::all_of(one.child, one.child + block_.chunks[i].entries,
                                      [&](std::uint8_t child) { return Index{child} < one.children; });
    const bool of_labels = block_.chunks[i].level == leaf_level;
    if (feature > (of_labels ? labels_ - 1 : features_) || entries != block_.chunks[i].entries || !children)
      throw damaged(path_, "the weights of node " + std::to_string(block_.chunks[i].node) + " of tree " +
                               std::to_string(block_.chunks[i].tree) + " do not fit its table");
  }
}

kernel::ChunkView BlockReader::chunk(std::size_t i) const {
  const Chunk& one = block_.chunks[i];
  const Index row = one.row - block_.row, entry = one.entry - block_.entry;
  return {one.rows,
          one.children,
          all_.steps + row,
          all_.counts + row,
          all_.child + entry,
          all_.weights + entry * (small_ ? 1 : 4),
          small_ ? all_.scales + (one.column - block_.column) : nullptr};
}

}  // namespace flagstone::labels
