#include "flagstone/algorithms/restructure/rechunk.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "flagstone/algorithms/restructure/restructure.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/runtime/box_io.hpp"
#include "flagstone/runtime/resume/zarr_output.hpp"
#include "flagstone/storage/chunk/planned_array.hpp"
#include "flagstone/storage/output/output.hpp"
#include "flagstone/storage/output/record.hpp"
#include "flagstone/storage/scratch/scratch.hpp"
#include "flagstone/storage/zarr/metadata/group.hpp"

namespace flagstone::restructure {
namespace {

/// As given, or as they are. ShapeError unless they are a permutation.
std::vector<std::size_t> axes_of(const RechunkOptions& options, std::size_t ndim) {
  std::vector<std::size_t> axes(ndim);
  std::iota(axes.begin(), axes.end(), 0);
  if (options.axes.empty()) return axes;
  if (!std::is_permutation(options.axes.begin(), options.axes.end(), axes.begin(), axes.end()))
    throw ShapeError("rechunk: the axes are no permutation of the array's " + std::to_string(ndim) +
                     " dimensions; name each once.");
  return options.axes;
}

RechunkOptions reversed(RechunkOptions options, std::size_t ndim) {
  if (options.axes.empty())
    for (std::size_t d = ndim; d-- > 0;) options.axes.push_back(d);
  return options;
}

RechunkOptions complete(RechunkOptions options, const Runtime& runtime) {
  if (options.scratch.directory.empty()) options.scratch.directory = runtime.options().scratch;
  return options;
}

/// Python asks for casting="unsafe" there.
void check_dtypes(Dtype from, Dtype to) {
  if (is_complex(from) && !is_complex(to))
    throw ShapeError("rechunk: the source is " + std::string(name_of(from)) + " and the result " +
                     std::string(name_of(to)) +
                     ", which holds no imaginary parts; store its real parts by an expression (elementwise::Fused, "
                     "Verb::real).");
}

Job job_of(const Array& from, const Array& to, const RechunkOptions& options) {
  Job job{{from, axes_of(options, from.ndim())}, options.conjugate, to, options.scratch, options.checkpoint};
  if (job.scratch.directory.empty()) job.scratch.directory = default_scratch();
  if (job.scratch.who.empty()) job.scratch.who = "rechunk";
  check_dtypes(from.dtype(), to.dtype());
  check(job);
  return job;
}

/// The result as a plan sees it.
Array planned(const Array& from, const RechunkTo& to, const RechunkOptions& options) {
  const Shape shape = seen({from, axes_of(options, from.ndim())}, from.shape());
  const Dtype dtype = to.dtype.value_or(from.dtype());
  if (!to.stored.chunks.empty() && to.stored.chunks.size() != shape.size())
    throw ShapeError("rechunk: chunks of " + to_string(to.stored.chunks) + " do not fit a result of " +
                     to_string(shape) + "; give one extent for each dimension.");
  for (const Index extent : to.stored.chunks)
    if (extent < 1)
      throw ShapeError("rechunk: chunks of " + to_string(to.stored.chunks) + "; extents must be 1 or more.");
  const Shape chunks = to.stored.chunks.empty() ? default_chunks(shape, dtype) : to.stored.chunks;
  return planned_array(shape, dtype, chunks, to.stored.codec, to.stored.column_major);
}

/// Adds the tasks, and tells how they go about it.
std::function<void(Graph&)> builder(const Array& from, const Array& to, const RechunkOptions& options,
                                    RechunkReport& report) {
  return [&from, &to, &options, &report](Graph& graph) {
    const Job job = job_of(from, to, options);
    const Scheme scheme = run(graph, job);
    report.passes = scheme.passes();
    report.why = scheme.why;
    report.scratch_bytes = scratch_bytes(job, scheme);
  };
}

/// Of a long call whose source can be named: a flat file's path says not where in it the elements lie.
Record record_of(const Runtime& runtime, const Array& from, const RechunkTo& to, const RechunkOptions& options,
                 const Array& result) {
  RecordOptions heard = to.record;
  if (heard.scratch.empty()) heard.scratch = runtime.options().scratch;
  heard.threads_per_task = runtime.options().threads_per_task;
  const double bytes = static_cast<double>(from.nbytes() + result.nbytes());
  if (from.path().empty() || !is_zarr_array(from.path()) || !worth_a_record(nominal_seconds(0, bytes)))
    return Record::written("rechunk", "", std::move(heard));
  std::string axes, names;
  for (const std::size_t axis : axes_of(options, from.ndim())) axes += std::to_string(axis) + " ";
  for (const std::string& name : to.stored.dimension_names) names += name + "\n";
  RecordArguments arguments;
  arguments.file("from", from.path()).value("axes", axes).value("conjugate", options.conjugate);
  arguments.value("dtype", std::string(name_of(result.dtype()))).value("chunks", to_string(result.chunks()));
  arguments.value("codec", to.stored.codec).value("column_major", to.stored.column_major);
  arguments.value("checksum", to.stored.checksum).value("attributes", to.stored.attributes);
  arguments.value("dimension_names", names);
  return Record("rechunk", arguments, std::move(heard));
}

}  // namespace

void rechunk(Graph& graph, const Array& from, const Array& to, const RechunkOptions& options) {
  run(graph, job_of(from, to, options));
}

void transpose(Graph& graph, const Array& from, const Array& to, RechunkOptions options) {
  rechunk(graph, from, to, reversed(std::move(options), from.ndim()));
}

RechunkReport plan_rechunk(Runtime& runtime, const Array& from, const RechunkTo& to, const RechunkOptions& options) {
  const RechunkOptions how = complete(options, runtime);
  const Array result = planned(from, to, how);
  RechunkReport report;
  report.statistics = runtime.plan(builder(from, result, how, report));
  return report;
}

RechunkReport plan_transpose(Runtime& runtime, const Array& from, const RechunkTo& to, RechunkOptions options) {
  return plan_rechunk(runtime, from, to, reversed(std::move(options), from.ndim()));
}

Array rechunk(Runtime& runtime, const Array& from, const RechunkTo& to, const RechunkOptions& options,
              RechunkReport* report) {
  RechunkOptions how = complete(options, runtime);
  if (how.checkpoint)
    throw Error(
        "rechunk: a checkpoint is of one output, and this call makes its own; add the tasks to a graph of yours: "
        "rechunk(graph, from, to, options).");
  RechunkReport told;
  const std::uint64_t entry = resident_bytes();
  const Array result = planned(from, to, how);
  check_least("rechunk", runtime.least_memory(builder(from, result, how, told)), runtime.options().memory, entry);
  Record record = record_of(runtime, from, to, how, result);
  const auto fill = [&](const Output& output) {
    const Array made = zarr_output(output, result.shape(), result.dtype(), to.stored);
    if (!output.adopted()) made.store().reserve();
    how.checkpoint = record.checkpoint();
    told.statistics = runtime.run(builder(from, made, how, told));
    made.store().flush();
  };
  record.build(to.path, to.replace, fill, to.stored.codec == "raw" ? result.nbytes() : 0);
  told.resumed = record.resumed();
  if (report) *report = std::move(told);
  return open_zarr_array(to.path);
}

Array transpose(Runtime& runtime, const Array& from, const RechunkTo& to, RechunkOptions options,
                RechunkReport* report) {
  return rechunk(runtime, from, to, reversed(std::move(options), from.ndim()), report);
}

}  // namespace flagstone::restructure
