#include "flagstone/algorithms/spectral/orthonormal_block.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "flagstone/algorithms/random/generate.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/array/memory_array.hpp"

namespace flagstone::spectral {
namespace {

constexpr double eps = std::numeric_limits<double>::epsilon();
// A direction that projection, or a round of SVQB, had to make so much longer has as many digits less of its
// orthogonality to the basis: project it again.
constexpr double weak = 1e-2;
constexpr int most_rounds = 20;

/// One round of SVQB: F T has about orthonormal columns and F = (F T) back.
struct Round {
  SmallMatrix turn, back;
  bool close = false;  // F was orthonormal but for a few digits: behind this round it is to rounding
  bool loses = false;  // directions of F were so weak that what it had of the basis grew with them
};

/// From F's Gram matrix. Columns of length up to `noise` are left out, those that stay are scaled to length one: an
/// eigenvalue below n eps of the largest is not known better than that, and the next round sees what it was.
Round svqb(const SmallMatrix& gram, double noise) {
  const Index n = gram.rows();
  std::vector<Index> kept;
  std::vector<double> length;
  for (Index j = 0; j < n; ++j) {
    const double found = std::sqrt(std::max(0.0, gram(j, j).real()));
    if (found > noise) kept.push_back(j), length.push_back(found);
  }
  const auto m = static_cast<Index>(kept.size());
  SmallMatrix scaled(gram.dtype(), m, m);
  for (Index i = 0; i < m; ++i)
    for (Index j = 0; j < m; ++j) scaled.set(i, j, gram(kept[i], kept[j]) / (length[i] * length[j]));
  const SmallEigen found = eigen(scaled);
  Round round{SmallMatrix(gram.dtype(), n, m), SmallMatrix(gram.dtype(), m, n)};
  const double least = static_cast<double>(m) * eps * (m > 0 ? found.values.back() : 0.0);
  round.close = m == n && (m == 0 || found.values[0] > 0.5);
  round.loses = m > 0 && found.values[0] < weak * weak;
  for (Index j = 0; j < m; ++j) {
    const double root = std::sqrt(std::max(found.values[j], least));
    for (Index i = 0; i < m; ++i) {
      const auto entry = found.vectors(i, j);
      round.turn.set(kept[i], j, entry / (length[i] * root));
      round.back.set(j, kept[i], std::conj(entry) * root * length[i]);
    }
  }
  return round;
}

/// Keeps the rows of R that are longer than `noise`, the longest `most` of them, and the columns of T that belong to
/// them.
void drop_noise(SmallMatrix& t, SmallMatrix& r, double noise, Index most) {
  std::vector<std::pair<double, Index>> rows_by_length;
  for (Index i = 0; i < r.rows(); ++i)
    if (const double length = r.row_norm(i); length > noise) rows_by_length.emplace_back(-length, i);
  std::sort(rows_by_length.begin(), rows_by_length.end());
  std::vector<Index> kept;
  for (const auto& [length, i] : rows_by_length)
    if (static_cast<Index>(kept.size()) < most) kept.push_back(i);
  std::sort(kept.begin(), kept.end());
  const auto m = static_cast<Index>(kept.size());
  if (m == r.rows()) return;
  SmallMatrix turn(t.dtype(), t.rows(), m), rows(r.dtype(), m, r.cols());
  for (Index j = 0; j < m; ++j) {
    put(part(t, 0, kept[j], t.rows(), 1), turn, 0, j);
    put(part(r, kept[j], 0, 1, r.cols()), rows, j, 0);
  }
  t = turn, r = rows;
}

}  // namespace

TallBlock::TallBlock(Graph& graph, const PanelCut& cut, std::uint64_t seed, std::string who)
    : graph_(graph),
      cut_(cut),
      seed_(seed),
      who_(std::move(who)),
      x_memory_(graph.allocate({cut.n, cut.block}, cut.dtype)),
      f_memory_(graph.allocate({cut.n, cut.block}, cut.dtype)),
      x_(again_as(x_memory_)),
      f_(again_as(f_memory_)) {}

const Array& TallBlock::zeroed() {
  graph_.barrier();
  x_ = again_as(x_memory_), f_ = again_as(f_memory_);
  if (!graph_.planning()) std::memset(f_memory_.store().memory(), 0, f_memory_.nbytes());
  return f_;
}

void TallBlock::randomise() {
  graph_.barrier();
  auto draw = std::make_shared<kernel::Draw>();
  draw->distribution = kernel::Distribution::normal;
  draw->stream = {{static_cast<std::uint32_t>(seed_), static_cast<std::uint32_t>(seed_ >> 32)}, ++draws_};
  const Index numbers = cut_.dtype == Dtype::complex128 ? 2 * cut_.block : cut_.block;  // complex: two each
  const Shape shape{cut_.n, numbers};
  random::generate(
      graph_, draw,
      memory_array(f_memory_.store().memory(), shape, Dtype::float64, c_strides(shape, 8), f_memory_.shared_store()));
  graph_.barrier();
  graph_.trust_order(false);
  f_ = again_as(f_memory_);
}

void TallBlock::take(const Array& given) {
  graph_.barrier();
  f_ = again_as(f_memory_);
  const Array from = again_as(given);
  const Index width = std::min(given.shape()[1], cut_.block);
  sweep(graph_, "start", cut_, false, [&](PanelTask& task) {
    task.copy(task.rows(from, 0, width, Mode::read), task.rows(f_, 0, width, Mode::update));
  });
  graph_.barrier();
}

void TallBlock::to_x(PanelTask& task, const TilePart& from, Index width) {
  if (width < cut_.block) task.zero(task.rows(x_, width, cut_.block - width, Mode::write));
  if (width > 0) task.copy(from, task.rows(x_, 0, width, Mode::write));
}

void TallBlock::load(const PanelBasis& v, Index slot) {
  graph_.barrier();
  x_ = again_as(x_memory_);
  sweep(graph_, "load", cut_, false,
        [&](PanelTask& task) { to_x(task, task.slot(v, slot, 0, v.width(slot), Mode::read), v.width(slot)); });
  graph_.barrier();
}

void TallBlock::subtract(const PanelBasis& v, Index width, const Array& c, const Array& g) {
  sweep(graph_, "subtract", cut_, false, [&](PanelTask& task) {
    const TilePart f = task.rows(f_, 0, width, Mode::update);
    for (const auto& part : v.parts(0, v.columns()))
      task.gemm(-1, task.columns(v, part), task.small(c, {{part.column, 0}, {part.width, width}}), 1, f);
    task.gemm(1, adjoint(f), f, 1, task.small(g, Mode::reduce));
  });
}

TallBlock::Projection TallBlock::project_locally(const PanelBasis& v, Index width, const SmallMatrix& coupling) {
  graph_.barrier();
  f_ = again_as(f_memory_);
  const Index p = v.columns(), before = p - width, q = coupling.cols();
  const Array d = graph_.allocate({width, width}, cut_.dtype);
  const Array s = q > 0 ? upload(graph_, coupling) : Array();
  const Index last = v.slots() - 1;
  sweep(graph_, "project_last", cut_, false, [&](PanelTask& task) {
    task.gemm(1, adjoint(task.slot(v, last, 0, width, Mode::read)), task.rows(f_, 0, width, Mode::read), 1,
              task.small(d, Mode::reduce));
  });
  const Array c = graph_.allocate({p, width}, cut_.dtype), g = graph_.allocate({width, width}, cut_.dtype);
  sweep(graph_, "project", cut_, true, [&](PanelTask& task) {
    const TilePart f = task.rows(f_, 0, width, Mode::update);
    task.gemm(-1, task.slot(v, last, 0, width, Mode::read), task.small(d), 1, f);
    for (const auto& part : v.parts(before - q, before))
      task.gemm(-1, task.columns(v, part), adjoint(task.small(s, {{0, part.column - before + q}, {width, part.width}})),
                1, f);
    for (const auto& part : v.parts(0, p))
      task.gemm(1, adjoint(task.columns(v, part)), f, 1,
                task.small(c, {{part.column, 0}, {part.width, width}}, Mode::reduce));
  });
  subtract(v, width, c, g);
  graph_.barrier();
  Projection found{download(graph_, c), download(graph_, g)};
  if (graph_.planning()) return found;
  const SmallMatrix diagonal = download(graph_, d);
  for (Index i = 0; i < width; ++i)
    for (Index j = 0; j < width; ++j) found.inside.set(before + i, j, found.inside(before + i, j) + diagonal(i, j));
  for (Index i = 0; i < q; ++i)
    for (Index j = 0; j < width; ++j)
      found.inside.set(before - q + i, j, found.inside(before - q + i, j) + std::conj(coupling(j, i)));
  return found;
}

TallBlock::Projection TallBlock::project(const PanelBasis& v, Index width) {
  const Index p = v.columns();
  const Array c = graph_.allocate({p, width}, cut_.dtype), g = graph_.allocate({width, width}, cut_.dtype);
  if (p > 0)
    sweep(graph_, "project", cut_, true, [&](PanelTask& task) {
      const TilePart f = task.rows(f_, 0, width, Mode::read);
      for (const auto& part : v.parts(0, p))
        task.gemm(1, adjoint(task.columns(v, part)), f, 1,
                  task.small(c, {{part.column, 0}, {part.width, width}}, Mode::reduce));
    });
  subtract(v, width, c, g);
  graph_.barrier();
  return {download(graph_, c), download(graph_, g)};
}

SmallMatrix TallBlock::turn(const PanelBasis& v, Index width, const SmallMatrix& t) {
  const Index made = t.cols(), next = v.slots();
  const Array small = upload(graph_, t), g = graph_.allocate({made, made}, cut_.dtype);
  sweep(graph_, "orthonormalise", cut_, false, [&](PanelTask& task) {
    const TilePart f = task.rows(f_, 0, width, Mode::update), to = task.slot(v, next, 0, made, Mode::write);
    if (made > 0) {
      const TilePart kept = task.rows(f_, 0, made, Mode::update);
      task.gemm(1, f, task.small(small), 0, to);
      task.copy(to, kept);
      task.gemm(1, adjoint(kept), kept, 1, task.small(g, Mode::reduce));
    }
    to_x(task, to, made);
  });
  graph_.barrier();
  return download(graph_, g);
}

void TallBlock::refill(const PanelBasis& v, Index width, Index wanted) {
  const Index next = v.slots();
  randomise();
  sweep(graph_, "refill", cut_, false, [&](PanelTask& task) {
    const TilePart f = task.rows(f_, 0, wanted, Mode::update);
    const TilePart to = task.slot(v, next, 0, wanted, Mode::update);
    if (width > 0) task.copy(task.slot(v, next, 0, width, Mode::update), task.rows(f_, 0, width, Mode::update));
    task.copy(f, to);
  });
  graph_.barrier();
}

TallBlock::Next TallBlock::orthonormalise(const PanelBasis& v, Index width, const SmallMatrix& gram, Index wanted,
                                          double noise) {
  if (graph_.planning()) {  // two rounds
    for (int round = 0; round < 2; ++round) turn(v, width, SmallMatrix(cut_.dtype, width, wanted));
    return {wanted, SmallMatrix(cut_.dtype, wanted, width)};
  }
  SmallMatrix g = gram, r = SmallMatrix::identity(cut_.dtype, width);
  double longest = 0;
  for (Index j = 0; j < width; ++j) longest = std::max(longest, std::sqrt(std::max(0.0, g(j, j).real())));
  bool random = false, clean = true;  // clean: orthogonal to V but for a few roundings
  int projections = 0;
  for (int rounds = 0; rounds < most_rounds; ++rounds) {
    if (!g.finite()) throw NumericalError(who_ + ": what A was applied to gave NaN or Inf; A may hold some.");
    Round round = svqb(g, random ? 0.0 : rounds == 0 ? noise : 0.0);
    r = multiply(round.back, {}, r, {});
    const Index all = round.turn.cols();
    if (!random) drop_noise(round.turn, r, noise, wanted);
    const bool dropped = round.turn.cols() < all;
    g = turn(v, width, round.turn);
    width = round.turn.cols();
    bool again = !round.close || dropped;
    clean = clean && !round.loses;
    if (width < wanted) {
      refill(v, width, wanted);
      SmallMatrix wider(r.dtype(), wanted, r.cols());
      put(r, wider, 0, 0);
      r = wider, width = wanted, random = again = true, projections = 0;
    }
    double shortest = longest;
    for (Index i = 0; i < r.rows() && !random; ++i) shortest = std::min(shortest, r.row_norm(i));
    const bool due = projections < (random ? 2 : shortest < weak * longest ? 1 : 0);
    if (due || (!again && !clean)) {
      ++projections, clean = again = true;
      g = project(v, width).outside;
      for (Index j = 0; j < width; ++j) clean = clean && g(j, j).real() > weak * weak;
    }
    if (!again) return {width, r};
  }
  throw NumericalError(who_ + ": a block of vectors could not be made orthonormal; A may be far from Hermitian.");
}

std::vector<double> TallBlock::residuals(Index width, const std::vector<double>& values) {
  graph_.barrier();
  f_ = again_as(f_memory_), x_ = again_as(x_memory_);
  SmallMatrix diagonal(cut_.dtype, width, width);
  for (Index j = 0; j < width && !graph_.planning(); ++j) diagonal.set(j, j, values[j]);
  const Array small = upload(graph_, diagonal), g = graph_.allocate({width, width}, cut_.dtype);
  sweep(graph_, "residual", cut_, false, [&](PanelTask& task) {
    const TilePart f = task.rows(f_, 0, width, Mode::update);
    task.gemm(-1, task.rows(x_, 0, width, Mode::read), task.small(small), 1, f);
    task.gemm(1, adjoint(f), f, 1, task.small(g, Mode::reduce));
  });
  graph_.barrier();
  const SmallMatrix squares = download(graph_, g);
  std::vector<double> found(width);
  for (Index j = 0; j < width; ++j) found[j] = std::sqrt(std::max(0.0, squares(j, j).real()));
  return found;
}

void TallBlock::load_columns(const Array& tall, Index from, Index width) {
  graph_.barrier();
  x_ = again_as(x_memory_);
  sweep(graph_, "load", cut_, false,
        [&](PanelTask& task) { to_x(task, task.rows(tall, from, width, Mode::read), width); });
  graph_.barrier();
}

}  // namespace flagstone::spectral
