// Projections of symmetric matrices on block-diagonal bases.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>

#include "bindings/core/bindings.hpp"
#include "bindings/core/numpy_of.hpp"
#include "flagstone/algorithms/subspace/csr_source.hpp"
#include "flagstone/algorithms/subspace/group_rows.hpp"
#include "flagstone/algorithms/subspace/multiply.hpp"
#include "flagstone/algorithms/subspace/pair_product.hpp"
#include "flagstone/algorithms/subspace/project.hpp"
#include "flagstone/base/error.hpp"

namespace flagstone::python {
namespace {

using namespace subspace;

using Indices = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Values = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

/// function(i, j) -> None or (starts, columns, values), with Python's lock.
class CalledMaker final : public BlockMaker {
 public:
  CalledMaker(std::shared_ptr<nb::object> function, const std::vector<Index>& rows)
      : function_(std::move(function)), rows_(rows) {}
  void make(Index i, Index j, kernel::SparseBlock& to) override {
    const nb::gil_scoped_acquire lock;
    to.begin(rows_[static_cast<std::size_t>(i)], rows_[static_cast<std::size_t>(j)]);
    const nb::object made = (*function_)(i, j);
    if (made.is_none()) {
      to.starts.assign(static_cast<std::size_t>(to.rows) + 1, 0);
      return;
    }
    const auto [starts, columns, values] = nb::cast<std::tuple<Indices, Indices, Values>>(made);
    to.starts.assign(starts.data(), starts.data() + starts.size());
    to.columns.assign(columns.data(), columns.data() + columns.size());
    to.values.assign(values.data(), values.data() + values.size());
    check(i, j, to);
  }

 private:
  /// Whoever wrote the function may have made any numbers.
  static void check(Index i, Index j, const kernel::SparseBlock& made) {
    const bool whole = static_cast<Index>(made.starts.size()) == made.rows + 1 && made.starts.front() == 0 &&
                       std::is_sorted(made.starts.begin(), made.starts.end()) &&
                       static_cast<std::size_t>(made.starts.back()) == made.columns.size() &&
                       made.columns.size() == made.values.size();
    const auto inside = [&](std::int32_t column) { return column >= 0 && column < made.cols; };
    if (!whole || !std::all_of(made.columns.begin(), made.columns.end(), inside))
      throw ShapeError("project: block (" + std::to_string(i) + ", " + std::to_string(j) +
                       ") has pointers or columns beyond its " + std::to_string(made.rows) + " rows and " +
                       std::to_string(made.cols) + " columns; make a whole CSR matrix.");
    const auto finite = [](auto value) { return std::isfinite(static_cast<double>(value)); };
    if (!std::all_of(made.values.begin(), made.values.end(), finite))
      throw NumericalError("project: block (" + std::to_string(i) + ", " + std::to_string(j) +
                           ") holds NaN or Inf; finite values are needed.");
  }

  std::shared_ptr<nb::object> function_;
  const std::vector<Index>& rows_;
};

/// Blocks that a function of Python makes; which there are is said beforehand.
class CalledSource final : public BlockSource {
 public:
  CalledSource(nb::object function, std::vector<Index> rows, std::vector<std::vector<std::int32_t>> pattern)
      : function_(shared_object(std::move(function))), rows_(std::move(rows)), pattern_(std::move(pattern)) {}
  Index groups() const override { return static_cast<Index>(rows_.size()); }
  Index rows(Index group) const override { return rows_[static_cast<std::size_t>(group)]; }
  void couplings(Index i, const std::vector<bool>& used, std::vector<std::int32_t>& js) const override {
    js.clear();
    for (const std::int32_t j : pattern_[static_cast<std::size_t>(i)])
      if (j <= i && used[static_cast<std::size_t>(j)]) js.push_back(j);
  }
  Index most_nonzeros(Index i, Index j) const override { return rows(i) * rows(j); }
  std::size_t workspace_bytes(Index i, Index j) const override {
    return static_cast<std::size_t>(36 * rows(i) * rows(j) + 16 * (rows(i) + rows(j)));  // theirs, as SciPy's, and ours
  }
  std::unique_ptr<BlockMaker> maker() const override { return std::make_unique<CalledMaker>(function_, rows_); }

