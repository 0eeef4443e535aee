#include "flagstone/algorithms/linalg/rank_k.hpp"

#include <algorithm>
#include <vector>

#include "flagstone/algorithms/kernels/dense.hpp"
#include "flagstone/algorithms/linalg/kept_operand.hpp"
#include "flagstone/algorithms/linalg/superblock.hpp"
#include "flagstone/algorithms/tiled/placement.hpp"
#include "flagstone/algorithms/tiled/tile_tasks.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/kernel/dense/blas3.hpp"
#include "flagstone/runtime/resume/finished_tiles.hpp"

namespace flagstone::linalg {
namespace {

Operand adjoint_of(const Operand& x, bool conjugate) {
  return {x.array, !x.transpose, x.conjugate != (conjugate && is_complex(x.array.dtype()))};
}

/// Where tiles of C lie, and which of two mirrored ones is computed: (i, j) with i >= j, or seen from the upper half.
struct Pair {
  Index row, col;
};

/// The lower triangle of To := that of From; what is above it stays.
void copy_lower(Graph& graph, const Region& from, const Region& to) {
  TaskSpec task;
  task.name = "copy_lower";
  task.accesses = {read(from), update(to)};
  task.cost.bytes_touched = static_cast<double>(count(to.box.shape)) * static_cast<double>(size_of(to.array.dtype()));
  task.calls = {call::copy_lower(to.array.dtype(), {.access = 0}, {.access = 1})};
  graph.add(std::move(task));
}

void clip(Graph& graph, double most, const MatrixTile& c) {
  TaskSpec task;
  task.name = "clip";
  task.accesses = {c.again ? again(update(c.region)) : update(c.region)};
  task.cost.bytes_touched = 2.0 * static_cast<double>(count(c.used.shape)) * size_of(c.array().dtype());
  task.calls = {call::clip(c.array().dtype(), most, {.access = 0})};
  graph.add(std::move(task));
}

/// One call of rank_k: the tiles, and the tasks on them.
class Update {
 public:
  Update(Graph& graph, const Operand& a, const Operand* b, const Array* c_in, const Array& c_out,
         const RankKOptions& options)
      : graph_(graph),
        options_(options),
        c_in_(c_in),
        c_out_(c_out),
        tile_(symmetric_tile(a, adjoint_of(a, options.hermitian), c_out)),
        stages_(graph, options.checkpoint),
        finished_(stages_, c_out, {tile_.rows, tile_.cols}),
        // Sums in place have whole tiles on the diagonal.
        groups_(options.in_place ? 1 : rank_k_groups(ceil_div(a.rows(), tile_.rows), ceil_div(a.cols(), tile_.depth))),
        size_(choose_square_superblock(a, adjoint_of(a, options.hermitian), c_out, tile_, room(graph), graph.workers(),
                                       {groups_, b ? 2 : 1})),
        kept_a_(kept(a)),
        C_({c_out}, {a.rows(), tile_.rows, tile_.rows}, {a.rows(), tile_.cols, tile_.cols}) {
    if (b) kept_b_.emplace(kept(*b));
    const Operand x = kept_a_.operand(), y = b ? kept_b_->operand() : x;
    const std::complex<double> other = options.hermitian ? std::conj(options.alpha) : options.alpha;
    terms_.push_back({options.alpha, left(x), right(y), &kept_a_, b ? &*kept_b_ : &kept_a_});
    if (b) terms_.push_back({other, left(y), right(x), &*kept_b_, &kept_a_});
    steps_ = terms_[0].left.cols();
    half_of_diagonal_ = !b && steps_ > 0 && (options.hermitian || !is_complex(c_out.dtype()));
    for (Index i = 0; options.in_place && !half_of_diagonal_ && i < C_.rows(); ++i) {
      const Shape edge = C_(i, i).region.box.shape;
      diagonal_.push_back({graph.temporary(edge, c_out.dtype(), edge), whole(edge)});
    }
    for (Index g = 1; g < groups_; ++g) {
      const Array sum = graph.temporary(c_out.shape(), c_out.dtype(), {tile_.rows, tile_.cols});
      sums_.emplace_back(Operand{sum}, Cut{a.rows(), tile_.rows, tile_.rows}, Cut{a.rows(), tile_.cols, tile_.cols});
    }
    note();
  }

  void run() {
    graph_.trust_order(true);
    graph_.look_ahead(static_cast<std::size_t>(2 * size_.tile_rows * size_.tile_cols * groups_ + 64));
    const Index blocks = ceil_div(C_.rows(), size_.tile_rows);
    for (Index p = 0; p < blocks; ++p)
      for (Index q = 0; q <= p; ++q) block(p, q);
    graph_.trust_order(false);
  }

 private:
  struct Term {
    std::complex<double> alpha;
    Tiled left, right;
    KeptOperand *left_kept, *right_kept;
  };

