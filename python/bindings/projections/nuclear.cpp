// Spaces of nucleons, their Hamiltonians by groups and bases of good J.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <deque>
#include <map>

#include "bindings/core/bindings.hpp"
#include "flagstone/algorithms/nuclear/counts.hpp"
#include "flagstone/algorithms/nuclear/hamiltonian.hpp"
#include "flagstone/algorithms/nuclear/j_basis.hpp"
#include "flagstone/algorithms/nuclear/nonzeros.hpp"
#include "flagstone/algorithms/nuclear/read_interaction.hpp"
#include "flagstone/algorithms/subspace/block_basis.hpp"
#include "flagstone/algorithms/subspace/block_source.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/runtime/resume/finished_tiles.hpp"

namespace flagstone::python {
namespace {

using namespace nuclear;
using OrbitNumbers = std::tuple<int, int, int>;  // n, l, 2j

std::vector<Orbit> orbits_of(const std::vector<OrbitNumbers>& numbers) {
  std::vector<Orbit> made;
  for (const auto& [n, l, two_j] : numbers) made.push_back({n, l, two_j});
  return made;
}
std::vector<OrbitNumbers> numbers_of(const std::vector<Orbit>& orbits) {
  std::vector<OrbitNumbers> made;
  for (const Orbit& o : orbits) made.emplace_back(o.n, o.l, o.two_j);
  return made;
}

/// The Hamiltonian as who projects it sees it.
class NuclearSource final : public subspace::BlockSource {
 public:
  explicit NuclearSource(std::shared_ptr<const Hamiltonian> h) : h_(std::move(h)) {}
  Index groups() const override { return h_->basis().groups(); }
  Index rows(Index g) const override { return h_->basis().rows(g); }
  void couplings(Index i, const std::vector<bool>& used, std::vector<std::int32_t>& js) const override {
    h_->coupling().of(i, used, js);
  }
  Index most_nonzeros(Index i, Index j) const override { return h_->extent(i, j).nonzeros; }
  std::size_t workspace_bytes(Index i, Index j) const override { return h_->workspace_bytes(i, j); }
  std::unique_ptr<subspace::BlockMaker> maker() const override { return std::make_unique<Maker>(h_); }
  std::unique_ptr<subspace::MakingEstimate> estimate() const override { return std::make_unique<Estimate>(h_); }
  bool on_its_own() const override { return true; }

