#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/core/bindings.hpp"
#include "flagstone/algorithms/cluster/distances.hpp"
#include "flagstone/algorithms/cluster/kmeans.hpp"
#include "flagstone/algorithms/cluster/knn.hpp"

namespace flagstone::python {
namespace {

using namespace cluster;

/// A job that also tells what was found.
struct KMeansJob : Job {
  std::shared_ptr<KMeansResult> result = std::make_shared<KMeansResult>();
};
struct KnnJob : Job {
  std::shared_ptr<KnnNotes> notes = std::make_shared<KnnNotes>();
};

KMeansJob kmeans_job(const PointsInput& x, KMeansOptions options, const Array& out,
                     const std::shared_ptr<Checkpoint>& checkpoint) {
  options.checkpoint = checkpoint;
  KMeansJob job;
  job.build = [=, result = job.result](Graph& graph) { kmeans(graph, x, options, out, *result); };
  return job;
}

KMeansJob labels_job(const PointsInput& x, const Array& centres, const Array& labels) {
  KMeansJob job;
  job.build = [=, result = job.result](Graph& graph) { assign_labels(graph, x, centres, labels, *result); };
  return job;
}

KnnJob knn_job(const KnnInput& x, const Array& distances, const Array& indices) {
  KnnJob job;
  job.build = [=, notes = job.notes](Graph& graph) { knn(graph, x, distances, indices, *notes); };
  return job;
}

/// Numbers of a result as a NumPy array that shares its memory.
auto numpy_of(std::vector<double> KMeansResult::*member) {
  return [member](const KMeansJob& job) {
    auto* held = new std::shared_ptr<KMeansResult>(job.result);
    nb::capsule owner(held, [](void* result) noexcept { delete static_cast<std::shared_ptr<KMeansResult>*>(result); });
    std::vector<double>& values = job.result.get()->*member;
    return nb::ndarray<nb::numpy, double, nb::ndim<1>>(values.data(), {values.size()}, owner);
  };
}

void bind_kmeans(nb::module_& m) {
  nb::class_<PointsInput>(m, "PointsInput")
      .def(
          "__init__",
          [](PointsInput* self, const std::optional<Array>& dense, bool transpose,
             const std::optional<sparse::CsrOperand>& sparse, const std::optional<Array>& weights, bool unit,
             const std::string& who, const std::string& name) {
            new (self) PointsInput{dense, transpose, sparse, weights, unit, {who, name}};
          },
          nb::arg("dense").none(), nb::arg("transpose"), nb::arg("sparse").none(), nb::arg("weights").none(),
          nb::arg("unit"), nb::arg("who"), nb::arg("name"));
  nb::class_<KMeansOptions>(m, "KMeansOptions")
      .def(
          "__init__",
          [](KMeansOptions* self, Index k, const std::string& init, const std::optional<Array>& centres,
             Index iterations, double tol, std::uint64_t seed,
             bool labels) { new (self) KMeansOptions{k, init, centres, iterations, tol, seed, labels, nullptr}; },
          nb::arg("k"), nb::arg("init"), nb::arg("centres").none(), nb::arg("iterations"), nb::arg("tol"),
          nb::arg("seed"), nb::arg("labels"));
  const auto shares = nb::rv_policy::automatic;  // the arrays have an owner: a property's default policy refuses that
  nb::class_<KMeansJob, Job>(m, "KMeansJob")
      .def_prop_ro("centres", numpy_of(&KMeansResult::centres), shares)
      .def_prop_ro("weights", numpy_of(&KMeansResult::weights), shares)
      .def_prop_ro("inertia", [](const KMeansJob& job) { return job.result->inertia; })
      .def_prop_ro("decided", [](const KMeansJob& job) { return job.result->decided; })
      .def_prop_ro("iterations", [](const KMeansJob& job) { return job.result->iterations; })
      .def_prop_ro("converged", [](const KMeansJob& job) { return job.result->converged; })
      .def_prop_ro("passes", [](const KMeansJob& job) { return job.result->passes; });
  m.def("check_kmeans", &check_kmeans);
  m.def("label_rows", &label_rows);
  m.def("kmeans_job", &kmeans_job, nb::arg("x"), nb::arg("options"), nb::arg("out"),
        nb::arg("checkpoint") = nb::none());
  m.def("labels_job", &labels_job);
  m.def("distances_job", [](const PointsInput& x, const Array& centres, const Array& out) -> Job {
    return {[=](Graph& graph) { distances(graph, x, centres, out); }};
  });
}

}  // namespace

void bind_cluster(nb::module_& m) {
  bind_kmeans(m);
  nb::class_<KnnInput>(m, "KnnInput")
      .def("__init__", [](KnnInput* self, const Array& queries, bool queries_transposed, const Array& points,
                          bool points_transposed, Index k, const std::string& metric, bool exclude_self) {
        new (self)
            KnnInput{queries, queries_transposed, points, points_transposed, k, metric_from_name(metric), exclude_self};
      });
  nb::class_<KnnJob, Job>(m, "KnnJob").def_prop_ro("blocks", [](const KnnJob& job) { return job.notes->blocks; });
  m.def("check_knn", &check_knn);
  m.def("query_rows", &query_rows);
  m.def("knn_job", &knn_job);
}

}  // namespace flagstone::python
