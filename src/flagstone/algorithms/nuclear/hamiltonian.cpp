#include "flagstone/algorithms/nuclear/hamiltonian.hpp"

#include <algorithm>
#include <cstdlib>

namespace flagstone::nuclear {
namespace {

const Orbit& orbit(const Species& s, int number) { return s.orbits[static_cast<std::size_t>(number)]; }

/// Most elements in a row of OwnElements, most jumps of a determinant that change M by one given number, and the
/// largest such change.
struct Bounds {
  Index own = 0, jumps = 0, all_jumps = 0, change = 0;
};

Bounds bounds_of(const Species& s, const Configuration& c, const Moves& m) {
  Bounds found;
  const auto states = [&](int o) { return static_cast<Index>(orbit(s, o).states()); };
  const auto together = [&](int a, int b) { return std::min(states(a), states(b)); };
  if (m.moves == 2) {
    const Index a = c.in(m.removed[0]), b = c.in(m.removed[1]);
    found.own = (m.removed[0] == m.removed[1] ? a * (a - 1) / 2 : a * b) * together(m.added[0], m.added[1]);
    return found;
  }
  if (m.moves == 1) {
    const Index a = c.in(m.removed[0]);
    found.jumps = a, found.all_jumps = a * states(m.added[0]);
    found.change = (states(m.removed[0]) + states(m.added[0])) / 2 - 1;
    found.own = a;  // energies
    for (const Occupied& o : c.orbits)
      found.own += a * (o.count - (o.orbit == m.removed[0])) * together(m.added[0], o.orbit);
    return found;
  }
  found.own = 1;
  for (const Occupied& o : c.orbits) {
    found.jumps += o.count, found.all_jumps += o.count * (states(o.orbit) - o.count + 1);
    found.change = std::max(found.change, states(o.orbit) - 1);
    for (const Occupied& e : c.orbits)
      if (e.orbit >= o.orbit)
        found.own +=
            (e.orbit == o.orbit ? o.count * (o.count - 1) / 2 : o.count * e.count) * together(o.orbit, e.orbit);
  }
  return found;
}

}  // namespace

Hamiltonian::Hamiltonian(std::shared_ptr<const Basis> basis, std::shared_ptr<const Interaction> interaction)
    : basis_((interaction->check_spans(basis->space()), std::move(basis))),
      interaction_(std::move(interaction)),
      coupling_(*basis_),
      tables_(basis_->space()),
      scale_(interaction_->scale(basis_->space().nucleons())) {}

Hamiltonian::Extent Hamiltonian::extent(Index i, Index j) const {
  const Species &ps = basis_->space().protons(), &ns = basis_->space().neutrons();
  const Configuration &p = basis_->protons(i), &n = basis_->neutrons(i);
  const Moves pm = moves_between(p, basis_->protons(j)), nm = moves_between(n, basis_->neutrons(j));
  const Bounds a = bounds_of(ps, p, pm), b = bounds_of(ns, n, nm);
  Index row = 0;
  if (nm.moves == 0) row += a.own;
  if (pm.moves == 0) row += b.own;
  const bool mixed = pm.moves <= 1 && nm.moves <= 1;
  if (mixed) row += std::min(a.all_jumps * b.jumps, a.jumps * b.all_jumps);
  const Index rows = basis_->rows(i);
  return {rows * std::min(row, basis_->rows(j)), mixed ? rows * (2 * std::min(a.change, b.change) + 1) : 0};
}

std::size_t Hamiltonian::workspace_bytes(Index i, Index j) const {
  const Species &ps = basis_->space().protons(), &ns = basis_->space().neutrons();
  std::size_t bytes = 0;
  for (const bool neutron : {false, true}) {
    const Configuration &c = neutron ? basis_->neutrons(i) : basis_->protons(i),
                        &to = neutron ? basis_->neutrons(j) : basis_->protons(j);
    const Bounds b = bounds_of(neutron ? ns : ps, c, moves_between(c, to));
    const Index dets = basis_->determinants(c, neutron).count(), targets = basis_->determinants(to, neutron).count();
    bytes += static_cast<std::size_t>(2 * dets * (16 * b.own + 16 * b.all_jumps + 4 * 64) + 16 * targets);
  }
  return bytes + 2 * kept_list_bytes +
         static_cast<std::size_t>(24 * extent(i, j).nonzeros + 16 * (basis_->rows(i) + basis_->rows(j)));
}

ListsToMake::Made ListsToMake::of(const Hamiltonian& h, Index i, Index j) {
  const Basis& basis = h.basis();
  const int moves[2] = {moves_between(basis.protons(i), basis.protons(j)).moves,
                        moves_between(basis.neutrons(i), basis.neutrons(j)).moves};
  Made made;
  if (moves[0] + moves[1] > 2) return made;
  const bool mixed = moves[0] <= 1 && moves[1] <= 1;
  for (const bool neutron : {false, true}) {
    const std::int32_t from = neutron ? basis.group(i).neutrons : basis.group(i).protons,
                       to = neutron ? basis.group(j).neutrons : basis.group(j).protons;
    Known& known = known_[neutron][ListPlaces::of(from, to)];
    if (known.from != from || known.to != to) known = {from, to, false, false};
    const bool own = moves[!neutron] == 0;
    const Index dets = basis.determinants(neutron ? basis.neutrons(i) : basis.protons(i), neutron).count();
    if (own && !known.own) ++made.lists, made.determinants += dets;
    if (mixed && !known.jumps) ++made.lists, made.determinants += 3 * dets;
    known.own |= own, known.jumps |= mixed;
  }
  return made;
}

const BlockMaker::Lists& BlockMaker::prepare(bool neutron, std::int32_t from, std::int32_t to, int reach, bool own,
                                             bool jumps) {
  const Basis& basis = h_->basis();
  const Species& species = neutron ? basis.space().neutrons() : basis.space().protons();
  Kept& kept = kept_[neutron];
  const std::size_t place = ListPlaces::of(from, to);
  if (kept.bytes > kept_list_bytes) {
    for (auto& lists : kept.lists) lists.reset();
    kept.bytes = 0;
  }
  auto& held = kept.lists[place];
  if (!held) held = std::make_unique<Lists>();
  Lists& lists = *held;
  const bool known = lists.from == from && lists.to == to;
  if (!known) lists.has_own = lists.has_jumps = false;
  if (lists.reach < reach) lists.has_own = false;
  if ((!own || lists.has_own) && (!jumps || lists.has_jumps)) {
    lists.from = from, lists.to = to;
    return lists;
  }
  kept.bytes -= lists.bytes();
  const auto &a = species.configurations[static_cast<std::size_t>(from)],
             &b = species.configurations[static_cast<std::size_t>(to)];
  const Side side{&species, neutron, &a, &b, &basis.determinants(a, neutron), &basis.determinants(b, neutron)};
  if (own && !lists.has_own) {
    lists.own.list(side, h_->interaction(), h_->scale(), h_->tables(), basis.two_m(), reach);
    lists.has_own = true, lists.reach = reach;
  }
  if (jumps && !lists.has_jumps) lists.jumps.list(side), lists.has_jumps = true;
  lists.from = from, lists.to = to;
  kept.bytes += lists.bytes();
  return lists;
}

void BlockMaker::prepare_mixed() {
  const Species &ps = h_->basis().space().protons(), &ns = h_->basis().space().neutrons();
  mixed_.clear();
  for (const Jumps::Channel& p : protons_->jumps.channels())
    for (const Jumps::Channel& n : neutrons_->jumps.channels()) {
      const Orbit &a = orbit(ps, p.from), &b = orbit(ns, n.from), &c = orbit(ps, p.to), &d = orbit(ns, n.to);
      Quadruple& made = mixed_.emplace_back();
      made.bra = &h_->tables().of(a.two_j, b.two_j), made.ket = &h_->tables().of(c.two_j, d.two_j);
      made.first = momenta(a, b, c, d).first;
      h_->interaction().two_body(Kind::mixed, a, b, c, d, made.values);
      for (double& value : made.values) value *= h_->scale();
    }
}

void BlockMaker::make(Index i, Index j, kernel::SparseBlock& to) {
  const Basis& basis = h_->basis();
  const Configuration &p = basis.protons(i), &n = basis.neutrons(i), &tp = basis.protons(j), &tn = basis.neutrons(j);
  const int pm = moves_between(p, tp).moves, nm = moves_between(n, tn).moves;
  const Determinants &from_p = basis.determinants(p, false), &from_n = basis.determinants(n, true),
                     &to_p = basis.determinants(tp, false), &to_n = basis.determinants(tn, true);
  to.begin(basis.rows(i), basis.rows(j));
  if (pm + nm > 2) {
    for (Index r = 0; r < to.rows; ++r) to.end_row();
    return;
  }
  const bool mixed = pm <= 1 && nm <= 1;
  protons_ = &prepare(false, basis.group(i).protons, basis.group(j).protons, from_n.most(), nm == 0, mixed);
  neutrons_ = &prepare(true, basis.group(i).neutrons, basis.group(j).neutrons, from_p.most(), pm == 0, mixed);
  if (mixed) prepare_mixed();
  base_.clear();
  std::int32_t at = 0;
  for (Index d = 0; d < to_p.count(); ++d) {
    base_.push_back(at);
    at += static_cast<std::int32_t>(to_n.sector(basis.two_m() - to_p.two_m(d)).size());
  }
  row_.resize(static_cast<std::size_t>(to.cols), 0.0), seen_.resize(row_.size(), 0);
  const bool direct = pm == 1 && nm == 1;  // each row meets a column once
  for (Index dp = 0; dp < from_p.count(); ++dp)
    for (const std::int32_t dn : from_n.sector(basis.two_m() - from_p.two_m(dp))) {
      if (direct) {
        mixed_direct(dp, dn, base_, to_n, to);
      } else {
        if (nm == 0)
          for (auto [e, end] = protons_->own.of(dp); e != end; ++e) {
            const auto column =
                static_cast<std::size_t>(base_[static_cast<std::size_t>(e->target)] + from_n.within(dn));
            if (!seen_[column]) seen_[column] = 1, touched_.push_back(static_cast<std::int32_t>(column));
            row_[column] += e->value;
          }
        if (pm == 0)
          for (auto [e, end] = neutrons_->own.of(dn); e != end; ++e) {
            const auto column = static_cast<std::size_t>(base_[static_cast<std::size_t>(dp)] + to_n.within(e->target));
            if (!seen_[column]) seen_[column] = 1, touched_.push_back(static_cast<std::int32_t>(column));
            row_[column] += e->value;
          }
        if (mixed) row(dp, dn, base_, to_n);
        for (const std::int32_t column : touched_) {
          double& value = row_[static_cast<std::size_t>(column)];
          if (value != 0) to.add(column, value);
          value = 0, seen_[static_cast<std::size_t>(column)] = 0;
        }
        touched_.clear();
      }
      to.end_row();
    }
}

void BlockMaker::row(Index p, Index n, const std::vector<std::int32_t>& base, const Determinants& to_neutrons) {
  const std::size_t wide = neutrons_->jumps.channels().size();
  const int most = std::min(protons_->jumps.most(), neutrons_->jumps.most());
  for (int step = -most; step <= most; ++step) {
    const auto [x, x_end] = protons_->jumps.of(p, 2 * step);
    const auto [y, y_end] = neutrons_->jumps.of(n, -2 * step);
    for (const Jump* a = x; a != x_end; ++a)
      for (const Jump* b = y; b != y_end; ++b) {
        const Quadruple& q = mixed_[a->channel * wide + b->channel];
        if (q.values.empty()) continue;
        const double value = q.element(a->from, b->from, a->to, b->to);
        const auto column =
            static_cast<std::size_t>(base[static_cast<std::size_t>(a->target)] + to_neutrons.within(b->target));
        if (!seen_[column]) seen_[column] = 1, touched_.push_back(static_cast<std::int32_t>(column));
        row_[column] += a->sign * b->sign > 0 ? value : -value;
      }
  }
}

void BlockMaker::mixed_direct(Index p, Index n, const std::vector<std::int32_t>& base, const Determinants& to_neutrons,
                              kernel::SparseBlock& to) {
  const Quadruple& q = mixed_[0];
  if (q.values.empty()) return;
  const int most = std::min(protons_->jumps.most(), neutrons_->jumps.most());
  for (int step = -most; step <= most; ++step) {
    const auto [x, x_end] = protons_->jumps.of(p, 2 * step);
    if (x == x_end) continue;
    const auto [y, y_end] = neutrons_->jumps.of(n, -2 * step);
    for (const Jump* a = x; a != x_end; ++a)
      for (const Jump* b = y; b != y_end; ++b) {
        const double value = q.element(a->from, b->from, a->to, b->to);
        if (value != 0)
          to.add(static_cast<std::int32_t>(base[static_cast<std::size_t>(a->target)] + to_neutrons.within(b->target)),
                 a->sign * b->sign > 0 ? value : -value);
      }
  }
}

}  // namespace flagstone::nuclear
