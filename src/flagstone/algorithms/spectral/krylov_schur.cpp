#include "flagstone/algorithms/spectral/krylov_schur.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>

#include "flagstone/algorithms/spectral/krylov_model.hpp"
#include "flagstone/base/error.hpp"

namespace flagstone::spectral {
namespace {

constexpr double eps = std::numeric_limits<double>::epsilon();
constexpr double rounding = 64 * eps;     // of ‖A‖: residuals below it cannot be asked for
constexpr double look_tol = 1e-2;         // of a value that shows itself to nobody
constexpr Index widest = 128;             // of a block that does not hold k: wider ones gain nothing per flop
constexpr Index block_numbers = 1 << 25;  // of X and F each, at most: they lie in memory

Index slots_of(const SchurOptions& o, Index n) {
  return ceil_div(std::min(std::max(o.ncv, o.k + 3 * o.block), n + o.block), o.block) + 2;
}

/// H, its eigenvectors and what they are made with: of all columns.
std::uint64_t small_bytes(const SchurOptions& o, Index n) {
  const Index m = std::min(n, slots_of(o, n) * o.block);
  return 3 * static_cast<std::uint64_t>(m * m) * size_of(o.dtype) + eigen_bytes(o.dtype, m);
}

SchurOptions completed(SchurOptions o, Index n) {
  o.k = std::min(o.k, n), o.block = std::min(o.block, n);
  o.ncv = std::min(std::max(o.ncv, o.k + 2 * o.block), n);
  return o;
}

std::vector<double> at(const std::vector<double>& values, const std::vector<Index>& places) {
  std::vector<double> found;
  for (const Index i : places) found.push_back(values[i]);
  return found;
}

/// Two digits: what is told may be 1e-9.
std::string rough(double number) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "%.1e", number);
  return text.data();
}

}  // namespace

Index schur_block(Index k, Index n) {
  const Index whole = k <= 200 ? krylov_block(k, n) : widest;
  const Index room = std::max<Index>(8, block_numbers / std::max<Index>(1, n));
  return std::max<Index>(1, std::min({whole, room, n}));
}

Index schur_ncv(Index k, Index block, Index n) { return std::min(n, std::max(5 * k / 2 + block, 7 * block)); }

int schur_steps(const SchurOptions& o, Index n) {
  if (o.passes > 0) return o.passes;
  const auto k = static_cast<double>(o.k), b = static_cast<double>(o.block);
  const double digits = std::max(1.0, -std::log10(o.tol)) / 4;
  const int vectors = static_cast<int>(std::ceil(6.5 * k * digits / b)) + 2;
  const int whole = static_cast<int>(ceil_div(n, o.block));
  return std::min(o.block >= o.k ? krylov_steps(o.k, o.block, n, o.tol) + 1 : vectors, std::max(1, whole));
}

double allowed_residual(double value, double norm, double tol) {
  return std::max(tol * std::max(std::abs(value), std::pow(eps, 2.0 / 3.0) * norm), rounding * norm);
}

BlockKrylovSchur::BlockKrylovSchur(Graph& graph, const Operator& op, const SchurOptions& options)
    : graph_(graph),
      op_(op),
      o_(completed(options, op.n)),
      cut_(cut_of(o_, op.n)),
      small_(graph.charge(small_bytes(o_, op.n))),
      alone_(o_.stages ? std::nullopt : std::optional<Stages>(std::in_place, graph, nullptr)),
      stages_(o_.stages ? *o_.stages : *alone_),
      basis_(cut_, Array()),
      block_(graph, cut_, o_.seed, o_.who),
      h_(o_.dtype),
      coupling_(o_.dtype),
      r_(o_.dtype) {}

PanelCut BlockKrylovSchur::cut_of(const SchurOptions& options, Index n) {
  const SchurOptions o = completed(options, n);
  return {n, o.block, slots_of(o, n), o.dtype};
}

