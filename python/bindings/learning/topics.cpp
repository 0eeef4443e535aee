#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings/core/bindings.hpp"
#include "bindings/core/numpy_of.hpp"
#include "flagstone/algorithms/topics/infer.hpp"
#include "flagstone/algorithms/topics/topics.hpp"

namespace flagstone::python {
namespace {

using namespace topics;

/// Jobs that also tell what was found.
struct TopicsJob : Job {
  std::shared_ptr<TopicsResult> result = std::make_shared<TopicsResult>();
};
struct CompletionJob : Job {
  std::shared_ptr<Completion> result = std::make_shared<Completion>();
};
struct PairsJob : Job {
  std::shared_ptr<std::vector<double>> result = std::make_shared<std::vector<double>>();
};

TopicsJob topics_job(const sparse::CsrOperand& x, TopicsOptions options, const Array& clusters,
                     const std::shared_ptr<Checkpoint>& checkpoint) {
  options.checkpoint = checkpoint;
  TopicsJob job;
  job.build = [=, result = job.result](Graph& graph) { topics::topics(graph, x, options, clusters, *result); };
  return job;
}

template <class T>
auto member(std::vector<T> TopicsResult::*values) {
  return [values](const TopicsJob& job) { return numpy_of(job.result.get()->*values); };
}

}  // namespace

void bind_topics(nb::module_& m) {
  const auto shares = nb::rv_policy::automatic;  // the arrays have an owner: a property's default policy refuses that
  nb::class_<TopicsOptions>(m, "TopicsOptions")
      .def(
          "__init__",
          [](TopicsOptions* self, Index k, Index passes, double sample, double eps1, double eps2, double eps3,
             double rho, double w0, bool cluster_documents, Index projected_iterations, Index iterations,
             const std::string& solver, Index edge_topics, std::uint64_t seed, const std::string& thresholded,
             const std::string& basis, const std::string& projection, const std::string& centers,
             const std::string& buckets) {
            const Where where{place_from_name("thresholded", thresholded), place_from_name("basis", basis),
                              place_from_name("projection", projection), place_from_name("centers", centers),
                              place_from_name("buckets", buckets)};
            new (self) TopicsOptions{{k, eps1, eps2, eps3, rho, w0, sample, cluster_documents, edge_topics,
                                      projected_iterations, iterations, solver, seed, where},
                                     passes,
                                     nullptr};
          },
          nb::arg("k"), nb::arg("passes"), nb::arg("sample"), nb::arg("eps1"), nb::arg("eps2"), nb::arg("eps3"),
          nb::arg("rho"), nb::arg("w0"), nb::arg("cluster_documents"), nb::arg("projected_iterations"),
          nb::arg("iterations"), nb::arg("solver"), nb::arg("edge_topics"), nb::arg("seed"), nb::arg("thresholded"),
          nb::arg("basis"), nb::arg("projection"), nb::arg("centers"), nb::arg("buckets"));
  nb::class_<TopicsJob, Job>(m, "TopicsJob")
      .def_prop_ro("thresholds", member(&TopicsResult::thresholds), shares)
      .def_prop_ro("singular_values", member(&TopicsResult::singular_values), shares)
      .def_prop_ro("sampled", member(&TopicsResult::sampled), shares)
      .def_prop_ro("catchwords", member(&TopicsResult::catchwords), shares)
      .def_prop_ro("isle", member(&TopicsResult::isle), shares)
      .def_prop_ro("topics", member(&TopicsResult::topics), shares)
      .def_prop_ro("shares", member(&TopicsResult::shares), shares)
      .def_prop_ro("likelihood", member(&TopicsResult::likelihood), shares)
      .def_prop_ro("pairs", member(&TopicsResult::pairs), shares)
      .def_prop_ro("together", member(&TopicsResult::together), shares)
      .def_prop_ro("edges", member(&TopicsResult::edges), shares)
      .def_prop_ro("documents", [](const TopicsJob& job) { return job.result->documents; })
      .def_prop_ro("average", [](const TopicsJob& job) { return job.result->average; })
      .def_prop_ro("passes", [](const TopicsJob& job) { return job.result->passes; })
      .def_prop_ro("placed", [](const TopicsJob& job) {
        std::vector<std::tuple<std::string, std::string, std::uint64_t, std::string>> made;
        for (const Placed& one : job.result->placed) made.emplace_back(one.operand, one.place, one.bytes, one.how);
        return made;
      });
  m.def("check_topics", &check_topics);
  nb::class_<Documents>(m, "Documents")
      .def(nb::init<sparse::CsrOperand>(), nb::arg("sparse"))
      .def(nb::init<const Array&, bool>(), nb::arg("dense"), nb::arg("transposed"));
  m.def("weights_rows", &weights_rows);
  m.def("topics_job", &topics_job, nb::arg("x"), nb::arg("options"), nb::arg("clusters"),
        nb::arg("checkpoint") = nb::none());
  m.def("infer_topics_job", [](const Documents& x, const Array& topics, bool multiplicative, const Array& out) -> Job {
    return {[=](Graph& graph) { infer_topics(graph, x, topics, multiplicative, out); }};
  });
  nb::class_<CompletionJob, Job>(m, "CompletionJob")
      .def_prop_ro("likelihood", [](const CompletionJob& job) { return job.result->likelihood; })
      .def_prop_ro("counted", [](const CompletionJob& job) { return job.result->counted; });
  m.def("complete_documents_job", [](const Documents& x, const Array& topics) {
    CompletionJob job;
    job.build = [=, result = job.result](Graph& graph) { complete_documents(graph, x, topics, *result); };
    return job;
  });
  nb::class_<PairsJob, Job>(m, "PairsJob")
      .def_prop_ro(
          "pairs", [](const PairsJob& job) { return numpy_of(*job.result); }, shares);
  m.def("count_pairs_job", [](const sparse::CsrOperand& x, const std::vector<Index>& tops, Index n) {
    PairsJob job;
    job.build = [=, result = job.result](Graph& graph) { count_pairs(graph, x, tops, n, *result); };
    return job;
  });
}

}  // namespace flagstone::python