 private:
  std::shared_ptr<nb::object> function_;
  std::vector<Index> rows_;
  std::vector<std::vector<std::int32_t>> pattern_;
};

struct ProjectJob : Job {
  std::shared_ptr<Notes> notes = std::make_shared<Notes>();
};

ProjectJob project_job(const std::shared_ptr<const Projection>& projection, const Array& values, const Array& blocks,
                       const std::shared_ptr<Checkpoint>& checkpoint) {
  ProjectJob job;
  job.build = [=, notes = job.notes](Graph& graph) { project(graph, projection, values, blocks, checkpoint, notes); };
  return job;
}

void bind_projection(nb::module_& m) {
  nb::class_<BlockSource>(m, "BlockSource").def_prop_ro("on_its_own", &BlockSource::on_its_own);
  m.def("called_source",
        [](nb::object function, std::vector<Index> rows,
           std::vector<std::vector<std::int32_t>> pattern) -> std::shared_ptr<BlockSource> {
          return std::make_shared<CalledSource>(std::move(function), std::move(rows), std::move(pattern));
        });
  m.def("csr_source", [](const Array& columns, const Array& values, std::vector<Index> starts,
                         std::vector<Index> group_rows, std::vector<Index> pattern_starts, std::vector<std::int32_t> js,
                         std::vector<std::int32_t> nonzeros, Index together) {
    return std::const_pointer_cast<BlockSource>(
        csr_source({columns, values, std::move(starts)}, std::move(group_rows),
                   {std::move(pattern_starts), std::move(js), std::move(nonzeros)}, together));
  });
  nb::class_<GroupRows>(m, "GroupRows")
      .def("__init__", [](GroupRows* self, const std::shared_ptr<BlockSource>& h) { new (self) GroupRows(h); })
      .def_prop_ro("bytes", &GroupRows::bytes)
      .def_prop_ro("most_nonzeros", &GroupRows::most_nonzeros)
      .def("most_bytes", &GroupRows::most_bytes)
      .def("rows", [](GroupRows& h, Index group) {
        auto made = h.rows(group);
        return std::tuple(numpy_of(std::move(made.starts)), numpy_of(std::move(made.columns)),
                          numpy_of(std::move(made.values)));
      });
  nb::class_<BlockLayout>(m, "BlockLayout")
      .def_ro("rows", &BlockLayout::rows)
      .def_ro("columns", &BlockLayout::columns)
      .def_ro("stored", &BlockLayout::stored)
      .def_ro("offsets", &BlockLayout::offsets)
      .def_ro("stripes", &BlockLayout::stripes)
      .def_ro("writes", &BlockLayout::writes)
      .def_ro("file", &BlockLayout::file)
      .def_ro("lengths", &BlockLayout::lengths);
  m.def("lay_out_blocks", &lay_out);
  m.def("known_block_layout", &known_layout);
  nb::class_<Projection>(m, "Projection")
      .def("__init__",
           [](Projection* self, const std::shared_ptr<BlockSource>& h, const std::vector<Array>& values,
              const BlockLayout& layout, bool columns, std::uint64_t panel) {
             new (self) Projection{h, {values, layout}, {}, columns ? Order::columns : Order::panels, panel};
             self->runs = runs_of(*h, layout, size_of(values.at(0).dtype()));
           })
      .def(
          "rehearse",
          [](const Projection& p, double seconds, int workers) {
            const Rehearsal done = rehearse(*p.h, p.z.layout, p.runs, p.z.values.at(0).dtype(), seconds, workers);
            return std::tuple(done.work.flops(), done.work.bytes_touched(), done.seconds);
          },
          nb::call_guard<nb::gil_scoped_release>())
      .def_rw("pace", &Projection::pace)
      .def_prop_ro("workspace", [](const Projection& p) { return p.runs.workspace; })
      .def("read_from", [](Projection& p, std::vector<Array> values) { p.z.values = std::move(values); })
      .def_prop_ro("length", [](const Projection& p) { return p.runs.length; })
      .def_prop_ro("blocks", [](const Projection& p) { return p.runs.places.size(); })
      .def_prop_ro("nonzeros", [](const Projection& p) { return p.runs.nonzeros; })
      .def_prop_ro("multiply_adds",
                   [](const Projection& p) {
                     double sum = 0;
                     for (const Run& run : p.runs.runs)
                       sum += run.work.sparse + run.work.dense + 100.0 * run.work.nonzeros;
                     return sum;
                   })
      .def_prop_ro("runs", [](const Projection& p) {
        std::vector<std::tuple<Index, Index, Index, Index, Index, Index>> made;
        for (const Run& r : p.runs.runs) made.emplace_back(r.row, r.col, r.first, r.length, r.blocks, r.count);
        return made;
      });
  nb::class_<ProjectJob, Job>(m, "ProjectJob")
      .def_prop_ro("pairs", [](const ProjectJob& job) { return job.notes->pairs.load(); })
      .def_prop_ro("nonzeros", [](const ProjectJob& job) { return job.notes->nonzeros.load(); })
      .def_prop_ro("making", [](const ProjectJob& job) { return job.notes->making.load(); })
      .def_prop_ro("multiplying", [](const ProjectJob& job) { return job.notes->multiplying.load(); })
      .def_prop_rw(
          "keep", [](const ProjectJob& job) { return job.notes->keep; },
          [](ProjectJob& job, bool keep) { job.notes->keep = keep; })
      .def("blocks",
           [](const ProjectJob& job) {
             std::vector<double> made;
             for (const Measured& b : job.notes->blocks)
               made.insert(made.end(), {static_cast<double>(b.run), b.work.bytes_touched(), b.work.flops(),
                                        b.making + b.multiplying});
             return numpy_of(std::move(made));
           })
      .def_prop_ro("panels", [](const ProjectJob& job) { return job.notes->panels; });
  m.attr("column_handles") = column_handles;
  m.def("project_job", &project_job, nb::arg("projection"), nb::arg("values"), nb::arg("blocks"),
        nb::arg("checkpoint").none());
}

}  // namespace

void bind_subspace(nb::module_& m) {
  bind_projection(m);
  nb::class_<StoredMatrix>(m, "StoredMatrix")
      .def("__init__", [](StoredMatrix* self, const Array& values, const Array& blocks, std::vector<Index> columns,
                          std::vector<Index> stripes, const std::vector<std::vector<Index>>& runs) {
        StoredMatrix made{values, blocks, std::move(columns), std::move(stripes), {}};
        for (const auto& r : runs)
          made.runs.push_back({static_cast<std::int32_t>(r.at(0)), static_cast<std::int32_t>(r.at(1)), r.at(2), r.at(3),
                               r.at(4), r.at(5)});
        check_stored(made);
        new (self) StoredMatrix(std::move(made));
      });
  m.def("multiply_stored_job", [](const std::shared_ptr<StoredMatrix>& h, const Array& x, const Array& y) -> Job {
    return {[=](Graph& graph) { multiply(graph, h, x, y); }};
  });
  m.def("dense_stored_job", [](const std::shared_ptr<StoredMatrix>& h, const Array& to) -> Job {
    return {[=](Graph& graph) { to_dense(graph, h, to); }};
  });
}

}  // namespace flagstone::python
