#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/core/bindings.hpp"
#include "flagstone/algorithms/centres/block_tasks.hpp"
#include "flagstone/algorithms/centres/stored_kmeans.hpp"
#include "flagstone/algorithms/cluster/distances.hpp"
#include "flagstone/algorithms/cluster/knn.hpp"
#include "flagstone/algorithms/cluster/radius.hpp"

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

struct RadiusJob : Job {
  std::shared_ptr<RadiusNotes> notes = std::make_shared<RadiusNotes>();
};

KMeansJob kmeans_job(const PointsInput& x, KMeansOptions options, const Array& out,
                     const std::shared_ptr<Checkpoint>& checkpoint) {
  options.checkpoint = checkpoint;
  KMeansJob job;
  job.build = [=, result = job.result](Graph& graph) { kmeans(graph, x, options, out, *result); };
  return job;
}

KMeansJob stored_kmeans_job(const PointsInput& x, KMeansOptions options, const centres::StoredCentres& seeds,
                            const std::optional<Array>& labels, const Array& centres,
                            const std::shared_ptr<Checkpoint>& checkpoint) {
  options.checkpoint = checkpoint;
  KMeansJob job;
  job.build = [=, to = labels.value_or(Array()), result = job.result](Graph& graph) {
    centres::stored_kmeans(graph, x, options, seeds, to, centres, *result);
  };
  return job;
}

KMeansJob stored_labels_job(const PointsInput& x, const centres::StoredCentres& centres, const Array& labels) {
  KMeansJob job;
  job.build = [=, result = job.result](Graph& graph) { assign_to_stored(graph, x, centres, labels, *result); };
  return job;
}

KMeansJob labels_job(const PointsInput& x, const Array& centres, const Array& labels) {
  KMeansJob job;
  job.build = [=, result = job.result](Graph& graph) { assign_labels(graph, x, centres, labels, *result); };
  return job;
}

KnnJob knn_job(KnnInput x, const Array& distances, const Array& indices,
               const std::shared_ptr<Checkpoint>& checkpoint) {
  x.checkpoint = checkpoint;
  KnnJob job;
  job.build = [=, notes = job.notes](Graph& graph) { knn(graph, x, distances, indices, *notes); };
  return job;
}

/// Numbers that live as long as the call.
template <class T>
auto lent(std::span<const T> numbers) {
  return nb::cast(nb::ndarray<nb::numpy, const T, nb::ndim<1>>(numbers.data(), {numbers.size()}, nb::none()),
                  nb::rv_policy::reference);
}

/// use(pointers, columns, values), with Python's lock; they are gone when it returns.
RowSink row_sink(nb::object use) {
  return [held = shared_object(std::move(use))](std::span<const Index> pointers, std::span<const Index> columns,
                                                std::span<const double> values) {
    const nb::gil_scoped_acquire lock;
    (*held)(lent(pointers), lent(columns), lent(values));
  };
}