/// After Zhou and Saad 2008, algorithm 3.1:
///   1  V_1 := orthonormal basis of b random vectors
///   2  F := A V_last; F := (I - V Vᴴ) F; V_next R := F; H gains VᴴA V_last
///   3  the basis full, or often enough: H y = θ y, residuals |R y_last|; done when k of them are small
///   4  full: V := [V Y, V_next] for the best Ritz vectors (thick restart); else V := [V, V_next]; from 2 again
///   5  where the block could have missed copies: V := [the k vectors, random block orthogonal to them]; from 2 again
SchurPairs BlockKrylovSchur::solve() {
  const Stages::Kept kept = stages_.keep("krylov-schur", [this](StateParts& parts) { list_parts(parts); });
  kept.loaded() ? go_on() : begin();  // 1
  for (;; save()) {
    apply();
    project();  // 2
    if (due()) {
      rayleigh_ritz();  // 3
      if (done()) {
        if (verified_ || !o_.verify || o_.passes > 0 || phase_ == Phase::look) break;
        look();  // 5
        continue;
      }
      if (applications_ >= o_.most) break;
    }
    advance();  // 4
  }
  return result();
}

void BlockKrylovSchur::begin() {
  basis_ = PanelBasis(cut_, open_array(true));
  block_.randomise();
  if (o_.start) block_.take(*o_.start);
  const auto outside = block_.project(basis_, o_.block).outside;
  next_ = block_.orthonormalise(basis_, o_.block, outside, o_.block, 0).width;
  push(next_);
  width_ = next_, locked_ = 0;
  h_ = SmallMatrix(o_.dtype), coupling_ = SmallMatrix(o_.dtype, width_, 0);
}

void BlockKrylovSchur::apply() {
  units_.apply(graph_, op_, block_);
  ++applications_;
}

void BlockKrylovSchur::project() {
  const auto [inside, outside] = block_.project_locally(basis_, width_, coupling_);
  const Index p = basis_.columns(), m = active(), old = m - width_;
  double largest = 0, asymmetry = 0;
  for (Index j = 0; j < width_ && !graph_.planning(); ++j) {
    double square = outside(j, j).real();
    for (Index i = 0; i < p; ++i) square += std::norm(inside(i, j));
    if (!std::isfinite(square))
      throw NumericalError(o_.who + ": what A was applied to gave NaN or Inf; A may hold some.");
    largest = std::max(largest, square);
    for (Index i = 0; i < width_; ++i)
      asymmetry = std::max(asymmetry, std::abs(inside(p - width_ + i, j) - std::conj(inside(p - width_ + j, i))));
  }
  norm_ = std::max(norm_, std::sqrt(largest));
  if (asymmetry > o_.symmetry * norm_)
    throw NumericalError(o_.who + ": A is not symmetric: |xᴴAy - yᴴAx| is " + rough(asymmetry / norm_) +
                         " of ‖A‖ for vectors of length one; give a symmetric matrix, or use svds.");
  SmallMatrix h(o_.dtype, m, m);
  put(h_, h, 0, 0);
  for (Index j = 0; j < width_ && !graph_.planning(); ++j) {
    for (Index i = 0; i < old; ++i) {
      h.set(i, old + j, inside(locked_ + i, j));
      h.set(old + j, i, std::conj(inside(locked_ + i, j)));
    }
    for (Index i = 0; i <= j; ++i) {
      const auto mean = 0.5 * (inside(p - width_ + i, j) + std::conj(inside(p - width_ + j, i)));
      h.set(old + i, old + j, mean);
      h.set(old + j, old + i, std::conj(mean));
    }
  }
  h_ = std::move(h);
  const Index wanted = std::min(o_.block, cut_.n - p);
  next_ = 0, r_ = SmallMatrix(o_.dtype, 0, width_);
  if (wanted == 0) return;
  auto next = block_.orthonormalise(basis_, width_, outside, wanted, 8 * eps * norm_);
  next_ = next.width, r_ = std::move(next.r);
}

