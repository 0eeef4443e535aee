// Sorting beyond memory: records of several arrays, lines of one.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <mutex>

#include "bindings/core/bindings.hpp"
#include "flagstone/algorithms/sort/external.hpp"
#include "flagstone/algorithms/sort/lines.hpp"
#include "flagstone/kernel/sort/keys.hpp"

namespace flagstone::python {
namespace {

/// An external sort, and the scheme that its last graph was built with: by then the budget is known.
struct SortJob : Job {
  struct State {
    std::mutex mutex;
    sort::Scheme scheme;
  };
  std::shared_ptr<State> state = std::make_shared<State>();

  sort::Scheme last() const {
    std::lock_guard lock(state->mutex);
    return state->scheme;
  }
};

/// The lines of an array along an axis, at one place of the other dimensions each.
std::vector<Shape> lines_of(const Shape& shape, std::size_t axis) {
  std::vector<Shape> starts{{}};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::vector<Shape> longer;
    for (const Shape& start : starts)
      for (Index i = 0; i < (d == axis ? 1 : shape[d]); ++i) {
        longer.push_back(start);
        longer.back().push_back(i);
      }
    starts = std::move(longer);
  }
  return starts;
}

SortJob job_of(std::vector<sort::Job> jobs) {
  SortJob made;
  made.build = [jobs = std::move(jobs), state = made.state](Graph& graph) {
    for (const sort::Job& job : jobs) {
      const sort::Scheme scheme = sort::choose(job, graph.budget(), graph.workers());
      {
        std::lock_guard lock(state->mutex);
        state->scheme = scheme;
      }
      sort::run(graph, job, scheme);
    }
  };
  return made;
}

std::shared_ptr<const kernel::RecordOrder> element_order(Dtype dtype, bool descending, bool places) {
  return std::make_shared<kernel::KeyOrder>(size_of(dtype) + (places ? sizeof(std::int64_t) : 0),
                                            std::vector<kernel::Key>{{dtype, 0, descending}});
}

/// `from` is one array and `places` goes to `to`, or its elements.
SortJob sort_job(const Array& from, std::size_t axis, bool descending, bool places, const Array& to) {
  std::vector<sort::Job> jobs;
  const Shape cell(from.ndim(), 1);
  for (const Shape& start : lines_of(from.shape(), axis)) {
    sort::Job job;
    job.records = from.shape()[axis];
    job.order = element_order(from.dtype(), descending, places);
    job.from = {{from, axis, start, cell, 0}};
    if (places) job.from.push_back({{}, axis, start, cell, size_of(from.dtype())});
    job.to = {{to, axis, start, cell, places ? size_of(from.dtype()) : 0}};
    jobs.push_back(std::move(job));
  }
  return job_of(std::move(jobs));
}

/// Records of all sources; `to`: where the elements of each go, and behind them the places, or nowhere.
SortJob sort_by_job(const std::vector<Array>& from, std::size_t keys, bool descending,
                    const std::vector<std::optional<Array>>& to) {
  sort::Job job;
  job.records = from.at(0).shape()[0];
  std::vector<kernel::Key> by;
  std::size_t offset = 0;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (i < keys) by.push_back({from[i].dtype(), offset, descending});
    job.from.push_back(sort::Lane::of(from[i], offset));
    if (to.at(i)) job.to.push_back(sort::Lane::of(*to[i], offset));
    offset += size_of(from[i].dtype());
  }
  if (const std::optional<Array>& places = to.at(from.size())) {
    job.from.push_back({{}, 0, {0}, {1}, offset});
    job.to.push_back(sort::Lane::of(*places, offset));
    offset += sizeof(std::int64_t);
  }
  job.order = std::make_shared<kernel::KeyOrder>(offset, std::move(by));
  return job_of({std::move(job)});
}

}  // namespace

void bind_sort(nb::module_& m) {
  nb::class_<SortJob, Job>(m, "SortJob")
      .def_prop_ro("passes", [](const SortJob& job) { return job.last().passes; })
      .def_prop_ro("runs", [](const SortJob& job) { return job.last().runs; })
      .def_prop_ro("why", [](const SortJob& job) { return job.last().why(); });
  m.def("sort_job", &sort_job, nb::arg("source"), nb::arg("axis"), nb::arg("descending"), nb::arg("places"),
        nb::arg("to"));
  m.def("sort_by_job", &sort_by_job, nb::arg("sources"), nb::arg("keys"), nb::arg("descending"), nb::arg("to"));
  m.def(
      "sort_lines_job",
      [](const Array& from, std::size_t axis, bool descending, bool places, const Array& to) {
        return Job{[job = sort::LineJob{from, to, axis, element_order(from.dtype(), descending, places), places}](
                       Graph& graph) { sort::run(graph, job); }};
      },
      nb::arg("source"), nb::arg("axis"), nb::arg("descending"), nb::arg("places"), nb::arg("to"));
}

}  // namespace flagstone::python
