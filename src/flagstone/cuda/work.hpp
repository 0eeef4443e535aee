#pragma once
// A call on its way to the device: its tiles, memory beside them, and the libraries of its stream.
#include <cublas_v2.h>
#include <cusolverDn.h>

#include <algorithm>
#include <span>

#include "flagstone/cuda/queue.hpp"
#include "flagstone/cuda/status.hpp"
#include "flagstone/kernel/dense/blas3.hpp"
#include "flagstone/kernel/dense/layout.hpp"
#include "flagstone/runtime/graph/call.hpp"

namespace flagstone::cuda {

/// The libraries of one stream.
struct Libraries {
  cudaStream_t stream{};
  cublasHandle_t blas{};
  cusolverDnHandle_t solver{};
  cusolverDnParams_t params{};
  bool tf32 = false;
};

/// Parts of a workspace, one after the other. Without memory it counts.
class Workspace {
 public:
  Workspace() : begin_(reinterpret_cast<std::byte*>(alignment)) {}  // some libraries refuse null even for a question
  explicit Workspace(std::byte* begin) : begin_(begin) {}
  std::byte* take(std::size_t bytes) {
    std::byte* const at = begin_ + used_;
    used_ += (bytes + alignment - 1) / alignment * alignment;
    most_ = std::max(most_, used_);
    return at;
  }
  /// Begins again.
  void reuse(std::size_t used) { used_ = used; }
  /// A matrix of this dtype, by columns.
  Tile matrix(Dtype dtype, Index rows, Index cols);
  std::size_t used() const noexcept { return used_; }
  std::size_t most() const noexcept { return most_; }

 private:
  static constexpr std::size_t alignment = 256;
  std::byte* begin_;
  std::size_t used_ = 0, most_ = 0;
};

/// Each kernel is one function, which first takes its workspace and then, where `runs`, computes: so that both agree.
struct Work {
  const Call& call;
  std::span<const Tile> tiles;
  Workspace space;
  const Libraries& with;
  Slot* slot = nullptr;  // null: bytes are asked for, nothing runs

  bool runs() const noexcept { return slot != nullptr; }
  cudaStream_t stream() const noexcept { return with.stream; }
  /// The part that operand i names; `turned`: as the call sees it.
  Tile at(std::size_t i) const { return operand(call, i, tiles); }
  Tile turned(std::size_t i) const;
  kernel::Op op(std::size_t i) const { return {call.operands()[i].transpose, call.operands()[i].conjugate}; }
};

/// The tile transposed; shares memory.
Tile transposed(Tile tile);
/// Of a square or other matrix its diagonal.
Tile diagonal_of(const Tile& tile);
/// A matrix that a kernel reads (and changes) by columns: the tile's own memory where that is so stored, or stored by
/// rows (`turned`); else a copy in workspace. write() puts a copy back.
struct Columns {
  Columns(Work& work, const Tile& tile, bool read = true);
  /// As Columns, but never turned: a tile stored by rows is copied, too.
  static Columns upright(Work& work, const Tile& tile, bool read = true);
  void write(Work& work) const;

  Tile seen;  // by columns, transposed if `turned`
  bool turned = false, copied = false;
  Index ld() const;
  int rows() const { return static_cast<int>(seen.shape[0]); }
  int cols() const { return static_cast<int>(seen.shape[1]); }

 private:
  Columns() = default;
  void copy_of(Work& work, const Tile& tile, bool read);
  Tile tile_;
};

cudaDataType type_of(Dtype dtype);
/// A scalar as the libraries read it from the host.
struct Scalar {
  Scalar(Dtype dtype, std::complex<double> value);
  alignas(16) std::byte bytes[16];
  template <class T>
  const T* as() const {
    return reinterpret_cast<const T*>(bytes);
  }
};

}  // namespace flagstone::cuda
