// Sorting beyond memory: records of several arrays, lines of one.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <mutex>
#include <span>

#include "bindings/core/bindings.hpp"
#include "flagstone/algorithms/sort/external.hpp"
#include "flagstone/algorithms/sort/lines.hpp"
#include "flagstone/kernel/sort/entries.hpp"
#include "flagstone/kernel/sort/keys.hpp"
#include "flagstone/kernel/sort/pieces.hpp"

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

/// Of one length and kind.
SortJob job_of(std::vector<sort::Job> jobs, std::shared_ptr<Checkpoint> checkpoint) {
  SortJob made;
  made.build = [jobs = std::move(jobs), checkpoint = std::move(checkpoint), state = made.state](Graph& graph) {
    if (jobs.empty()) return;
    const sort::Scheme scheme = sort::choose(jobs.front(), graph.budget(), graph.workers(), checkpoint.get());
    {
      std::lock_guard lock(state->mutex);
      state->scheme = scheme;
    }
    sort::run(graph, jobs, scheme, checkpoint);
  };
  return made;
}

std::shared_ptr<const kernel::RecordOrder> element_order(Dtype dtype, bool descending, bool places) {
  return std::make_shared<kernel::KeyOrder>(size_of(dtype) + (places ? sizeof(std::int64_t) : 0),
                                            std::vector<kernel::Key>{{dtype, 0, descending}});
}

/// `from` is one array and `places` goes to `to`, or its elements.
SortJob sort_job(const Array& from, std::size_t axis, bool descending, bool places, const Array& to,
                 const std::shared_ptr<Checkpoint>& checkpoint) {
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
  return job_of(std::move(jobs), checkpoint);
}

/// Records of all sources; `to`: where the elements of each go, and behind them the places, or nowhere.
SortJob sort_by_job(const std::vector<Array>& from, std::size_t keys, bool descending,
                    const std::vector<std::optional<Array>>& to, const std::shared_ptr<Checkpoint>& checkpoint) {
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
  return job_of({std::move(job)}, checkpoint);
}

using Numbers = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;  // int32 or int64
using Bytes = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using BytesOut = nb::ndarray<std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Places = nb::ndarray<Index, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using BucketOf = nb::ndarray<const std::uint16_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

kernel::Integers integers(const Numbers& given) { return {given.data(), given.itemsize() == 8}; }
kernel::EntryRecord entry_record(int row_bytes, int column_bytes, int value_bytes) {
  return {row_bytes == 8, column_bytes == 8, static_cast<std::size_t>(value_bytes)};
}
std::span<Index> span_of(const Places& places) { return {places.data(), places.size()}; }
std::byte* bytes_of(const BytesOut& given) { return reinterpret_cast<std::byte*>(given.data()); }
const std::byte* bytes_of(const Bytes& given) { return reinterpret_cast<const std::byte*>(given.data()); }

Index count_rows(const Numbers& rows, Index extent, int shift, const Places& counts) {
  return kernel::count_rows(integers(rows), static_cast<Index>(rows.size()), extent, shift, span_of(counts));
}

void scatter_entries(const Numbers& rows, const Numbers& columns, const Bytes& values, const BucketOf& bucket_of,
                     int shift, int row_bytes, int column_bytes, int value_bytes, const Places& ends,
                     const BytesOut& to) {
  kernel::scatter_entries(integers(rows), integers(columns), bytes_of(values), static_cast<Index>(rows.size()),
                          entry_record(row_bytes, column_bytes, value_bytes),
                          {{bucket_of.data(), bucket_of.size()}, shift, span_of(ends)}, bytes_of(to));
}

void keep_largest(const Places& pointers, const Numbers& columns,
                  const nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>& values, Index top,
                  const Places& work, const BytesOut& stay) {
  kernel::keep_largest(span_of(pointers), integers(columns), values.data(), top, span_of(work), stay.data());
}

