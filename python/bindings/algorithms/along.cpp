// Along an axis: scans, differences, groups, order statistics, bins.
#include "flagstone/algorithms/along/scan.hpp"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/algorithms/pass.hpp"
#include "bindings/core/bindings.hpp"
#include "flagstone/algorithms/along/bins.hpp"
#include "flagstone/algorithms/along/groups.hpp"
#include "flagstone/algorithms/along/ranks.hpp"

namespace flagstone::python {
namespace {

/// The pass that looks at one value of the given one.
Pass visiting(const Pass& given, int value) {
  Pass pass = given;
  pass.visit.values = {value};
  return pass;
}

Job scan_job(const Pass& given, int value, const std::string& scan, std::size_t axis, bool initial, const Array& out,
             const std::shared_ptr<Checkpoint>& checkpoint) {
  const kernel::Scan which = scan == "sum" ? kernel::Scan::sum : kernel::Scan::prod;
  return {[=, pass = visiting(given, value)](Graph& graph) {
    elementwise::Scheme scheme;
    along::scan(graph, pass, {which, axis, false, initial}, out, scheme, checkpoint);
    pass.keep(std::move(scheme));
  }};
}

Job group_job(const Pass& given, int value, const std::string& fold, const Array& labels, Index groups,
              const Array& out) {
  const kernel::GroupFold which = fold == "sum" ? kernel::GroupFold::sum : kernel::GroupFold::var;
  return {[=, pass = visiting(given, value)](Graph& graph) {
    elementwise::Scheme scheme;
    along::fold_groups(graph, pass, which, labels, groups, out, scheme);
    pass.keep(std::move(scheme));
  }};
}

/// A job that also tells how often it looked at its operand.
struct RankJob : Job {
  std::shared_ptr<along::RankScheme> scheme = std::make_shared<along::RankScheme>();
};

RankJob rank_job(const Pass& given, int value, const std::vector<bool>& reduced, const std::vector<Index>& wanted,
                 const Array& out) {
  RankJob job;
  job.build = [=, scheme = job.scheme, pass = visiting(given, value)](Graph& graph) {
    along::RankScheme made;
    along::select_ranks(graph, {pass, reduced, wanted, out}, made);
    pass.keep(made.reading);
    *scheme = std::move(made);
  };
  return job;
}

template <class T>
using Numbers = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

using SharedBins = std::shared_ptr<const kernel::Bins>;
struct Bins {
  SharedBins bins;
};

}  // namespace

void bind_along(nb::module_& m) {
  m.def("scan_job", &scan_job, nb::arg("pass_"), nb::arg("value"), nb::arg("scan"), nb::arg("axis"), nb::arg("initial"),
        nb::arg("out"), nb::arg("checkpoint") = nb::none());
  m.def(
      "difference_job",
      [](const Array& a, bool transpose, std::size_t axis, int times, const Array& out,
         const std::shared_ptr<Checkpoint>& checkpoint) {
        return Job{[=](Graph& graph) { along::difference(graph, {a, transpose}, axis, times, out, checkpoint); }};
      },
      nb::arg("a"), nb::arg("transpose"), nb::arg("axis"), nb::arg("times"), nb::arg("out"),
      nb::arg("checkpoint") = nb::none());
  m.def("group_job", &group_job, nb::arg("pass_"), nb::arg("value"), nb::arg("fold"), nb::arg("labels"),
        nb::arg("groups"), nb::arg("out"));
  m.def("group_words", [](const std::string& fold, const std::string& dtype) {
    return kernel::group_words(fold == "sum" ? kernel::GroupFold::sum : kernel::GroupFold::var, dtype_from_name(dtype));
  });
  nb::class_<RankJob, Job>(m, "RankJob")
      .def_prop_ro("passes", [](const RankJob& job) { return job.scheme->passes; })
      .def_prop_ro("least_passes", [](const RankJob& job) { return job.scheme->least_passes; })
      .def_prop_ro("most_passes", [](const RankJob& job) { return job.scheme->most_passes; })
      .def_prop_ro("why", [](const RankJob& job) { return job.scheme->why; });
  m.def("rank_job", &rank_job, nb::arg("pass_"), nb::arg("value"), nb::arg("reduced"), nb::arg("wanted"),
        nb::arg("out"));
  nb::class_<Bins>(m, "Bins").def(
      "__init__", [](Bins* self, const Numbers<double>& edges, const Numbers<std::int64_t>& whole, bool right,
                     bool down, bool invert) {
        auto made = std::make_shared<kernel::Bins>();
        made->edges.assign(edges.data(), edges.data() + edges.shape(0));
        made->whole.assign(whole.data(), whole.data() + whole.shape(0));
        made->right = right, made->down = down, made->invert = invert;
        new (self) Bins{std::move(made)};
      });
  m.def("count_integers_job", [](const Pass& given, int value, const Array& out) {
    return Job{[=, pass = visiting(given, value)](Graph& graph) {
      elementwise::Scheme scheme;
      along::count_bins(graph, pass, nullptr, out, scheme);
      pass.keep(std::move(scheme));
    }};
  });
  m.def("count_bins_job", [](const Pass& given, int value, const Bins& bins, const Array& out) {
    return Job{[=, pass = visiting(given, value)](Graph& graph) {
      elementwise::Scheme scheme;
      along::count_bins(graph, pass, bins.bins, out, scheme);
      pass.keep(std::move(scheme));
    }};
  });
  // The second visited value are the weights; without bins those of the integers 0, 1, ...
  m.def(
      "weigh_bins_job",
      [](const Pass& given, int value, int weights, const Bins* bins, const Array& out) {
        Pass pass = visiting(given, value);
        pass.visit.values.push_back(weights);
        return Job{[=, made = bins ? bins->bins : nullptr](Graph& graph) {
          elementwise::Scheme scheme;
          along::weigh_bins(graph, pass, made, out, scheme);
          pass.keep(std::move(scheme));
        }};
      },
      nb::arg("given"), nb::arg("value"), nb::arg("weights"), nb::arg("bins").none(), nb::arg("out"));
  m.def("bin_index_job", [](const Pass& given, int value, const Bins& bins, const Array& out) {
    return Job{[=, pass = visiting(given, value)](Graph& graph) {
      elementwise::Scheme scheme;
      along::bin_index(graph, pass, bins.bins, out, scheme);
      pass.keep(std::move(scheme));
    }};
  });
}

}  // namespace flagstone::python
