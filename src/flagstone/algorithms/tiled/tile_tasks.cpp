#include "flagstone/algorithms/tiled/tile_tasks.hpp"

#include <algorithm>
#include <optional>

#include "flagstone/algorithms/kernels/dense.hpp"
#include "flagstone/kernel/factor/herk.hpp"
#include "flagstone/storage/array/array_store.hpp"

namespace flagstone::linalg {
namespace {

/// Of a stack, the matrices of a tile.
double matrices(const MatrixTile& x) {
  return static_cast<double>(count(x.used.shape)) / std::max(1.0, static_cast<double>(x.rows() * x.cols()));
}

/// A matrix of a tile as its kernel will see it, without data: how a box lies once it is there is its store's affair,
/// and the runtime asks no other.
Tile layout_of(const MatrixTile& x) {
  const ArrayStore& store = x.array().store();
  const Shape strides = x.array().in_memory() ? store.memory_strides() : store.geometry(x.region.box).strides;
  return {nullptr, x.array().dtype(), Shape(x.used.shape.end() - 2, x.used.shape.end()),
          Shape(strides.end() - 2, strides.end()), 0};
}

/// The same of what is changed, turned where it is.
Tile changed_layout(const MatrixTile& c) {
  Tile tile = layout_of(c);
  if (c.op.transpose) std::swap(tile.shape[0], tile.shape[1]), std::swap(tile.strides[0], tile.strides[1]);
  return tile;
}

/// Bytes of copies that BLAS needs of A and B: it conjugates only what it transposes too, and of a stack in another
/// order no dimension of its matrices may be a run. Of stacks for one matrix: they are multiplied one after the other.
/// Asked of the kernel itself, where there is a doubt: the layout of a file's box costs a list of its runs.
std::size_t copied_bytes(const MatrixTile& a, const MatrixTile& b, const MatrixTile& c) {
  const Dtype dtype = c.array().dtype();
  const bool conjugated = is_complex(dtype) && (a.op.conjugate || b.op.conjugate);
  if (is_integer(dtype) || count(c.used.shape) == 0 || (!conjugated && c.array().ndim() == 2)) return 0;
  return kernel::gemm_scratch(layout_of(a), a.op, layout_of(b), b.op, layout_of(c));
}

/// What an operation on whole numbers takes longer than one of BLAS, as bytes that could pass meanwhile.
double whole_number_bytes(Dtype dtype) { return size_of(dtype) < 4 ? 0.2 : size_of(dtype) == 4 ? 0.4 : 1.3; }

TilePart part(std::uint32_t access, const MatrixTile& x) { return {access, x.op.transpose, x.op.conjugate, x.used}; }

bool one_tile(const MatrixTile& x, const MatrixTile& y) {
  return x.region.array.id() == y.region.array.id() && x.region.box.start == y.region.box.start;
}

/// The access of a tile that is changed.
Access changed(Access access, const MatrixTile& c) { return c.again ? again(std::move(access)) : access; }

/// A task of one call that changes `c`, which comes after what it reads.
void add(Graph& graph, const char* name, std::vector<Access> accesses, double flops, Call call, int priority = 0) {
  const bool complex = is_complex(call.dtype);
  TaskSpec task;
  task.name = name;
  task.accesses = std::move(accesses);
  task.cost = {complex ? 4 * flops : flops, 0, real_part_of(call.dtype) == Dtype::float64};
  task.priority = priority;
  task.calls.push_back(std::move(call));
  task.calls.back().flops = task.cost.flops;
  graph.add(std::move(task));
}

void product(Graph& graph, std::complex<double> alpha, const MatrixTile& a, const MatrixTile& b,
             std::complex<double> beta, const MatrixTile& c, const Array* c_in, bool flushed) {
  if (c.op.transpose) return product(graph, alpha, transposed(b), transposed(a), beta, transposed(c), c_in, flushed);
  const Dtype dtype = c.array().dtype();
  TaskSpec task;
  task.name = "gemm";
  const auto touch = [&](Access access) {
    task.accesses.push_back(std::move(access));
    return static_cast<std::uint32_t>(task.accesses.size() - 1);
  };
  const bool has_depth = a.cols() > 0;
  if (has_depth) touch(read(a.region)), touch(read(b.region));
  std::optional<std::uint32_t> old, room;
  if (c_in) old = touch(read({*c_in, c.region.box}));
  const std::uint32_t result = touch(changed(c_in || beta == 0.0 ? write(c.region) : update(c.region), c));
  const std::size_t copies = has_depth ? copied_bytes(a, b, c) : 0;
  if (copies) room = touch(scratch(copies));
  const double flops = 2.0 * matrices(c) * c.rows() * c.cols() * static_cast<double>(a.cols());
  task.cost = {is_complex(dtype) ? 4 * flops : flops, 0, real_part_of(dtype) == Dtype::float64};
  if (is_integer(dtype)) task.cost.bytes_touched = flops * whole_number_bytes(dtype);
  if (old) task.calls.push_back(call::copy(dtype, {*old}, {result}));
  task.calls.push_back(has_depth ? call::gemm(dtype, alpha, part(0, a), part(1, b), beta, {result}, room)
                                 : call::scale(dtype, beta, {result}));
  if (flushed && has_depth) task.calls.back() = call::flushed(std::move(task.calls.back()));
  task.calls.back().flops = task.cost.flops;
  graph.add(std::move(task));
}

void triangle(Graph& graph, double alpha, const MatrixTile& a, double beta, const MatrixTile& c, bool flushed) {
  const Dtype dtype = c.array().dtype();
  std::vector<Access> accesses{read(a.region), changed(beta == 0.0 ? write(c.region) : update(c.region), c)};
  std::optional<std::uint32_t> room;
  const bool may_copy = is_complex(dtype) && count(a.used.shape) > 0;
  const std::size_t copy = may_copy ? kernel::herk_scratch(layout_of(a), a.op, changed_layout(c)) : 0;
  if (copy) accesses.push_back(scratch(copy)), room = 2;
  const double n = static_cast<double>(c.rows());
  add(graph, "herk", std::move(accesses), n * n * static_cast<double>(a.cols()),
      call::herk(dtype, Uplo::lower, alpha, part(0, a), beta, part(1, c), room, flushed));
}

}  // namespace

void gemm(Graph& graph, std::complex<double> alpha, const MatrixTile& a, const MatrixTile& b, std::complex<double> beta,
          const MatrixTile& c, const Array* c_in) {
  product(graph, alpha, a, b, beta, c, c_in, false);
}

void downdate(Graph& graph, const MatrixTile& a, const MatrixTile& b, const MatrixTile& c, std::complex<double> beta) {
  product(graph, -1.0, a, b, beta, c, nullptr, true);
}

void downdate(Graph& graph, const MatrixTile& a, const MatrixTile& c) { triangle(graph, -1.0, a, 1.0, c, true); }

TriangularTile lower(MatrixTile x) { return {std::move(x), Uplo::lower}; }
TriangularTile upper(MatrixTile x) { return {std::move(x), Uplo::upper}; }
TriangularTile adjoint(TriangularTile x) { return {adjoint(std::move(x.tile)), flipped(x.uplo), x.unit}; }

call::Place right_side(std::string who, const MatrixTile& x) {
  const Shape &box = x.region.box.start, &used = x.used.start;
  return {std::move(who), box[0] + used[0], box[1] + used[1], call::Whose::right_sides};
}

void take(Graph& graph, Part which, const MatrixTile& from, double shift, const MatrixTile& to, call::Place place) {
  const Dtype dtype = to.array().dtype();
  Cost cost;
  cost.bytes_touched = 2.0 * static_cast<double>(to.rows() * to.cols()) * static_cast<double>(size_of(dtype));
  TaskSpec task;
  task.name = "take";
  const bool within = one_tile(from, to);
  if (within)
    task.accesses = {changed(update(to.region), to)};
  else
    task.accesses = {read(from.region), changed(write(to.region), to)};
  task.cost = cost;
  task.calls.push_back(call::take(dtype, which, part(0, from), shift, part(within ? 0 : 1, to), std::move(place)));
  graph.add(std::move(task));
}

void look(Graph& graph, Part which, bool unit, const MatrixTile& a, call::Place place) {
  const Dtype dtype = a.array().dtype();
  TaskSpec task;
  task.name = "look";
  task.accesses = {read(a.region)};
  task.cost.bytes_touched = static_cast<double>(a.rows() * a.cols()) * static_cast<double>(size_of(dtype));
  task.calls.push_back(call::look(dtype, which, unit, part(0, a), std::move(place)));
  graph.add(std::move(task));
}

void herk(Graph& graph, double alpha, const MatrixTile& a, double beta, const MatrixTile& c) {
  triangle(graph, alpha, a, beta, c, false);
}

void mirror(Graph& graph, bool conjugate, const MatrixTile& from, const MatrixTile& to) {
  const Dtype dtype = to.array().dtype();
  const bool within = one_tile(from, to);
  TaskSpec task;
  task.name = "mirror";
  if (within)
    task.accesses = {changed(update(to.region), to)};
  else
    task.accesses = {read(from.region), changed(write(to.region), to)};
  task.cost.bytes_touched = 2.0 * static_cast<double>(to.rows() * to.cols()) * static_cast<double>(size_of(dtype));
  task.priority = 1;  // what it reads is written, and gone
  task.calls.push_back(call::mirror(dtype, conjugate, part(0, from), part(within ? 0 : 1, to)));
  graph.add(std::move(task));
}

void copy(Graph& graph, const Region& from, const MatrixTile& to) {
  const Dtype dtype = to.array().dtype();
  TaskSpec task;
  task.name = "copy";
  task.accesses = {read(from), changed(write(to.region), to)};
  task.cost.bytes_touched = 2.0 * static_cast<double>(to.rows() * to.cols()) * static_cast<double>(size_of(dtype));
  task.calls.push_back(call::copy(dtype, {0}, part(1, to)));
  graph.add(std::move(task));
}

void sum_up(Graph& graph, const MatrixTile& from, const MatrixTile& to) {
  const Dtype dtype = to.array().dtype();
  TaskSpec task;
  task.name = "add";
  task.accesses = {last(read(from.region)), changed(update(to.region), to)};
  task.cost.bytes_touched = 3.0 * static_cast<double>(to.rows() * to.cols()) * static_cast<double>(size_of(dtype));
  task.priority = 1;  // frees a tile
  task.calls.push_back(call::add(dtype, part(0, from), part(1, to)));
  graph.add(std::move(task));
}

void trsm(Graph& graph, Side side, const TriangularTile& a, std::complex<double> alpha, const MatrixTile& b,
          call::Place place, const Region* diagonal) {
  const double n = static_cast<double>(a.tile.rows()), elements = static_cast<double>(b.rows() * b.cols());
  std::vector<Access> accesses{read(a.tile.region), changed(update(b.region), b)};
  std::optional<TilePart> to;
  if (diagonal) accesses.push_back(write(*diagonal)), to = TilePart{2};
  add(graph, "trsm", std::move(accesses), n * elements,
      call::trsm(b.array().dtype(), side, a.uplo, a.unit, alpha, part(0, a.tile), part(1, b), std::move(place), to), 1);
}

void potrf(Graph& graph, const MatrixTile& a, call::Place place) {
  const double n = static_cast<double>(a.rows());
  add(graph, "potrf", {update(a.region)}, n * n * n / 3,
      call::potrf(a.array().dtype(), Uplo::lower, part(0, a), std::move(place)), 2);
}

}  // namespace flagstone::linalg