bool sort_entries(const Bytes& records, int row_bytes, int column_bytes, int value_bytes, Index first,
                  const Places& pointers, const BytesOut& columns, const BytesOut& values) {
  const kernel::EntryRecord record = entry_record(row_bytes, column_bytes, value_bytes);
  return kernel::sort_entries(bytes_of(records), static_cast<Index>(records.size() / record.bytes()), record, first,
                              {span_of(pointers), bytes_of(columns), bytes_of(values)});
}

kernel::PieceRecord piece_record(int value_bytes, bool wide) { return {wide, static_cast<std::size_t>(value_bytes)}; }

void split_block(Index first, const nb::ndarray<const Index, nb::ndim<1>, nb::c_contig, nb::device::cpu>& pointers,
                 const Bytes& columns, int column_bytes, const Bytes& values, int value_bytes,
                 const BucketOf& bucket_of, int shift, const Places& firsts, bool wide, const Places& ends,
                 const BytesOut& to) {
  kernel::split_block({first,
                       {pointers.data(), pointers.size()},
                       bytes_of(columns),
                       static_cast<std::size_t>(column_bytes),
                       bytes_of(values)},
                      piece_record(value_bytes, wide),
                      {{bucket_of.data(), bucket_of.size()}, shift, {firsts.data(), firsts.size()}}, span_of(ends),
                      bytes_of(to));
}

std::span<const std::byte> all_of(const Bytes& given) { return {bytes_of(given), given.size()}; }

Index records_between(const Bytes& pieces, int value_bytes, bool wide, Index first, Index last) {
  return kernel::records_between(all_of(pieces), piece_record(value_bytes, wide), first, last);
}

bool join_pieces(const Bytes& pieces, int value_bytes, bool wide, Index width, Index first, bool wide_rows,
                 const Places& pointers, const BytesOut& columns, const BytesOut& values) {
  return kernel::join_pieces(all_of(pieces), piece_record(value_bytes, wide), width, first, wide_rows,
                             {span_of(pointers), bytes_of(columns), bytes_of(values)});
}

}  // namespace

void bind_sort(nb::module_& m) {
  nb::class_<SortJob, Job>(m, "SortJob")
      .def_prop_ro("passes", [](const SortJob& job) { return job.last().passes; })
      .def_prop_ro("runs", [](const SortJob& job) { return job.last().runs; })
      .def_prop_ro("why", [](const SortJob& job) { return job.last().why(); });
  m.def("sort_job", &sort_job, nb::arg("source"), nb::arg("axis"), nb::arg("descending"), nb::arg("places"),
        nb::arg("to"), nb::arg("checkpoint").none());
  m.def("sort_by_job", &sort_by_job, nb::arg("sources"), nb::arg("keys"), nb::arg("descending"), nb::arg("to"),
        nb::arg("checkpoint").none());
  m.def(
      "sort_lines_job",
      [](const Array& from, std::size_t axis, bool descending, bool places, const Array& to,
         const std::shared_ptr<Checkpoint>& checkpoint) {
        const sort::LineJob job{from, to, axis, element_order(from.dtype(), descending, places), places, checkpoint};
        return Job{[job](Graph& graph) { sort::run(graph, job); }};
      },
      nb::arg("source"), nb::arg("axis"), nb::arg("descending"), nb::arg("places"), nb::arg("to"),
      nb::arg("checkpoint").none());

  // The caller made arrays of the right lengths.
  using unlocked = nb::call_guard<nb::gil_scoped_release>;
  m.def("count_rows", &count_rows, unlocked());
  m.def("scatter_entries", &scatter_entries, unlocked());
  m.def("sort_entries", &sort_entries, unlocked());
  m.def("split_block", &split_block, unlocked());
  m.def("records_between", &records_between, unlocked());
  m.def("join_pieces", &join_pieces, unlocked());
  m.def("keep_largest", &keep_largest, unlocked());
}

}  // namespace flagstone::python