RadiusJob radius_job(const RadiusInput& x, nb::object use) {
  RadiusJob job;
  job.build = [=, rows = row_sink(std::move(use)), notes = job.notes](Graph& graph) {
    radius_neighbours(graph, x, rows, *notes);
  };
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
             Index iterations, double tol, std::uint64_t seed, bool labels) {
            new (self) KMeansOptions{};
            self->k = k, self->init = init, self->centres = centres, self->iterations = iterations;
            self->tol = tol, self->seed = seed, self->labels = labels;
          },
          nb::arg("k"), nb::arg("init"), nb::arg("centres").none(), nb::arg("iterations"), nb::arg("tol"),
          nb::arg("seed"), nb::arg("labels"))
      .def_rw("minibatch", &KMeansOptions::minibatch)
      .def_rw("whole", &KMeansOptions::whole)
      .def_rw("met", &KMeansOptions::met);
  const auto shares = nb::rv_policy::automatic;  // the arrays have an owner: a property's default policy refuses that
  nb::class_<KMeansJob, Job>(m, "KMeansJob")
      .def_prop_ro("centres", numpy_of(&KMeansResult::centres), shares)
      .def_prop_ro("weights", numpy_of(&KMeansResult::weights), shares)
      .def_prop_ro("met", numpy_of(&KMeansResult::met), shares)
      .def_prop_ro("inertia", [](const KMeansJob& job) { return job.result->inertia; })
      .def_prop_ro("decided", [](const KMeansJob& job) { return job.result->decided; })
      .def_prop_ro("iterations", [](const KMeansJob& job) { return job.result->iterations; })
      .def_prop_ro("converged", [](const KMeansJob& job) { return job.result->converged; })
      .def_prop_ro("passes", [](const KMeansJob& job) { return job.result->passes; })
      .def_prop_ro("order", [](const KMeansJob& job) { return job.result->order; });
  m.def("check_kmeans", &check_kmeans);
  m.def("label_rows", &label_rows);
  m.def("kmeans_job", &kmeans_job, nb::arg("x"), nb::arg("options"), nb::arg("out"),
        nb::arg("checkpoint") = nb::none());
  m.def("labels_job", &labels_job);
  nb::class_<centres::StoredCentres>(m, "StoredCentres")
      .def(nb::init<>())
      .def("__init__", [](centres::StoredCentres* self, const Array& array, bool transpose) {
        new (self) centres::StoredCentres{array, transpose};
      });
  m.def("check_stored", &centres::check_stored);
  m.def("block_rows", [](Index k, const PointsInput& x) {
    return centres::block_rows(k, x.cols(), x.sparse ? centres::Layout::coordinates : centres::Layout::rows);
  });
  m.def("stored_kmeans_job", &stored_kmeans_job, nb::arg("x"), nb::arg("options"), nb::arg("seeds"),
        nb::arg("labels").none(), nb::arg("centres"), nb::arg("checkpoint") = nb::none());
  m.def("stored_labels_job", &stored_labels_job);
  m.def("distances_job", [](const PointsInput& x, const Array& centres, const Array& out) -> Job {
    return {[=](Graph& graph) { distances(graph, x, centres, out); }};
  });
}

}  // namespace

void bind_cluster(nb::module_& m) {
  bind_kmeans(m);
  nb::class_<KnnInput>(m, "KnnInput")
      .def("__init__",
           [](KnnInput* self, const Array& queries, bool queries_transposed, const Array& points,
              bool points_transposed, Index k, const std::string& metric, bool exclude_self) {
             new (self) KnnInput{
                 queries,     queries_transposed, points, points_transposed, k, metric_from_name("knn", metric),
                 exclude_self};
           })
      .def_rw("noted", &KnnInput::noted);
  nb::class_<KnnJob, Job>(m, "KnnJob").def_prop_ro("blocks", [](const KnnJob& job) { return job.notes->blocks; });
  nb::class_<RadiusInput>(m, "RadiusInput")
      .def("__init__",
           [](RadiusInput* self, const Array& queries, bool queries_transposed, const Array& points,
              bool points_transposed, double radius, const std::string& metric, bool exclude_self) {
             const kernel::Metric known = metric_from_name("radius_neighbors", metric);
             new (self) RadiusInput{
                 {queries, queries_transposed, points, points_transposed, 0, known, exclude_self}, radius, 0, 0};
           })
      .def_rw("first", &RadiusInput::first)
      .def_rw("beside", &RadiusInput::beside);
  nb::class_<RadiusJob, Job>(m, "RadiusJob")
      .def_prop_ro("stretches", [](const RadiusJob& job) { return job.notes->stretches; })
      .def_prop_ro("again", [](const RadiusJob& job) { return job.notes->again; })
      .def_prop_ro("pairs", [](const RadiusJob& job) { return job.notes->pairs; })
      .def_prop_ro("too_many", [](const RadiusJob& job) { return job.notes->too_many; })
      .def_prop_ro("room", [](const RadiusJob& job) { return job.notes->room; });
  m.def("check_radius", &check_radius);
  m.def("radius_job", &radius_job, nb::arg("x"), nb::arg("use").none());
  m.def("check_knn", &check_knn);
  m.def("query_rows", &query_rows);
  m.def("knn_job", &knn_job, nb::arg("x"), nb::arg("distances"), nb::arg("indices"),
        nb::arg("checkpoint") = nb::none());
}

}  // namespace flagstone::python
