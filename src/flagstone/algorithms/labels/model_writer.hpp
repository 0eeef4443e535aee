#pragma once
// A model on disk, written chunk by chunk as classifiers are trained.
#include <span>
#include <string>
#include <vector>

#include "flagstone/algorithms/labels/model.hpp"
#include "flagstone/storage/sparse/chunk_appender.hpp"

namespace flagstone::labels {

/// The tile that a task leaves: a chunk's arrays, at most so long.
struct EncodedSize {
  Index rows = 0, entries = 0, children = 0;
  bool small = false;  // int8
  std::size_t bytes() const;
  kernel::ChunkTarget target(std::byte* tile) const;
  /// What is in it: set by note(), asked by the writer.
  static void note(std::byte* tile, const kernel::ChunkTarget& done);
};

/// The arrays of a model in a directory that exists. One thread; holds bytes() beside what it is given.
class ModelWriter {
 public:
  ModelWriter(const std::string& directory, bool small);
  static std::size_t bytes();
  /// Behind those before it: `chunk` says what it is.
  void append(Chunk chunk, const EncodedSize& size, const std::byte* tile);
  /// Of a model of another program: entries as encode_entries takes them, of features below `cols`.
  void append(const Chunk& chunk, std::span<const std::uint64_t> places, const float* weights, Index cols);
  /// What a writer needs to go on from here, once it is durable; and of a new one, to do so.
  std::vector<std::byte> state() const;
  void restore(std::span<const std::byte> state);
  /// The table, and the order of the labels of each tree.
  void finish(const std::vector<std::int32_t>& label_at);

 private:
  std::string directory_;
  bool small_;
  ChunkAppender steps_, counts_, children_, weights_, scales_, chunks_, order_;
};

}  // namespace flagstone::labels