  /// What a superblock may take: mirrors are written beside it, one for each worker at a time.
  std::uint64_t room(Graph& graph) const {
    const auto tile = static_cast<std::uint64_t>(tile_.rows * tile_.cols) * size_of(c_out_.dtype());
    const std::uint64_t mirrors =
        options_.half == Half::both && !c_out_.in_memory() ? tile * static_cast<std::uint64_t>(graph.workers()) : 0;
    const std::uint64_t budget = order_budget(graph);
    return budget - std::min(budget / 2, mirrors);
  }

  /// A lazy operand is read once for every superblock that its rows meet.
  KeptOperand kept(const Operand& x) {
    const Shape box = x.transpose ? Shape{size_.a_depth, size_.a_outer} : Shape{size_.a_outer, size_.a_depth};
    return {graph_, x, box, ceil_div(ceil_div(x.rows(), tile_.rows), size_.tile_rows)};
  }
  Tiled left(const Operand& x) const {
    return {x, {x.rows(), tile_.rows, size_.a_outer}, {x.cols(), tile_.depth, size_.a_depth}};
  }
  Tiled right(const Operand& x) const {
    return {adjoint_of(x, options_.hermitian),
            {x.cols(), tile_.depth, size_.a_depth},
            {x.rows(), tile_.cols, size_.a_outer}};
  }

  void note() {
    if (!options_.notes) return;
    std::string& text = options_.notes->text;
    for (const Term& term : terms_)
      if (const std::string said = term.left_kept->note(); !said.empty() && text.empty()) text = "A is " + said;
    if (groups_ > 1) text += (text.empty() ? "" : "; ") + std::to_string(groups_) + " sums side by side";
    for (const Term& term : terms_) options_.notes->scratch_bytes += term.left_kept->scratch_bytes();
  }

  /// The tile that is computed, and its mirror.
  MatrixTile computed(Pair at) const { return options_.half == Half::upper ? C_(at.col, at.row) : C_(at.row, at.col); }
  MatrixTile mirrored(Pair at) const { return C_(at.col, at.row); }

  std::vector<Pair> unfinished(Index p, Index q) const {
    std::vector<Pair> pairs;
    const Index edge = size_.tile_rows;
    for (Index i = p * edge; i < std::min(C_.rows(), (p + 1) * edge); ++i)
      for (Index j = q * edge; j <= i && j < (q + 1) * edge; ++j)
        if (!finished_.holds(C_(i, j).region.box) || !finished_.holds(C_(j, i).region.box)) pairs.push_back({i, j});
    return pairs;
  }

  void block(Index p, Index q) {
    const std::vector<Pair> pairs = unfinished(p, q);
    for (Index k = 0; k < std::max<Index>(1, steps_); ++k)
      for (const Pair at : pairs) add(at, k);
    for (Index stride = 1; stride < groups_; stride *= 2)
      for (Index g = 0; g + stride < groups_; g += 2 * stride)
        for (const Pair at : pairs) {
          const bool more = g > 0 || 2 * stride < groups_ || finished_later(at);
          sum_up(graph_, of_group(at, g + stride), again(of_group(at, g), more));
        }
    for (const Pair at : pairs) {
      if (options_.most > 0) clip(graph_, options_.most, again(computed(at), mirrored_within(at)));
      if (apart(at))
        take_over(at);
      else if (mirrored_within(at))
        finish_diagonal(computed(at));
      else if (at.row != at.col && options_.half == Half::both)
        mirror(graph_, options_.hermitian, computed(at), mirrored(at));
      finished_.finish(C_(at.row, at.col).region.box);
      finished_.finish(C_(at.col, at.row).region.box);
    }
    finished_.offer();
  }

  /// A tile on the diagonal that was summed up beside C, whose own diagonal is real where C is Hermitian.
  void take_over(Pair at) {
    const MatrixTile sum = of_group(at, 0);
    if (options_.hermitian && is_complex(c_out_.dtype())) mirror(graph_, true, sum, sum);
    copy_lower(graph_, sum.region, computed(at).region);
  }

  /// Both triangles of a tile on the diagonal have the same bits; of a C that is stored by half, one is zero.
  void finish_diagonal(const MatrixTile& c) {
    const bool halved = options_.half != Half::both;
    mirror(graph_, options_.hermitian, c, again(c, halved));
    if (halved) take(graph_, options_.half == Half::lower ? Part::lower : Part::upper, c, 0, c, {});
  }

  /// Whether a tile on the diagonal is summed up whole beside C, of which the other triangle is somebody else's.
  bool apart(Pair at) const { return at.row == at.col && !diagonal_.empty(); }

  /// Whether a tile on the diagonal is given its other triangle once it is summed up.
  bool mirrored_within(Pair at) const { return at.row == at.col && !apart(at) && !options_.in_place; }

  /// Whether a tile that is summed up is yet changed.
  bool finished_later(Pair at) const { return options_.most > 0 || mirrored_within(at); }

  MatrixTile of_group(Pair at, Index group) const {
    if (apart(at)) {
      const Region& tile = diagonal_[static_cast<std::size_t>(at.row)];
      return {tile, tile.box, {}};
    }
    return group == 0 ? computed(at) : sums_[static_cast<std::size_t>(group - 1)](at.row, at.col);
  }