Index BlockKrylovSchur::limit() const {
  return phase_ == Phase::look || locked_ > 0 ? std::min(cut_.n, std::max(o_.ncv, o_.k + 3 * o_.block)) : o_.ncv;
}

/// Where H's eigenvalues cost little beside the block's own work, each time; else when the basis is full.
bool BlockKrylovSchur::due() const {
  const Index m = active();
  if (next_ == 0 || basis_.columns() + next_ > limit() || applications_ >= o_.most) return true;
  return locked_ + m >= o_.k && m * m <= cut_.n * o_.block / 16 + 65536;
}

void BlockKrylovSchur::rayleigh_ritz() {
  const Index m = active();
  const auto order = static_cast<double>(m);
  graph_.host_work("ritz", {(o_.dtype == Dtype::complex128 ? 36 : 9) * order * order * order, 0, true});
  if (graph_.planning()) return;
  SmallEigen found = eigen(h_);
  ritz_.values = std::move(found.values), ritz_.vectors = std::move(found.vectors);
  ritz_.residuals.assign(m, 0.0);
  if (next_ > 0) {
    const SmallMatrix last = multiply(r_, {}, part(ritz_.vectors, m - width_, 0, width_, m), {});
    for (Index j = 0; j < m; ++j) {
      double square = 0;
      for (Index i = 0; i < next_; ++i) square += std::norm(last(i, j));
      ritz_.residuals[j] = std::sqrt(square);
    }
  }
  for (const double value : ritz_.values) norm_ = std::max(norm_, std::abs(value));
}

/// Locked values, then Ritz values.
std::vector<double> BlockKrylovSchur::known_values() const {
  std::vector<double> known = locked_values_;
  known.insert(known.end(), ritz_.values.begin(), ritz_.values.end());
  return known;
}

bool BlockKrylovSchur::done() {
  const bool whole = next_ == 0;                               // the basis is all there is
  const bool sure = (o_.block >= o_.k && !o_.start) || whole;  // who gives a start may give an invariant space
  if (graph_.planning()) {
    const int expected = schur_steps(o_, cut_.n) + (phase_ == Phase::look ? look_steps : 0);
    verified_ = sure;
    return whole || applications_ >= std::min(expected, o_.most);
  }
  if (o_.passes > 0) return verified_ = sure, applications_ >= o_.passes || whole;
  const std::vector<double> known = known_values();
  const std::vector<Index> best = wanted(known, o_.which, o_.k);
  if (static_cast<Index>(best.size()) < o_.k) return false;
  const auto residual = [&](Index i) { return i < locked_ ? locked_residuals_[i] : ritz_.residuals[i - locked_]; };
  if (phase_ == Phase::look) {
    const std::vector<double> chosen = at(locked_values_, wanted(locked_values_, o_.which, o_.k));
    for (Index j = 0; j < static_cast<Index>(ritz_.values.size()); ++j)
      if (displaces(ritz_.values[j], chosen, o_.which, 2 * allowed_residual(ritz_.values[j], norm_, o_.tol)))
        phase_ = Phase::solve;  // a copy that was missed: it is followed to tol
    if (phase_ == Phase::look) {
      // The best in the complement: known well enough to say that it is not wanted.
      const std::vector<Index> top = wanted(ritz_.values, o_.which, o_.which == Which::both_ends ? 2 : 1);
      verified_ = std::all_of(top.begin(), top.end(), [&](Index j) {
        return ritz_.residuals[j] <= std::max(look_tol * std::abs(ritz_.values[j]), rounding * norm_);
      });
      verified_ = verified_ || whole;
      return verified_;
    }
  }
  for (const Index i : best)
    if (residual(i) > 0.5 * allowed_residual(known[i], norm_, o_.tol)) return false;
  verified_ = sure;
  return true;
}

