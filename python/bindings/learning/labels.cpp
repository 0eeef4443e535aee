#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include "bindings/core/bindings.hpp"
#include "flagstone/algorithms/forest/predict.hpp"
#include "flagstone/algorithms/forest/train.hpp"
#include "flagstone/algorithms/labels/model_writer.hpp"
#include "flagstone/algorithms/labels/predict.hpp"
#include "flagstone/algorithms/labels/train.hpp"
#include "flagstone/base/error.hpp"

namespace flagstone::python {
namespace {

using namespace labels;

struct PredictLabelsJob : Job {
  std::shared_ptr<PredictNotes> notes = std::make_shared<PredictNotes>();
};
struct TrainLabelsJob : Job {
  std::shared_ptr<TrainNotes> notes = std::make_shared<TrainNotes>();
};

void bind_model(nb::module_& m) {
  nb::class_<Model>(m, "LabelModel")
      .def(
          "__init__",
          [](Model* self, const std::string& path, Index features, Index labels, Index trees, bool unit, int power,
             bool exponential, bool forest, const Array& steps, const Array& counts, const Array& children,
             const Array& weights, const std::optional<Array>& scales, const Array& chunks, const Array& order) {
            new (self) Model({path, features, labels, trees, unit, power, exponential, forest, steps, counts, children,
                              weights, scales, chunks, order});
          },
          nb::arg("path"), nb::arg("features"), nb::arg("labels"), nb::arg("trees"), nb::arg("unit"), nb::arg("power"),
          nb::arg("exponential"), nb::arg("forest"), nb::arg("steps"), nb::arg("counts"), nb::arg("children"),
          nb::arg("weights"), nb::arg("scales").none(), nb::arg("chunks"), nb::arg("order"))
      .def_prop_ro("levels", [](const Model& model) { return model.depth; })
      .def("leaves_for", &Model::leaves_for, nb::arg("k"))
      .def_prop_ro("held_bytes", &Model::held_bytes);
}

template <class T>
using Numbers = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void bind_writer(nb::module_& m) {
  nb::class_<ModelWriter>(m, "LabelModelWriter")
      .def(nb::init<const std::string&, bool>(), nb::arg("directory"), nb::arg("small"))
      .def_prop_ro_static("bytes", [](nb::handle) { return ModelWriter::bytes(); })
      .def(
          "append",
          [](ModelWriter& self, Index level, Index node, Index first, Index children,
             const Numbers<std::uint64_t>& places, const Numbers<float>& weights, Index cols) {
            if (places.shape(0) != weights.shape(0)) throw ShapeError("append: places and weights must agree.");
            self.append(Chunk{level, 0, node, first, children}, {places.data(), places.shape(0)}, weights.data(), cols);
          })
      .def("finish", [](ModelWriter& self, const Numbers<std::int32_t>& order) {
        self.finish({order.data(), order.data() + order.shape(0)});
      });
}

struct TrainForestJob : Job {
  std::shared_ptr<forest::ForestNotes> notes = std::make_shared<forest::ForestNotes>();
};

void bind_forest(nb::module_& m) {
  using forest::PredictForestOptions;
  using forest::TrainForestOptions;
  nb::class_<PredictForestOptions>(m, "PredictForestOptions")
      .def("__init__", [](PredictForestOptions* self, Index k, double alpha, double gamma, Index batch) {
        new (self) PredictForestOptions{k, alpha, gamma, batch};
      });
  m.def("check_predict_forest", &forest::check_predict);
  m.def(
      "predict_forest_job",
      [](const std::shared_ptr<Model>& model, const sparse::CsrOperand& x, PredictForestOptions options,
         const Array& labels, const Array& scores, const std::shared_ptr<Checkpoint>& checkpoint) {
        options.checkpoint = checkpoint;
        PredictLabelsJob job;
        job.build = [=, notes = job.notes](Graph& graph) {
          *notes = {};
          forest::predict(graph, model, x, options, labels, scores, *notes);
        };
        return job;
      },
      nb::arg("model"), nb::arg("x"), nb::arg("options"), nb::arg("labels"), nb::arg("scores"),
      nb::arg("checkpoint") = nb::none());
  nb::class_<TrainForestOptions>(m, "TrainForestOptions")
      .def(
          "__init__",
          [](TrainForestOptions* self, Index trees, Index max_leaf, Index leaf_labels, double cost, double eps,
             std::uint64_t seed, bool small_weights, const std::optional<std::pair<double, double>>& propensity,
             Index small, Index most_grown) {
            new (self) TrainForestOptions{
                trees,  {max_leaf, leaf_labels, cost, eps, 10, seed, small_weights, most_grown}, propensity, small, "",
                nullptr};
          },
          nb::arg("trees"), nb::arg("max_leaf"), nb::arg("leaf_labels"), nb::arg("cost"), nb::arg("eps"),
          nb::arg("seed"), nb::arg("small_weights"), nb::arg("propensity").none(), nb::arg("small"),
          nb::arg("most_grown"));
  nb::class_<TrainForestJob, Job>(m, "TrainForestJob")
      .def_prop_ro("nodes", [](const TrainForestJob& job) { return job.notes->nodes; })
      .def_prop_ro("leaves", [](const TrainForestJob& job) { return job.notes->leaves; })
      .def_prop_ro("deepest", [](const TrainForestJob& job) { return job.notes->deepest; })
      .def_prop_ro("wide", [](const TrainForestJob& job) { return job.notes->wide; })
      .def_prop_ro("reads", [](const TrainForestJob& job) { return job.notes->reads; });
  m.def("check_train_forest",
        [](const sparse::CsrOperand& x, const sparse::CsrOperand& y, const TrainForestOptions& options) {
          forest::check_train(joined(x, y, false, "train_labels"), y.matrix.cols, options);
        });
  m.def(
      "train_forest_job",
      [](const sparse::CsrOperand& x, const sparse::CsrOperand& y, TrainForestOptions options,
         const std::string& directory, const std::shared_ptr<Checkpoint>& checkpoint) {
        options.directory = directory, options.checkpoint = checkpoint;
        TrainForestJob job;
        job.build = [=, notes = job.notes](Graph& graph) {
          *notes = {};
          forest::train(graph, joined(x, y, false, "train_labels"), options, *notes);
        };
        return job;
      },
      nb::arg("x"), nb::arg("y"), nb::arg("options"), nb::arg("directory"), nb::arg("checkpoint") = nb::none());
}

}  // namespace

void bind_labels(nb::module_& m) {
  bind_model(m);
  bind_forest(m);
  bind_writer(m);
  nb::class_<PredictLabelsOptions>(m, "PredictLabelsOptions")
      .def("__init__",
           [](PredictLabelsOptions* self, Index k, Index beam, double discount, Index batch, const std::string& who) {
             new (self) PredictLabelsOptions{k, beam, discount, batch, who};
           });
  nb::class_<PredictLabelsJob, Job>(m, "PredictLabelsJob")
      .def_prop_ro("batch", [](const PredictLabelsJob& job) { return job.notes->batch; })
      .def_prop_ro("batches", [](const PredictLabelsJob& job) { return job.notes->batches; })
      .def_prop_ro("groups", [](const PredictLabelsJob& job) { return job.notes->groups; });
  m.attr("LABEL_ROWS") = result_rows;
  m.def("check_predict_labels", &check_predict);
  m.def(
      "predict_labels_job",
      [](const std::shared_ptr<Model>& model, const sparse::CsrOperand& x, PredictLabelsOptions options,
         const Array& labels, const Array& scores, const std::shared_ptr<Checkpoint>& checkpoint) {
        options.checkpoint = checkpoint;
        PredictLabelsJob job;
        job.build = [=, notes = job.notes](Graph& graph) {
          *notes = {};
          predict(graph, model, x, options, labels, scores, *notes);
        };
        return job;
      },
      nb::arg("model"), nb::arg("x"), nb::arg("options"), nb::arg("labels"), nb::arg("scores"),
      nb::arg("checkpoint") = nb::none());
  nb::class_<TrainLabelsOptions>(m, "TrainLabelsOptions")
      .def("__init__", [](TrainLabelsOptions* self, Index trees, Index max_leaf, Index sweeps, double cost,
                          double threshold, double eps, std::uint64_t seed, bool small_weights, Index small) {
        new (self)
            TrainLabelsOptions{trees, max_leaf, sweeps, cost, threshold, eps, seed, small_weights, small, "", nullptr};
      });
  nb::class_<TrainLabelsJob, Job>(m, "TrainLabelsJob")
      .def_prop_ro("depth", [](const TrainLabelsJob& job) { return job.notes->depth; })
      .def_prop_ro("nodes", [](const TrainLabelsJob& job) { return job.notes->nodes; })
      .def_prop_ro("wide", [](const TrainLabelsJob& job) { return job.notes->wide; })
      .def_prop_ro("reads", [](const TrainLabelsJob& job) { return job.notes->reads; })
      .def_prop_ro("labels_without", [](const TrainLabelsJob& job) { return job.notes->labels_without; });
  m.def("check_train_labels",
        [](const sparse::CsrOperand& x, const sparse::CsrOperand& y, const TrainLabelsOptions& options) {
          check_train(joined(x, y, true, "train_labels"), y.matrix.cols, options);
        });
  m.def(
      "train_labels_job",
      [](const sparse::CsrOperand& x, const sparse::CsrOperand& y, TrainLabelsOptions options,
         const std::string& directory, const std::shared_ptr<Checkpoint>& checkpoint) {
        options.directory = directory, options.checkpoint = checkpoint;
        TrainLabelsJob job;
        job.build = [=, notes = job.notes](Graph& graph) {
          *notes = {};
          train(graph, joined(x, y, true, "train_labels"), options, *notes);
        };
        return job;
      },
      nb::arg("x"), nb::arg("y"), nb::arg("options"), nb::arg("directory"), nb::arg("checkpoint") = nb::none());
}

}  // namespace flagstone::python
