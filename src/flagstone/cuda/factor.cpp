// Cholesky and LU of tiles: cuSOLVER.
#include "flagstone/algorithms/kernels/factor.hpp"
#include "flagstone/cuda/kernels.hpp"

namespace flagstone::cuda {
namespace {

using kernel::Uplo;

}  // namespace

void run_potrf(Work& work) {
  const auto& form = work.call.value_as<call::Factor>();
  Columns a(work, work.turned(0));
  const Index n = a.seen.shape[0];
  if (n == 0) return;
  // By columns a tile of rows is Aᵀ = conj(A), whose upper factor is Lᵀ: in place it is L again.
  const auto half = (form.uplo == Uplo::lower) != a.turned ? CUBLAS_FILL_MODE_LOWER : CUBLAS_FILL_MODE_UPPER;
  const cudaDataType type = type_of(work.call.dtype);
  std::size_t device = 0, host = 0;
  check(cusolverDnXpotrf_bufferSize(work.with.solver, work.with.params, half, n, type, a.seen.data, a.ld(), type,
                                    &device, &host),
        "a Cholesky factorization");
  std::byte* const memory = work.space.take(device);
  int* const info = reinterpret_cast<int*>(work.space.take(sizeof(int)));
  if (!work.runs()) return;
  check(cusolverDnXpotrf(work.with.solver, work.with.params, half, n, type, a.seen.data, a.ld(), type, memory, device,
                         work.slot->host_bytes(host), host, info),
        "a Cholesky factorization");
  find_minor(work.stream(), diagonal_of(a.seen), info, work.slot->word());
  a.write(work);
}

void potrf_verdict(const Call& call, std::span<const Tile>, Found found) {
  if (found != nothing_found) call::refuse_minor(call.value_as<call::Factor>().place, static_cast<Index>(found) + 1);
}

void run_getrf(Work& work) {
  Columns a = Columns::upright(work, work.at(0));  // pivots are rows: a panel by rows cannot be seen transposed
  const Tile pivots = work.at(1);
  const Index m = a.seen.shape[0], n = a.seen.shape[1];
  if (n == 0) return;
  const cudaDataType type = type_of(work.call.dtype);
  std::size_t device = 0, host = 0;
  check(cusolverDnXgetrf_bufferSize(work.with.solver, work.with.params, m, n, type, a.seen.data, a.ld(), type, &device,
                                    &host),
        "an LU factorization");
  std::byte* const memory = work.space.take(device);
  int* const info = reinterpret_cast<int*>(work.space.take(sizeof(int)));
  auto* const chosen =
      reinterpret_cast<std::int64_t*>(work.space.take(static_cast<std::size_t>(n) * sizeof(std::int64_t)));
  if (!work.runs()) return;
  check(cusolverDnXgetrf(work.with.solver, work.with.params, m, n, type, a.seen.data, a.ld(), chosen, type, memory,
                         device, work.slot->host_bytes(host), host, info),
        "an LU factorization");
  number_pivots(work.stream(), chosen, work.call.value_as<call::Factor>().place.row, pivots);
  a.write(work);
}

void run_laswp(Work& work) {
  if (!work.runs()) return;
  const auto& form = work.call.value_as<call::Factor>();
  const Tile pivots = work.at(0), lower = work.at(1);
  const Tile none{nullptr, lower.dtype, {0, lower.shape[1]}, lower.strides, 0};
  swap_rows(work.stream(), work.call.operands().size() > 2 ? work.at(2) : none, lower, form.place.row, form.place.col,
            pivots, form.unit);
}

}  // namespace flagstone::cuda
