#include "flagstone/runtime/graph/call.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "flagstone/base/error.hpp"
#include "flagstone/base/grid.hpp"

namespace flagstone {
namespace {

constexpr std::array<std::string_view, kernel_count> names{"zero",
                                                           "fill",
                                                           "copy",
                                                           "copy_lower",
                                                           "add",
                                                           "scale",
                                                           "gemm",
                                                           "convert",
                                                           "mirror",
                                                           "take",
                                                           "herk",
                                                           "trsm",
                                                           "potrf",
                                                           "getrf",
                                                           "laswp",
                                                           "geqrt",
                                                           "tpqrt",
                                                           "gemqrt",
                                                           "tpmqrt",
                                                           "identity",
                                                           "assemble",
                                                           "evaluate",
                                                           "join",
                                                           "finish",
                                                           "scan",
                                                           "difference",
                                                           "group_fold",
                                                           "group_join",
                                                           "rank_count",
                                                           "rank_choose",
                                                           "rank_collect",
                                                           "rank_select",
                                                           "bin_count",
                                                           "bin_index",
                                                           "generate",
                                                           "csr_multiply",
                                                           "csr_multiply_transposed",
                                                           "csr_pack",
                                                           "csr_finish",
                                                           "csr_gram",
                                                           "csr_gram_matrix",
                                                           "csr_unpack",
                                                           "csr_rows_multiply",
                                                           "csr_rows_multiply_transposed",
                                                           "csr_rows_gram",
                                                           "csr_fold",
                                                           "csr_fold_join",
                                                           "csr_semiring",
                                                           "csr_semiring_transposed",
                                                           "csr_semiring_start",
                                                           "csr_semiring_join",
                                                           "csr_statistics",
                                                           "center",
                                                           "center_gram",
                                                           "assign_points",
                                                           "draw_points",
                                                           "merge_draws",
                                                           "draw_nearest",
                                                           "take_points",
                                                           "take_nearest",
                                                           "take_within",
                                                           "point_distances",
                                                           "round_centres",
                                                           "assign_to_block",
                                                           "sum_of_block",
                                                           "stencil_block",
                                                           "stencil_copy",
                                                           "stencil_strip",
                                                           "fill_buckets",
                                                           "count_labels",
                                                           "label_centroids",
                                                           "split_labels",
                                                           "wide_halves",
                                                           "train_node",
                                                           "sweep_points",
                                                           "encode_node",
                                                           "label_level",
                                                           "best_labels",
                                                           "count_frequencies",
                                                           "project_rest",
                                                           "count_words",
                                                           "gather_clusters",
                                                           "collect_words",
                                                           "score_documents",
                                                           "sum_documents",
                                                           "expect_topics",
                                                           "infer_topics",
                                                           "complete_documents",
                                                           "count_pairs"};
static_assert(!names.back().empty(), "every kernel has a name, in the order of the enumerators");

template <class T>
void sum_into(const Tile& from, const Tile& to) {
  const std::size_t last = from.shape.size() - 1;
  const Index run = from.shape[last];
  if (count(from.shape) == 0) return;
  Shape at(last, 0);
  do {
    const std::byte* source = from.data;
    std::byte* target = to.data;
    for (std::size_t d = 0; d < last; ++d) source += at[d] * from.strides[d], target += at[d] * to.strides[d];
    for (Index i = 0; i < run; ++i)
      *reinterpret_cast<T*>(target + i * to.strides[last]) +=
          *reinterpret_cast<const T*>(source + i * from.strides[last]);
  } while (advance(at, from.shape));
}

void run_zero(const Call& call, std::span<const Tile> tiles) {
  const TilePart& to = call.operands()[0];
  const Tile& tile = tiles[to.access];
  if (to.part.shape.empty()) {
    std::memset(tile.data, 0, tile.bytes);
    return;
  }
  constexpr std::byte nothing[16]{};  // of every dtype
  fill(subtile(tile, to.part), nothing);
}

void run_fill(const Call& call, std::span<const Tile> tiles) {
  const Tile to = operand(call, 0, tiles);
  visit_blas_type(to.dtype, [&](auto value) {
    if constexpr (std::is_floating_point_v<decltype(value)>)
      value = static_cast<decltype(value)>(call.alpha.real());
    else
      value = decltype(value)(call.alpha);
    flagstone::fill(to, &value);
  });
}

void run_copy(const Call& call, std::span<const Tile> tiles) {
  flagstone::copy(operand(call, 0, tiles), operand(call, 1, tiles));
}

void run_add(const Call& call, std::span<const Tile> tiles) {
  const Tile from = operand(call, 0, tiles), to = operand(call, 1, tiles);
  visit_blas_type(from.dtype, [&](auto zero) { sum_into<decltype(zero)>(from, to); });
}

constexpr auto blas_dtypes = {Dtype::float32, Dtype::float64, Dtype::complex64, Dtype::complex128};
const bool entered =
    host_kernels().enter(Kernel::zero, run_zero) && host_kernels().enter(Kernel::fill, blas_dtypes, run_fill) &&
    host_kernels().enter(Kernel::copy, run_copy) && host_kernels().enter(Kernel::add, blas_dtypes, run_add);

}  // namespace

std::string_view name_of(Kernel kernel) noexcept { return names[static_cast<std::size_t>(kernel)]; }

Call::Call(Kernel kernel, Dtype dtype, std::initializer_list<TilePart> parts)
    : kernel(kernel), dtype(dtype), count_(static_cast<std::uint8_t>(parts.size())) {
  std::copy(parts.begin(), parts.end(), operands_.begin());
}

Tile operand(const Call& call, std::size_t i, std::span<const Tile> tiles) {
  const TilePart& part = call.operands()[i];
  const Tile& tile = tiles[part.access];
  return part.part.shape.empty() ? tile : subtile(tile, part.part);
}

bool KernelTable::enter(Kernel kernel, std::initializer_list<Dtype> dtypes, Function function) {
  return enter(kernel, Semiring::plus_times, dtypes, function);
}

bool KernelTable::enter(Kernel kernel, Semiring semiring, std::initializer_list<Dtype> dtypes, Function function) {
  OfDtypes& places = functions_[static_cast<std::size_t>(kernel)][static_cast<std::size_t>(semiring)];
  for (const Dtype dtype : dtypes) {
    Function& place = places[static_cast<std::size_t>(dtype)];
    if (place != nullptr)
      throw Error("kernels: " + std::string(name_of(kernel)) + " of " + std::string(name_of(dtype)) +
                  " was entered twice; a kernel has one function in each memory.");
    place = function;
  }
  return true;
}

bool KernelTable::enter(Kernel kernel, Function function) {
  for (std::size_t d = 0; d < dtype_count; ++d) enter(kernel, {static_cast<Dtype>(d)}, function);
  return true;
}

KernelTable::Function KernelTable::find(Kernel kernel, Dtype dtype, Semiring semiring) const noexcept {
  const auto& of_semirings = functions_[static_cast<std::size_t>(kernel)];
  return of_semirings[static_cast<std::size_t>(semiring)][static_cast<std::size_t>(dtype)];
}

void KernelTable::run(const Call& call, std::span<const Tile> tiles) const {
  const Function function = find(call.kernel, call.dtype, call.semiring);
  if (function == nullptr)
    throw Error("kernels: there is no " + std::string(name_of(call.kernel)) + " of " +
                std::string(name_of(call.dtype)) + "; convert the operands.");
  function(call, tiles);
}

KernelTable& host_kernels() {
  static KernelTable table;
  return table;
}

namespace call {

Call zero(Dtype dtype, TilePart to) { return {Kernel::zero, dtype, {std::move(to)}}; }
Call fill(Dtype dtype, std::complex<double> value, TilePart to) {
  Call made(Kernel::fill, dtype, {std::move(to)});
  made.alpha = value;
  return made;
}
Call copy(Dtype dtype, TilePart from, TilePart to) { return {Kernel::copy, dtype, {std::move(from), std::move(to)}}; }
Call add(Dtype dtype, TilePart from, TilePart to) { return {Kernel::add, dtype, {std::move(from), std::move(to)}}; }

}  // namespace call

}  // namespace flagstone
