// Time loops over fields.
#include "flagstone/algorithms/stencil/expression_kernel.hpp"
#include "flagstone/algorithms/stencil/field/field_stage.hpp"
#include "flagstone/algorithms/stencil/field/socket_counts.hpp"
#include "flagstone/algorithms/stencil/scheme.hpp"
#include "flagstone/kernel/stencil/compiled_rows.hpp"
#include "flagstone/kernel/stencil/kernel_probe.hpp"
#include "flagstone/kernel/stencil/weights.hpp"

#include <nanobind/stl/complex.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "bindings/core/bindings.hpp"
#include "flagstone/base/error.hpp"

namespace flagstone::python {
namespace {

struct Stencil {
  std::shared_ptr<stencil::Problem> problem = std::make_shared<stencil::Problem>();
  std::shared_ptr<stencil::Scheme> scheme = std::make_shared<stencil::Scheme>();
  std::shared_ptr<std::shared_ptr<stencil::SocketCounts>> placed =
      std::make_shared<std::shared_ptr<stencil::SocketCounts>>();  // of the last run
  using Reductions = std::vector<std::shared_ptr<stencil::StepReductions>>;
  std::vector<stencil::ReductionWish> reductions;                        // of each field that somebody asks of
  std::shared_ptr<Reductions> reduced = std::make_shared<Reductions>();  // of the last run
  stencil::Wishes wishes;
  bool only_choose = false;  // jobs add no task