 private:
  struct Maker final : subspace::BlockMaker {
    explicit Maker(const std::shared_ptr<const Hamiltonian>& h) : blocks(h) {}
    void make(Index i, Index j, kernel::SparseBlock& to) override { blocks.make(i, j, to); }
    nuclear::BlockMaker blocks;
  };
  struct Estimate final : subspace::MakingEstimate {
    explicit Estimate(std::shared_ptr<const Hamiltonian> of_h) : h(std::move(of_h)) {}
    subspace::Making of(Index i, Index j) override {
      const auto [nonzeros, steps] = h->extent(i, j);
      const auto [made, determinants] = lists.of(*h, i, j);
      return {nonzeros, steps, made, determinants};
    }
    std::shared_ptr<const Hamiltonian> h;
    ListsToMake lists;
  };
  std::shared_ptr<const Hamiltonian> h_;
};

/// States of J of each group, and which pairs of patterns are equal.
std::vector<Index> columns_of(const Basis& basis, int two_j) {
  std::vector<Index> made;
  for (Index g = 0; g < basis.groups(); ++g)
    made.push_back(basis.rows(g) == 0 ? 0 : basis.rows_at(g, two_j) - basis.rows_at(g, two_j + 2));
  return made;
}
std::vector<std::int32_t> patterns_of(const Basis& basis) {
  const auto wide = static_cast<std::int32_t>(basis.space().neutrons().patterns.size());
  std::vector<std::int32_t> made;
  for (Index g = 0; g < basis.groups(); ++g)
    made.push_back(basis.protons(g).pattern * wide + basis.neutrons(g).pattern);
  return made;
}

/// Tasks of whole stretches of stored blocks; those of one file begin where its first block does. Pages of stretches
/// that are written are noted.
Job basis_job(const std::shared_ptr<Basis>& basis, int two_j, const subspace::BlockLayout& layout,
              const std::vector<Array>& values, const std::shared_ptr<Checkpoint>& checkpoint) {
  return {[=](Graph& graph) {
    Stages stages(graph, checkpoint);
    std::deque<FinishedTiles> finished;
    for (std::size_t f = 0; f < values.size(); ++f)
      finished.emplace_back(stages, values[f], values[f].chunks(), "tiles" + std::to_string(f));
    std::vector<ZBlock> blocks(layout.offsets.size());
    for (Index g = layout.groups(); g-- > 0;)  // the first group that has it
      if (const auto at = layout.stored[static_cast<std::size_t>(g)]; at >= 0)
        blocks[static_cast<std::size_t>(at)] = {g, layout.offsets[static_cast<std::size_t>(at)],
                                                layout.columns[static_cast<std::size_t>(g)]};
    JBlocks made(graph, basis, two_j, blocks);
    for (std::size_t w = 0; w + 1 < layout.writes.size(); ++w) {
      const auto first = static_cast<std::size_t>(layout.writes[w]),
                 last = static_cast<std::size_t>(layout.writes[w + 1]);
      const auto file = static_cast<std::size_t>(layout.file[first]);
      const bool ends = last == layout.offsets.size() || layout.file[last] != layout.file[first];
      const Index begin = layout.offsets[first], end = ends ? layout.lengths[file] : layout.offsets[last];
      const Box box{{begin}, {end - begin}};
      if (finished[file].holds(box)) continue;
      made.add(
          {blocks.begin() + static_cast<std::ptrdiff_t>(first), blocks.begin() + static_cast<std::ptrdiff_t>(last)},
          values[file], box);
      finished[file].finish(box);
      finished[file].offer();
    }
    graph.barrier();
  }};
}

auto counted(const Space& space, int two_j) {
  const Counts c = counts(space, two_j);
  return std::tuple(c.groups, c.groups_used, c.dimension, c.columns, c.tasks, c.z_numbers, c.distinct_numbers,
                    c.h_prime_numbers, nonzeros(space, two_j));
}

void bind_hamiltonian(nb::module_& m) {
  nb::class_<Hamiltonian>(m, "NuclearHamiltonian")
      .def("__init__",
           [](Hamiltonian* self, const std::shared_ptr<Basis>& basis, const std::shared_ptr<Interaction>& interaction) {
             new (self) Hamiltonian(basis, interaction);
           })
      .def("couplings",
           [](const Hamiltonian& h, Index i) {
             std::vector<std::int32_t> js;
             h.coupling().of(i, std::vector<bool>(static_cast<std::size_t>(h.basis().groups()), true), js);
             return js;
           })
      .def(
          "most_nonzeros", [](const Hamiltonian& h, Index i, Index j) { return h.extent(i, j).nonzeros; }, nb::arg("i"),
          nb::arg("j"))
      .def("block",
           [](const std::shared_ptr<Hamiltonian>& h, Index i, Index j) {
             kernel::SparseBlock made;
             nuclear::BlockMaker(h).make(i, j, made);
             return std::tuple(made.starts, made.columns, made.values);
           })
      .def("source", [](const std::shared_ptr<Hamiltonian>& h) -> std::shared_ptr<subspace::BlockSource> {
        return std::make_shared<NuclearSource>(h);
      });
}

}  // namespace

void bind_nuclear(nb::module_& m) {
  m.def("oscillator_orbits", [](int most) { return numbers_of(oscillator_orbits(most)); });
  m.def("least_quanta",
        [](const std::vector<OrbitNumbers>& orbits, int n) { return least_quanta(orbits_of(orbits), n); });
  m.def("clebsch_gordan", &clebsch_gordan);
  nb::class_<Space>(m, "NuclearSpace")
      .def(
          "__init__",
          [](Space* self, const std::vector<OrbitNumbers>& p, const std::vector<OrbitNumbers>& n, int protons,
             int neutrons,
             std::optional<int> nmax) { new (self) Space(orbits_of(p), orbits_of(n), protons, neutrons, nmax); },
          nb::arg("proton_orbits"), nb::arg("neutron_orbits"), nb::arg("protons"), nb::arg("neutrons"),
          nb::arg("nmax").none())
      .def("counts", &counted);
  nb::class_<Interaction>(m, "NuclearInteraction")
      .def_static("read_snt", &Interaction::read_snt)
      .def_static("read_isospin", &read_isospin)
      .def("set_scaling", &Interaction::set_scaling)
      .def_static("random", &Interaction::random)
      .def("orbits", [](const Interaction& i, bool neutrons) { return numbers_of(i.orbits(neutrons)); })
      .def_prop_ro("is_random", &Interaction::is_random)
      .def_prop_ro("elements", &Interaction::elements)
      .def("scale", &Interaction::scale)
      .def("one_body", [](const Interaction& i, bool neutrons, const OrbitNumbers& a,
                          const OrbitNumbers& b) { return i.one_body(neutrons, orbits_of({a})[0], orbits_of({b})[0]); })
      .def("two_body", [](const Interaction& i, int kind, const std::vector<OrbitNumbers>& abcd) {
        const auto o = orbits_of(abcd);
        std::vector<double> made;
        i.two_body(static_cast<Kind>(kind), o.at(0), o.at(1), o.at(2), o.at(3), made);
        return std::tuple(momenta(o[0], o[1], o[2], o[3]).first, made);
      });
  nb::class_<Basis>(m, "NuclearBasis")
      .def("__init__",
           [](Basis* self, const std::shared_ptr<Space>& space, int two_m) { new (self) Basis(space, two_m); })
      .def_prop_ro("groups", &Basis::groups)
      .def_prop_ro("dimension", &Basis::dimension)
      .def_prop_ro("rows",
                   [](const Basis& b) {
                     std::vector<Index> rows;
                     for (Index g = 0; g < b.groups(); ++g) rows.push_back(b.rows(g));
                     return rows;
                   })
      .def("columns", &columns_of)
      .def_prop_ro("patterns", &patterns_of)
      .def("raising",
           [](const Basis& b, Index g) {
             std::vector<std::tuple<int, int, double>> made;
             for (const Raising& e : raising(b, g)) made.emplace_back(e.to, e.from, e.value);
             return made;
           })
      .def(
          "j_squared",
          [](const Basis& b, nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu> x,
             nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu> y) {
            if (static_cast<Index>(x.shape(0)) != b.dimension() || y.shape(0) != x.shape(0) || y.shape(1) != x.shape(1))
              throw ShapeError("j_squared: vectors of " + std::to_string(b.dimension()) + " rows are needed.");
            const nb::gil_scoped_release unlocked;
            j_squared(b, static_cast<Index>(x.shape(1)), x.data(), y.data());
          })
      .def("states", [](const Basis& b, Index g) {
        // Of each row the occupied states, as (neutron, orbit, number) for tests.
        std::vector<std::vector<std::tuple<bool, int, int>>> made;
        const auto &pc = b.protons(g), &nc = b.neutrons(g);
        const auto &p = b.determinants(pc, false), &n = b.determinants(nc, true);
        const auto list = [](std::vector<std::tuple<bool, int, int>>& to, bool neutron, const Species& s,
                             const Configuration& c, const Determinants& d, Index det) {
          for (const Occupied& o : c.orbits)
            for (int i = 0; i < s.orbits[static_cast<std::size_t>(o.orbit)].states(); ++i)
              if (o.slot < 0 || (d.mask(det, static_cast<std::size_t>(o.slot)) >> i & 1))
                to.emplace_back(neutron, o.orbit, i);
        };
        for (Index dp = 0; dp < p.count(); ++dp)
          for (const auto dn : n.sector(b.two_m() - p.two_m(dp))) {
            auto& row = made.emplace_back();
            list(row, false, b.space().protons(), pc, p, dp);
            list(row, true, b.space().neutrons(), nc, n, dn);
          }
        return made;
      });
  bind_hamiltonian(m);
  m.def("basis_of_j_job", &basis_job, nb::arg("basis"), nb::arg("two_j"), nb::arg("layout"), nb::arg("values"),
        nb::arg("checkpoint").none());
}

}  // namespace flagstone::python