/// V := V Y, its first `locked` columns locked, and V_next behind where it is kept.
void BlockKrylovSchur::rebuild(const SmallMatrix& y, Index locked, bool append_next) {
  const Index kept = y.cols();
  const int before = generation_++;
  PanelBasis made(cut_, new_array(true));
  for (Index left = kept; left > 0; left -= o_.block) made.push(std::min(left, o_.block));
  const Array small = upload(graph_, y);
  const Index behind = made.slots(), p = basis_.columns();
  sweep(graph_, "restart", cut_, false, [&](PanelTask& task) {
    for (const auto& to : made.parts(0, kept)) {
      const TilePart target = task.slot(made, to.slot, 0, to.width, Mode::write);
      double beta = 0;
      for (const auto& from : basis_.parts(0, p)) {
        task.gemm(1, task.columns(basis_, from), task.small(small, {{from.column, to.column}, {from.width, to.width}}),
                  beta, target);
        beta = 1;
      }
    }
    if (append_next)
      task.copy(task.slot(basis_, basis_.slots(), 0, next_, Mode::read),
                task.slot(made, behind, 0, next_, Mode::write));
    task.drop_slots();
  });
  graph_.barrier();
  if (append_next) made.push(next_);
  basis_ = std::move(made);
  locked_ = locked;
  note_tiles(basis_.array());
  if (!tiles_) return;
  tiles_->finish({{0, 0}, {cut_.n, basis_.slots() * cut_.block}});
  if (stages_.saving() && before != saved_) remove_basis(before);
}

/// The best Ritz vectors, and their coupling to V_next: A (V Y) = (V Y) Θ + V_next (R Y_last).
void BlockKrylovSchur::restart() {
  const Index m = active(), wanted_here = std::max<Index>(0, o_.k - locked_);
  const Index room = std::max<Index>(1, limit() - locked_ - 2 * o_.block);  // one application at least until the next
  const Index rest = std::max<Index>(0, limit() - locked_ - wanted_here - o_.block);
  const Index keep = std::min({std::max<Index>(o_.keep > 0 ? o_.keep : wanted_here + rest / 2, 1), room, m - 1});
  const Index p = basis_.columns();
  SmallMatrix y(o_.dtype, p, locked_ + keep), h(o_.dtype, keep, keep), coupling(o_.dtype, next_, keep);
  if (!graph_.planning()) {
    const std::vector<Index> best = wanted(ritz_.values, o_.which, keep);
    SmallMatrix chosen(o_.dtype, m, keep);
    for (Index j = 0; j < keep; ++j) {
      put(part(ritz_.vectors, 0, best[j], m, 1), chosen, 0, j);
      h.set(j, j, ritz_.values[best[j]]);
    }
    for (Index i = 0; i < locked_; ++i) y.set(i, i, 1.0);
    put(chosen, y, locked_, locked_);
    coupling = multiply(r_, {}, part(chosen, m - width_, 0, width_, keep), {});
  }
  rebuild(y, locked_, true);
  h_ = std::move(h), coupling_ = std::move(coupling);
}

void BlockKrylovSchur::advance() {
  if (basis_.columns() + next_ > limit()) {
    restart();
  } else {
    push(next_);
    coupling_ = r_;
  }
  width_ = next_;
}

/// A Krylov space of a block narrower than k may hold fewer copies of a value than there are: what is orthogonal to all
/// that was found is looked at from a random block.
void BlockKrylovSchur::look() {
  const Index p = basis_.columns();
  SmallMatrix y(o_.dtype, p, o_.k);
  if (!graph_.planning()) {
    const std::vector<double> known = known_values();
    const std::vector<Index> best = wanted(known, o_.which, o_.k);
    std::vector<double> residuals;
    for (Index j = 0; j < o_.k; ++j) {
      const Index i = best[j];
      residuals.push_back(i < locked_ ? locked_residuals_[i] : ritz_.residuals[i - locked_]);
      if (i < locked_)
        y.set(i, j, 1.0);
      else
        put(part(ritz_.vectors, 0, i - locked_, active(), 1), y, locked_, j);
    }
    locked_values_ = at(known, best), locked_residuals_ = residuals;
  }
  rebuild(y, o_.k, false);
  const Index width = std::min(o_.block, cut_.n - o_.k);
  block_.randomise();
  const auto outside = block_.project(basis_, width).outside;
  block_.orthonormalise(basis_, width, outside, width, 0);
  push(width);
  width_ = next_ = width;
  h_ = SmallMatrix(o_.dtype), coupling_ = SmallMatrix(o_.dtype, width, 0), ritz_ = {};
  phase_ = Phase::look;
}

