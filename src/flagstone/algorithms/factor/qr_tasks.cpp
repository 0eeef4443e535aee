#include "flagstone/algorithms/factor/qr_tasks.hpp"

#include <numeric>

#include "flagstone/algorithms/kernels/qr.hpp"
#include "flagstone/kernel/factor/qr.hpp"

namespace flagstone::linalg {
namespace {

constexpr Index longest_box = 4;  // times a tile or a chunk

std::uint32_t touch(TaskSpec& task, Access access) {
  task.accesses.push_back(std::move(access));
  return static_cast<std::uint32_t>(task.accesses.size() - 1);
}

/// rows x cols, from row `first` on, of a tile that is stored transposed.
TilePart part(std::uint32_t access, Index rows, Index cols, Index first = 0) {
  return {access, true, false, {{0, first}, {cols, rows}}};
}

/// The box in which a dimension is read: whole tiles, and whole chunks where few of both are.
Index box_of(const Array& array, std::size_t d, Index tile) {
  if (array.in_memory() || reads_any_box(array)) return tile;
  const Index chunk = array.chunks()[d], both = std::lcm(chunk, tile);
  return both <= longest_box * std::max(chunk, tile) ? both : tile;
}

double complex_factor(Dtype dtype) { return is_complex(dtype) ? 4.0 : 1.0; }

void finish(TaskSpec& task, const char* name, Dtype dtype, double flops) {
  task.name = name;
  task.calls.back().flops += flops * complex_factor(dtype);
  task.cost.flops += flops * complex_factor(dtype);
  task.cost.float64 = real_part_of(dtype) == Dtype::float64;
}

}  // namespace

Columns::Columns(const QrTree& tree, Array array, Index cols, std::optional<Operand> source, Named named,
                 call::Whose whose, call::Whose made)
    : tree_(tree),
      array_(std::move(array)),
      cols_(cols),
      width_(tree.cols),
      source_(std::move(source)),
      named_(std::move(named)),
      whose_(whose),
      made_(made) {
  there_.assign(static_cast<std::size_t>(tree.row_tiles * tiles()), false);
  if (!source_) return;
  box_rows_ = box_of(source_->array, source_->transpose ? 1 : 0, tree.rows);
  box_cols_ = box_of(source_->array, source_->transpose ? 0 : 1, width_);
}

Region Columns::region(Index i, Index j) const {
  return {array_, {{j * width_, i * tree_.rows}, {width(j), height(i)}}};
}

std::uint32_t Columns::change(TaskSpec& task, Index i, Index j, bool last) {
  const auto place = static_cast<std::size_t>(i * tiles() + j);
  const bool there = there_[place];
  Access access = there ? flagstone::update(region(i, j)) : flagstone::write(region(i, j));
  const std::uint32_t made = touch(task, last ? flagstone::last(std::move(access)) : std::move(access));
  if (there) return made;
  there_[place] = true;
  const Index row = i * tree_.rows, col = j * width_;
  if (!source_) {
    task.calls.push_back(call::identity(tree_.dtype, row - col, part(made, height(i), width(j))));
  } else {
    const Index box_row = row / box_rows_ * box_rows_, box_col = col / box_cols_ * box_cols_;
    Box box{{box_row, box_col}, {std::min(box_rows_, tree_.m - box_row), std::min(box_cols_, cols_ - box_col)}};
    Box used{{row - box_row, col - box_col}, {height(i), width(j)}};
    if (source_->transpose)
      for (Shape* one : {&box.start, &box.shape, &used.start, &used.shape}) std::swap((*one)[0], (*one)[1]);
    const std::uint32_t from = touch(task, flagstone::read({source_->array, box}));
    task.calls.push_back(call::take(tree_.dtype, kernel::Part::all,
                                    {from, source_->transpose, source_->conjugate, used}, 0,
                                    part(made, height(i), width(j)), named_.place(whose_, row, col)));
  }
  task.cost.bytes_touched += 2.0 * static_cast<double>(height(i) * width(j)) * size_of(tree_.dtype);
  return made;
}

void Columns::there(Index from, Index end) {
  for (Index i = 0; i < tree_.row_tiles; ++i)
    for (Index j = from; j < end; ++j) there_[static_cast<std::size_t>(i * tiles() + j)] = true;
}

void Columns::store(Graph& graph, const Operand& to, Index from, Index end) {
  for (Index i = 0; i < tree_.row_tiles; ++i)
    for (Index j = from; j < end; ++j) {
      TaskSpec task;
      task.name = "store";
      std::uint32_t made = 0;
      if (there_[static_cast<std::size_t>(i * tiles() + j)])
        made = touch(task, flagstone::last(flagstone::read(region(i, j))));
      else
        made = change(task, i, j, true);
      Box box{{i * tree_.rows, j * width_}, {height(i), width(j)}};
      if (to.transpose) std::swap(box.start[0], box.start[1]), std::swap(box.shape[0], box.shape[1]);
      const std::uint32_t out = touch(task, flagstone::once(flagstone::write({to.array, box})));
      TilePart source = part(made, height(i), width(j));
      source.conjugate = to.conjugate;
      task.calls.push_back(call::take(tree_.dtype, kernel::Part::all, source, 0,
                                      {out, to.transpose, false, whole(box.shape)},
                                      named_.place(made_, i * tree_.rows, j * width_)));
      task.cost.bytes_touched += 2.0 * static_cast<double>(height(i) * width(j)) * size_of(tree_.dtype);
      graph.add(std::move(task));
    }
}

Region QrTasks::t(Index slot, Index k) const {
  return {f_.t, {{k * tree_.cols, slot * tree_.ib}, {tree_.width(k), tree_.ib}}};
}

Region QrTasks::r(Index q, Index k) const {
  return {f_.r, {{k * tree_.cols, q * tree_.cols}, {tree_.width(k), tree_.cols}}};
}

void QrTasks::factor(Columns& a, Index k, const QrTree::Step& step, bool kept) {
  using Step = QrTree::Step;
  const Index w = tree_.width(k), ib = tree_.ib, first = tree_.above(k, step.tile), h = tree_.height(step.tile) - first;
  const auto n = static_cast<double>(w);
  TaskSpec task;
  const auto of = [&](Access access) { return touch(task, kept ? std::move(access) : flagstone::last(access)); };
  call::QrOptions options{.ib = ib, .triangle = step.kind == Step::merge};
  options.work = touch(task, scratch(kernel::qr_work_bytes(tree_.dtype, ib, w)));
  const Index slot = step.kind == Step::merge ? merge_slot(step.tile) : step.tile;
  const std::uint32_t factors = of(flagstone::write(t(slot, k)));
  const Region top = r(tree_.group_of(step.top), k);
  if (step.kind == Step::head) {
    const std::uint32_t v = a.change(task, step.tile, k, !kept && first == 0),
                        triangle = touch(task, flagstone::write(top));
    task.calls.push_back(
        call::geqrt(tree_.dtype, options, part(factors, std::min(ib, h), std::min(h, w)), part(v, h, w, first)));
    finish(task, "geqrt", tree_.dtype, 2 * n * n * (static_cast<double>(h) - n / 3));
    const Index rows = std::min(h, w);
    task.calls.push_back(call::take(tree_.dtype, kernel::Part::upper, part(v, rows, w, first), 0,
                                    part(triangle, rows, w),
                                    named_.place(call::Whose::result, k * tree_.cols, k * tree_.cols)));
  } else {
    const std::uint32_t triangle = touch(task, flagstone::update(top));
    const bool merge = step.kind == Step::merge;
    const std::uint32_t v =
        merge ? of(flagstone::update(r(tree_.group_of(step.tile), k))) : a.change(task, step.tile, k, !kept);
    task.calls.push_back(
        call::tpqrt(tree_.dtype, options, part(factors, ib, w), part(v, merge ? w : h, w), part(triangle, w, w)));
    finish(task, "tpqrt", tree_.dtype, merge ? 2 * n * n * n / 3 : 2 * n * n * static_cast<double>(h));
  }
  graph_.add(std::move(task));
}

void QrTasks::apply(Columns& c, Index j, Index k, const QrTree::Step& step, bool adjoint) {
  using Step = QrTree::Step;
  const Index w = tree_.width(k), ib = tree_.ib, cols = c.width(j), first = tree_.above(k, step.tile),
              h = tree_.height(step.tile) - first;
  const double area = static_cast<double>(w) * static_cast<double>(cols);
  TaskSpec task;
  call::QrOptions options{.ib = ib, .adjoint = adjoint, .triangle = step.kind == Step::merge};
  options.work = touch(task, scratch(kernel::qr_work_bytes(tree_.dtype, ib, cols)));
  const bool merge = step.kind == Step::merge;
  const Region reflectors =
      merge ? r(tree_.group_of(step.tile), k)
            : Region{f_.v, {{k * tree_.cols, step.tile * tree_.rows}, {w, tree_.height(step.tile)}}};
  const bool no_more = dropped_ && j + 1 == c.tiles();
  const auto seen = [&](Region region, bool needed) {
    Access access = flagstone::read(std::move(region));
    return touch(task, no_more && !needed ? flagstone::last(std::move(access)) : std::move(access));
  };
  const std::uint32_t v = seen(reflectors, first > 0),  // R is in the same tile
      factors = seen(t(merge ? merge_slot(step.tile) : step.tile, k), false);
  const std::uint32_t below = c.change(task, step.tile, j);
  if (step.kind == Step::head) {
    task.calls.push_back(call::gemqrt(tree_.dtype, options, part(v, h, w, first),
                                      part(factors, std::min(ib, h), std::min(h, w)), part(below, h, cols, first)));
    finish(task, "gemqrt", tree_.dtype, area * (4.0 * static_cast<double>(h) - 2.0 * static_cast<double>(w)));
  } else {
    const std::uint32_t above = c.change(task, step.top, j);
    const Index rows = merge ? w : h;
    task.calls.push_back(call::tpmqrt(tree_.dtype, options, part(v, rows, w), part(factors, ib, w),
                                      part(above, w, cols, tree_.above(k, step.top)), part(below, rows, cols)));
    finish(task, "tpmqrt", tree_.dtype, (merge ? 2.0 : 4.0) * area * static_cast<double>(rows));
  }
  graph_.add(std::move(task));
}

void QrTasks::copy_triangle(const Array& from, Index q) {
  TaskSpec task;
  task.name = "copy";
  Access triangle = flagstone::read({from, r(q, 0).box});
  const std::uint32_t source = touch(task, dropped_ ? flagstone::last(std::move(triangle)) : std::move(triangle)),
                      to = touch(task, flagstone::write(r(q, 0)));
  task.calls.push_back(call::copy(tree_.dtype, {source}, {to}));
  task.cost.bytes_touched = 2.0 * static_cast<double>(tree_.n * tree_.cols) * size_of(tree_.dtype);
  graph_.add(std::move(task));
}

void QrTasks::store_triangle(Columns& a, Index k, const Operand& to) {
  const Index start = k * tree_.cols, rows = tree_.reflectors(k), high = std::min(tree_.cols, to.rows() - start),
              tile = tree_.start(k);
  const auto turned = [&](Box box) {
    if (to.transpose) std::swap(box.start[0], box.start[1]), std::swap(box.shape[0], box.shape[1]);
    return box;
  };
  for (Index j = k; j < tree_.col_tiles; ++j) {
    TaskSpec task;
    task.name = "store";
    const Index first = j == k ? 0 : tree_.above(k, tile);
    const Region from = j == k ? r(tree_.group_of(tile), k) : a.region(tile, j);
    // A tall tile has rows of R of several panels.
    const bool no_more = dropped_ && (j == k || j == k + 1 || k + 1 == tree_.panels || tree_.start(k + 1) != tile);
    Access triangle = flagstone::read(from);
    const std::uint32_t source = touch(task, no_more ? flagstone::last(std::move(triangle)) : std::move(triangle));
    const Index w = tree_.width(j);
    const std::uint32_t out =
        touch(task, flagstone::once(flagstone::write({to.array, turned({{start, j * tree_.cols}, {high, w}})})));
    TilePart taken = part(source, rows, w, first);
    taken.conjugate = to.conjugate;
    if (high > rows) task.calls.push_back(call::zero(tree_.dtype, {out}));  // a complete R
    task.calls.push_back(call::take(tree_.dtype, j == k ? kernel::Part::upper : kernel::Part::all, taken, 0,
                                    {out, to.transpose, false, turned({{0, 0}, {rows, w}})},
                                    named_.place(call::Whose::result, start, j * tree_.cols)));
    task.cost.bytes_touched = 2.0 * static_cast<double>(rows * tree_.width(j)) * size_of(tree_.dtype);
    graph_.add(std::move(task));
  }
}

}  // namespace flagstone::linalg
