#pragma once
// What all arrays have in common whose elements are computed where they are loaded.
#include <cstdint>
#include <span>
#include <vector>

#include "flagstone/storage/array/array.hpp"

namespace flagstone {

/// Nothing is stored: what is asked of the layout is answered from the operands.
class LazyStore : public ArrayStore {
 public:
  LazyStore(std::vector<Array> operands, Dtype dtype);

  /// StorageError: there is nowhere to write to.
  Transfer write(const Box& box) override;
  /// The geometry alone, for whoever asks how boxes lie.
  Transfer planned_write(const Box& box) override;
  std::uint64_t look() override;
  std::uint64_t pass_bytes() const override;
  std::uint64_t unpack_bytes() const override;
  bool imagined() const override { return imagined_; }
  bool verified() const override;
  bool computed_anew() const override;
  std::span<const Array> operands() const override { return operands_; }

 protected:
  const std::vector<Array> operands_;
  const std::size_t item_;

 private:
  const bool imagined_;  // asked for each task that reads it
};

/// Whether boxes of any shape are read alike: flat files; not what is verified or unpacked by chunks.
bool is_flat(const Array& array);
/// Whether the first dimension of a flat array lies closest in its file, not the last.
bool lies_by_columns(const Array& array);
/// Elements of one request of a dense array in C order that is cut to `box`.
Index c_run(const Shape& shape, const Shape& box);

}  // namespace flagstone