  /// Step k of a tile: what it adds to the sum of its group.
  void add(Pair at, Index k) {
    const Index group = k % groups_;
    MatrixTile c = again(of_group(at, group), k + groups_ < steps_ || groups_ > 1 || finished_later(at));
    const bool first = k < groups_;
    std::complex<double> beta = !first ? 1.0 : group == 0 && (c_in_ || options_.in_place) ? options_.beta : 0.0;
    const Array* old = first && group == 0 ? c_in_ : nullptr;
    if (first && apart(at) && beta != 0.0) copy(graph_, computed(at).region, again(c));
    const bool upper = options_.half == Half::upper;
    if (old && at.row == at.col) {  // of C one triangle counts, and products take the lower one
      copy(graph_, {*old, c.region.box}, again(c));
      if (upper) mirror(graph_, options_.hermitian, transposed(c), transposed(again(c)));
      old = nullptr;
    }
    const bool more = c.again;
    for (const Term& term : terms_) {
      c.again = more || &term != &terms_.back();
      const MatrixTile x = upper ? term.left(at.col, k) : term.left(at.row, k);
      const MatrixTile y = upper ? term.right(k, at.row) : term.right(k, at.col);
      if (steps_ > 0) term.left_kept->need(x.region), term.right_kept->need(y.region);
      if (at.row == at.col && half_of_diagonal_)
        herk(graph_, term.alpha.real(), x, beta.real(), c);
      else
        gemm(graph_, term.alpha, x, y, beta, c, old);
      beta = 1.0, old = nullptr;
    }
  }

  Graph& graph_;
  const RankKOptions& options_;
  const Array* c_in_;
  Array c_out_;
  ProductTile tile_;
  Stages stages_;
  FinishedTiles finished_;
  Index groups_;  // sums of a tile of C
  Superblock size_;
  KeptOperand kept_a_;
  std::optional<KeptOperand> kept_b_;
  Tiled C_;
  std::vector<Tiled> sums_;       // of groups but the first, which sums in C itself
  std::vector<Region> diagonal_;  // of C in place, where its tiles on the diagonal are summed up whole
  std::vector<Term> terms_;
  Index steps_ = 0;
  bool half_of_diagonal_ = false;  // BLAS has no complex symmetric one of tiles in C order and any op
};

}  // namespace

void check_rank_k(const Operand& a, const Operand* b, const Array* c, const RankKOptions& options) {
  const auto say = [](Index rows, Index cols) { return std::to_string(rows) + " x " + std::to_string(cols); };
  const auto two_d = [](const Array& array, const char* name) {
    if (array.ndim() != 2)
      throw ShapeError(std::string("rank_k_update: ") + name + " has " + std::to_string(array.ndim()) +
                       " dimensions; two are needed.");
  };
  two_d(a.array, "A");
  const Dtype dtype = a.array.dtype();
  if (real_part_of(dtype) != Dtype::float32 && real_part_of(dtype) != Dtype::float64)
    throw ShapeError("rank_k_update: A is " + std::string(name_of(dtype)) +
                     "; float32, float64, complex64 or complex128 is needed.");
  if (b) {
    two_d(b->array, "B");
    if (b->rows() != a.rows() || b->cols() != a.cols() || b->array.dtype() != dtype)
      throw ShapeError("rank_k_update: A is " + say(a.rows(), a.cols()) + " " + std::string(name_of(dtype)) +
                       " and B is " + say(b->rows(), b->cols()) + " " + std::string(name_of(b->array.dtype())) +
                       "; they must agree.");
  }
  if (c) {
    two_d(*c, "C");
    if (c->shape()[0] != a.rows() || c->shape()[1] != a.rows() || c->dtype() != dtype)
      throw ShapeError("rank_k_update: C is " + say(c->shape()[0], c->shape()[1]) + " " +
                       std::string(name_of(c->dtype())) + " and the result " + say(a.rows(), a.rows()) + " " +
                       std::string(name_of(dtype)) + "; they must agree.");
  }
  if (options.in_place && (options.half != Half::lower || a.cols() == 0))
    throw ShapeError("rank_k_update: in place goes the lower triangle of an update with a summed dimension.");
  if (options.in_place && options.most > 0)
    throw ShapeError("rank_k_update: what is updated in place is not clipped; leave most out.");
  const bool real_factors = options.hermitian || !is_complex(dtype);
  if (real_factors && (options.beta.imag() != 0 || (options.alpha.imag() != 0 && (!b || !is_complex(dtype)))))
    throw ShapeError("rank_k_update: alpha or beta is complex and the result Hermitian; give real ones.");
}

void rank_k(Graph& graph, const Operand& a, const Operand* b, const Array* c_in, const Array& c_out,
            const RankKOptions& options) {
  check_rank_k(a, b, &c_out, options);
  if (c_in) check_rank_k(a, b, c_in, options);
  if (!graph.planning()) kernel::set_blas_threads(graph.threads_per_task());
  Update(graph, a, b, c_in, c_out, options).run();
}

}  // namespace flagstone::linalg