void SchurPairs::scale(int power) {
  for (std::vector<double>* numbers : {&values, &residuals})
    for (double& number : *numbers) number = std::ldexp(number, power);
}

SchurPairs BlockKrylovSchur::result() const {
  SchurPairs pairs;
  pairs.applications = applications_ + units_.beside(), pairs.verified = verified_;
  pairs.exponent = op_.squares ? units_.exponent() : 0;
  if (graph_.planning()) {
    pairs.values.assign(o_.k, 0.0), pairs.residuals = pairs.values, pairs.converged = true;
    return pairs;
  }
  const std::vector<double> known = known_values();
  pairs.converged = true;
  for (const Index i : wanted(known, o_.which, o_.k)) {
    pairs.values.push_back(known[i]);
    pairs.residuals.push_back(i < locked_ ? locked_residuals_[i] : ritz_.residuals[i - locked_]);
    if (pairs.residuals.back() > allowed_residual(known[i], norm_, o_.tol)) pairs.converged = false;
  }
  if (static_cast<Index>(pairs.values.size()) < o_.k) pairs.converged = false;
  pairs.scale(units_.exponent() - pairs.exponent);
  return pairs;
}

void BlockKrylovSchur::vectors(const SchurPairs& pairs, const Array& out) {
  const Index p = basis_.columns(), k = static_cast<Index>(pairs.values.size());
  SmallMatrix y(o_.dtype, p, k);
  if (!graph_.planning()) {
    const std::vector<Index> best = wanted(known_values(), o_.which, k);
    for (std::size_t j = 0; j < best.size(); ++j) {
      const Index i = best[j], column = static_cast<Index>(j);
      if (i < locked_)
        y.set(i, column, 1.0);
      else
        put(part(ritz_.vectors, 0, i - locked_, active(), 1), y, locked_, column);
    }
  }
  const Array small = upload(graph_, y);
  sweep(graph_, "vectors", cut_, false, [&](PanelTask& task) {
    const TilePart target = task.rows(out, 0, k, Mode::write);
    double beta = 0;
    for (const auto& from : basis_.parts(0, p)) {
      task.gemm(1, task.columns(basis_, from), task.small(small, {{from.column, 0}, {from.width, k}}), beta, target);
      beta = 1;
    }
    task.drop_slots();
  });
}

void BlockKrylovSchur::measure(SchurPairs& pairs, const Array& vectors) {
  const Index k = o_.k;
  const int unit = units_.exponent() - pairs.exponent;
  pairs.scale(-unit);
  pairs.residuals.clear();
  for (Index from = 0; from < k; from += o_.block) {
    const Index width = std::min(o_.block, k - from);
    block_.load_columns(vectors, from, width);
    units_.apply(graph_, op_, block_);
    ++applications_;
    std::vector<double> values;
    if (!graph_.planning()) values.assign(pairs.values.begin() + from, pairs.values.begin() + from + width);
    const std::vector<double> found = block_.residuals(width, values);
    pairs.residuals.insert(pairs.residuals.end(), found.begin(), found.end());
  }
  for (std::size_t j = 0; j < pairs.residuals.size() && !graph_.planning(); ++j)
    if (pairs.residuals[j] > allowed_residual(pairs.values[j], norm_, o_.tol)) pairs.converged = false;
  pairs.scale(unit);
}

}  // namespace flagstone::spectral