  stencil::Axes axes(const Shape& of_dimensions, Index missing) const {
    stencil::Axes found{missing, missing, missing};
    for (std::size_t i = 0; i < of_dimensions.size(); ++i) found[problem->axes[i]] = of_dimensions[i];
    return found;
  }
};

std::vector<std::byte> bytes_of(const nb::ndarray<nb::ro>& values) {
  const Tile from = tile_of(values);
  std::vector<std::byte> bytes(static_cast<std::size_t>(count(from.shape)) * size_of(from.dtype));
  copy(from, {bytes.data(), from.dtype, from.shape, c_strides(from.shape, size_of(from.dtype)), bytes.size()});
  return bytes;
}

kernel::WeightsForm form_from_name(const std::string& name) {
  using enum kernel::WeightsForm;
  if (name == "sum") return sum;
  if (name == "grow") return grow;
  if (name == "grow_source") return grow_source;
  if (name == "swing") return swing;
  if (name == "wave") return wave;
  return damped_wave;
}

void kernel_of(Stencil& self, std::shared_ptr<const kernel::PlaneKernel> kernel) {
  self.problem->space.radius = kernel->radius();
  self.problem->kernel = std::move(kernel);
}

void init(Stencil* self, const Shape& shape, const std::string& dtype, Index steps) {
  new (self) Stencil();
  stencil::Problem& problem = *self->problem;
  problem.axes = stencil::axes_of(shape.size());
  problem.dtype = dtype_from_name(dtype), problem.space.item = size_of(problem.dtype), problem.steps = steps;
  problem.space.shape = self->axes(shape, 1);
}

/// `what`: "number", "series" (an element a step), or "face" (one a point of the side).
void edge(Stencil& self, std::size_t dimension, bool high, const std::string& name, const nb::ndarray<nb::ro>& value,
          const std::string& what) {
  kernel::EdgeRule rule{kernel::edge_from_name(name), {}};
  std::vector<std::byte> bytes = bytes_of(value);
  if (what == "series")
    rule.series = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  else if (what == "face")
    rule.face = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  else
    std::copy_n(bytes.begin(), std::min<std::size_t>(16, bytes.size()), rule.value.begin());
  self.problem->space.edges[self.problem->axes[dimension]][high ? 1 : 0] = rule;
}

void expression(Stencil& self, const kernel::Program& program, int value,
                const std::vector<std::tuple<std::string, Shape, std::size_t>>& inputs) {
  std::vector<stencil::ExpressionInput> given;
  using Kind = stencil::ExpressionInput::Kind;
  for (const auto& [kind, offset, number] : inputs)
    given.push_back({kind == "before"        ? Kind::before
                     : kind == "coefficient" ? Kind::coefficient
                                             : Kind::neighbour,
                     self.axes(offset, 0), number});
  kernel_of(self, stencil::expression_kernel(program, value, self.problem->dtype, std::move(given)));
}

/// A step reaches as far as its stages together.
void add_stage(stencil::Problem& problem, std::shared_ptr<const stencil::FieldStage> stage) {
  for (std::size_t d = 0; d < 3; ++d) problem.space.radius[d] += stage->radius()[d];
  problem.stages.push_back(std::move(stage));
}

/// One more stage of a step over several fields: which field takes which value of the program.
void stage(Stencil& self, const kernel::Program& program, const stencil::Replaced& replaced,
           const std::vector<std::tuple<std::string, Shape, std::size_t>>& inputs) {
  std::vector<stencil::FieldInput> given;
  for (const auto& [kind, offset, number] : inputs)
    given.push_back({kind == "coefficient", number, self.axes(offset, 0)});
  stencil::Problem& problem = *self.problem;
  add_stage(problem, stencil::expression_stage(program, replaced, problem.dtype, std::move(given)));
}

/// Every step of `steps`, of each dimension `number` points from `first` on, `stride` apart; `kept`: dimensions that
/// the snapshot's array has.
void snapshot(Stencil& self, const std::vector<Index>& steps, const Shape& first, const Shape& number,
              const Shape& stride, const std::vector<std::size_t>& kept, std::size_t field) {
  stencil::Snapshot made{steps, self.axes(first, 0), self.axes(number, 1), self.axes(stride, 1), field, {}, {}};
  for (const std::size_t dimension : kept) made.kept.push_back(self.problem->axes[dimension]);
  self.problem->snapshots.push_back(std::move(made));
}

/// What is to be told of a field: 0 where there is one.
void reduce(Stencil& self, std::size_t field, const std::vector<std::string>& kinds,
            const std::vector<std::pair<std::string, double>>& until, bool check) {
  stencil::ReductionWish wish;
  wish.check = check;
  for (const std::string& kind : kinds) wish.kinds.push_back(kernel::point_fold_from_name(kind));
  for (const auto& [kind, most] : until) wish.until.push_back({kernel::point_fold_from_name(kind), most});
  for (const stencil::FoldKind kind : wish.kinds) kernel::dtype_of_fold(kind, self.problem->dtype);
  if (self.reductions.size() <= field) self.reductions.resize(field + 1);
  self.reductions[field] = std::move(wish);
}

Stencil::Reductions begun(const stencil::Problem& problem, const std::vector<stencil::ReductionWish>& asked) {
  Stencil::Reductions made;
  for (const stencil::ReductionWish& wish : asked)
    made.push_back(wish.empty()
                       ? nullptr
                       : std::make_shared<stencil::StepReductions>(
                             problem.dtype, problem.steps, problem.space.whole().count(), problem.space.shape, wish));
  if (std::ranges::none_of(made, [](const auto& each) { return each != nullptr; })) made.clear();
  return made;
}

/// The name of a reduction's dtype, and its bytes of the steps that the last run did.
std::pair<std::string, nb::bytes> reduced(const Stencil& self, std::size_t field, const std::string& name) {
  const stencil::FoldKind kind = kernel::point_fold_from_name(name);
  const Dtype dtype = kernel::dtype_of_fold(kind, self.problem->dtype);
  const auto bytes = static_cast<std::size_t>(self.scheme->steps) * size_of(dtype);
  return {std::string(name_of(dtype)), nb::bytes(self.reduced->at(field)->values(kind).data(), bytes)};
}

using RowsTold = std::vector<std::tuple<std::string, Shape, std::size_t>>;

std::vector<kernel::LoopRow> loop_rows(const Stencil& self, const RowsTold& told) {
  using Kind = kernel::LoopRow::Kind;
  std::vector<kernel::LoopRow> rows;
  for (const auto& [kind, offset, number] : told)
    rows.push_back({kind == "before"        ? Kind::before
                    : kind == "coefficient" ? Kind::coefficient
                                            : Kind::neighbour,
                    self.axes(offset, 0), number});
  return rows;
}

kernel::ProbedKernel probed(const Stencil& self, std::size_t order, std::size_t coefficients) {
  const stencil::Problem& problem = *self.problem;
  return {problem.kernel.get(), problem.dtype, order == 2, coefficients, problem.space.shape};
}

/// Code that was compiled apart, in pages of its own.
kernel::CompiledLoop own_code(const Stencil& self, const nb::bytes& code, std::size_t entry, const RowsTold& rows) {
  const auto* const bytes = static_cast<const std::byte*>(code.data());
  auto owner = std::make_shared<const kernel::MachineCode>(std::span(bytes, code.size()), entry);
  return {owner->row(), owner, loop_rows(self, rows)};
}

/// A loop that the program compiled, and holds as long as it is called.
kernel::CompiledLoop held_code(const Stencil& self, std::uintptr_t address, const RowsTold& rows) {
  return {std::bit_cast<kernel::RowLoop>(address), nullptr, loop_rows(self, rows)};
}

/// The expression that is the kernel so far, compiled.
void compiled(Stencil& self, const nb::bytes& code, std::size_t entry, const RowsTold& rows) {
  const kernel::PlaneKernel& same = *self.problem->kernel;
  kernel_of(self,
            kernel::loop_kernel(self.problem->dtype, own_code(self, code, entry, rows), same.radius(), same.flops()));
}

/// The expression that is the last stage so far, compiled.
void compiled_stage(Stencil& self, const nb::bytes& code, std::size_t entry, const RowsTold& rows) {
  std::shared_ptr<const stencil::FieldStage>& last = self.problem->stages.back();
  stencil::Replaced replaced = last->replaced();
  for (std::size_t m = 0; m < replaced.size(); ++m) replaced[m].second = static_cast<int>(m);
  last = stencil::loop_stage(own_code(self, code, entry, rows), std::move(replaced), self.problem->dtype,
                             last->radius(), last->flops());
}

void row_function(Stencil& self, std::uintptr_t address, const RowsTold& rows, const Shape& radius, double flops) {
  kernel_of(self,
            kernel::loop_kernel(self.problem->dtype, held_code(self, address, rows), self.axes(radius, 0), flops));
}

/// One more stage: result m of the function is field replaced[m].
void row_stage(Stencil& self, std::uintptr_t address, const RowsTold& rows, const std::vector<std::size_t>& replaced,
               const Shape& radius, double flops) {
  stencil::Replaced each;
  for (const std::size_t field : replaced) each.emplace_back(field, static_cast<int>(each.size()));
  add_stage(*self.problem, stencil::loop_stage(held_code(self, address, rows), std::move(each), self.problem->dtype,
                                               self.axes(radius, 0), flops));
}

}  // namespace

void bind_stencil(nb::module_& m) {
  nb::class_<Stencil>(m, "Stencil")
      .def("__init__", &init, nb::arg("shape"), nb::arg("dtype"), nb::arg("steps"))
      .def("edge", &edge, nb::arg("dimension"), nb::arg("high"), nb::arg("rule"), nb::arg("value"), nb::arg("what"))
      .def(
          "weights",
          [](Stencil& self, const std::string& form, const std::vector<std::pair<Shape, std::complex<double>>>& given) {
            std::vector<kernel::WeightedNeighbour> neighbours;
            for (const auto& [offset, weight] : given) neighbours.push_back({self.axes(offset, 0), weight});
            kernel_of(self, kernel::weights_kernel(self.problem->dtype, form_from_name(form), std::move(neighbours)));
          })
      .def("expression", &expression)
      .def("compiled", &compiled)
      .def("row_function", &row_function)
      .def("probe_bytes", [](const Stencil& self, std::size_t order, std::size_t coefficients,
                             int threads) { return kernel::probe_bytes(probed(self, order, coefficients), threads); })
      .def("probe",
           [](const Stencil& self, std::size_t order, std::size_t coefficients, int threads, double seconds) {
             const nb::gil_scoped_release unlocked;
             const kernel::KernelRates rates = kernel::probe(probed(self, order, coefficients), threads, seconds);
             return std::pair{rates.cached, rates.streaming};
           })
      .def_rw("only_choose", &Stencil::only_choose)
      .def("rates",
           [](Stencil& self, double read, double written, double cached, double streaming) {
             self.wishes.rates = {read, written, cached, streaming};
           })
      .def("source",
           [](Stencil& self, const Shape& point, const nb::ndarray<nb::ro>& series, std::size_t field) {
             auto bytes = std::make_shared<const std::vector<std::byte>>(bytes_of(series));
             self.problem->sources.push_back({self.axes(point, 0), std::move(bytes), field});
           })
      .def("receiver",
           [](Stencil& self, const Shape& point, std::size_t field) {
             self.problem->receivers.push_back(self.axes(point, 0));
             self.problem->receiver_fields.push_back(field);
           })
      .def("stage", &stage, nb::arg("program"), nb::arg("replaced"), nb::arg("inputs"))
      .def("compiled_stage", &compiled_stage, nb::arg("code"), nb::arg("entry"), nb::arg("rows"))
      .def("row_stage", &row_stage, nb::arg("address"), nb::arg("rows"), nb::arg("replaced"), nb::arg("radius"),
           nb::arg("flops"))
      .def("snapshot", &snapshot, nb::arg("steps"), nb::arg("first"), nb::arg("number"), nb::arg("stride"),
           nb::arg("kept"), nb::arg("field"))
      .def("mesh",
           [](Stencil& self, Index first, Index second) {
             self.wishes.mesh = {first, second};
           })
      .def("names", [](Stencil& self, const std::vector<std::string>& names) { self.problem->names = names; })
      .def("reduce", &reduce, nb::arg("field"), nb::arg("kinds"), nb::arg("until"), nb::arg("check"))
      .def("reduced", &reduced, nb::arg("field"), nb::arg("kind"))
      .def_prop_ro("steps", [](const Stencil& self) { return self.scheme->steps; })
      .def("wish",
           [](Stencil& self, const std::string& method, const Shape& block, Index depth, const Shape& cache_block,
              const std::vector<double>& rates, bool overlap) {
             self.problem->overlap = overlap;
             self.wishes.method = method, self.wishes.depth = depth;
             if (!block.empty()) self.wishes.block = self.axes(block, 1);
             if (!cache_block.empty())
               self.wishes.planes = cache_block[0], self.wishes.strip = cache_block[1],
               self.wishes.levels = cache_block[2];
             if (rates.size() == 4) self.wishes.rates = {rates[0], rates[1], rates[2], rates[3]};
           })
      .def(
          "scratch",
          [](Stencil& self, const std::string& directory, const std::string& who, std::optional<std::uint64_t> quota) {
            self.problem->scratch = {directory, who, quota};
          },
          nb::arg("directory"), nb::arg("who"), nb::arg("quota").none())
      .def(
          "job",
          [](const Stencil& self, const std::vector<Array>& from, const std::vector<Array>& to,
             const std::vector<Array>& coefficients, const Array& traces, const std::vector<Array>& snapshots,
             std::optional<double> longest, const std::shared_ptr<Checkpoint>& checkpoint) {
            auto problem = std::make_shared<stencil::Problem>(*self.problem);
            problem->from = from, problem->to = to, problem->coefficients = coefficients, problem->traces = traces;
            problem->saved = longest.has_value(), problem->longest_superstep = longest.value_or(0);
            problem->checkpoint = checkpoint;
            for (std::size_t i = 0; i < snapshots.size(); ++i) problem->snapshots[i].to = snapshots[i];
            return Job{[=, wishes = self.wishes, scheme = self.scheme, asked = self.reductions, reduced = self.reduced,
                        placed = self.placed, only_choose = self.only_choose](Graph& graph) {
              if (only_choose) {
                *scheme = stencil::choose(*problem, wishes, graph.budget(), graph.workers());
                return;
              }
              *reduced = problem->reductions = begun(*problem, asked);
              *placed = problem->placed = std::make_shared<stencil::SocketCounts>();
              *scheme = stencil::run(graph, problem, wishes);
            }};
          },
          nb::arg("states"), nb::arg("results"), nb::arg("coefficients"), nb::arg("traces"), nb::arg("snapshots"),
          nb::arg("longest").none(), nb::arg("checkpoint").none())
      .def_prop_ro("method", [](const Stencil& self) { return std::string(stencil::name_of(self.scheme->method)); })
      .def_prop_ro("depth", [](const Stencil& self) { return self.scheme->depth; })
      .def_prop_ro("supersteps", [](const Stencil& self) { return self.scheme->supersteps; })
      .def_prop_ro("block",
                   [](const Stencil& self) {
                     Shape block;
                     const stencil::Scheme& scheme = *self.scheme;
                     const bool skewed = scheme.method == stencil::Method::al3;
                     for (const std::size_t d : self.problem->axes)
                       block.push_back(skewed ? scheme.skewed.block[d] : scheme.blocks.block[d]);
                     return block;
                   })
      .def_prop_ro("cache_block",
                   [](const Stencil& self) {
                     const stencil::WavefrontScheme& scheme = self.scheme->wavefront;
                     return Shape{scheme.planes, scheme.strip, scheme.levels};
                   })
      .def_prop_ro("held",
                   [](const Stencil& self) {
                     const stencil::Scheme& scheme = *self.scheme;
                     return scheme.method == stencil::Method::al4   ? scheme.wavefront.held
                            : scheme.method == stencil::Method::al3 ? scheme.skewed.held
                                                                    : scheme.blocks.held;
                   })
      .def_prop_ro("flops", [](const Stencil& self) { return self.problem->flops(); })
      .def_prop_ro("radius",
                   [](const Stencil& self) {
                     Shape radius;
                     for (const std::size_t d : self.problem->axes) radius.push_back(self.problem->space.radius[d]);
                     return radius;
                   })
      .def_prop_ro("face_elements", [](const Stencil& self) { return self.scheme->face_elements; })
      .def_prop_ro("sleeve_elements", [](const Stencil& self) { return self.scheme->sleeve_elements; })
      .def_prop_ro("exchange_seconds", [](const Stencil& self) { return self.scheme->exchange_seconds; })
      .def_prop_ro("barrier_seconds", [](const Stencil& self) { return self.scheme->barrier_seconds; })
      .def_prop_ro("loop_seconds", [](const Stencil& self) { return self.scheme->loop_seconds; })
      .def_prop_ro("sockets",
                   [](const Stencil& self) {
                     std::vector<std::tuple<double, double, double>> told;
                     if (*self.placed)
                       for (const stencil::SocketShare& share : (*self.placed)->shares())
                         told.emplace_back(share.blocks, share.updates, share.strayed);
                     return told;
                   })
      .def_prop_ro("scratch_bytes", [](const Stencil& self) { return self.scheme->scratch_bytes; })
      .def_prop_ro("elements_read", [](const Stencil& self) { return self.scheme->read; })
      .def_prop_ro("elements_written", [](const Stencil& self) { return self.scheme->written; })
      .def_prop_ro("updates", [](const Stencil& self) { return self.scheme->updates; })
      .def_prop_ro("compute_seconds", [](const Stencil& self) { return self.scheme->compute_seconds; })
      .def_prop_ro("compute_bound",
                   [](const Stencil& self) { return self.scheme->compute_seconds >= self.scheme->disk_seconds; });
}

}  // namespace flagstone::python
