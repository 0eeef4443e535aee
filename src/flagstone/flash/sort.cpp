#include "flagstone/flash/sort.hpp"

#include <cerrno>
#include <string>

#include "flagstone/algorithms/sort/external.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/array/memory_array.hpp"

namespace flagstone::flash {
namespace {

Array bytes_at(const Place& place, Index n, std::size_t bytes) {
  const auto width = static_cast<Index>(bytes);
  if (place.file)
    return place.file->array({.shape = {n, width}, .dtype = Dtype::uint8, .offset = place.offset, .leading = width});
  return memory_array(place.memory, {n, width}, Dtype::uint8, {width, 1});
}

std::uint64_t begin_of(const Place& place) {
  return place.file ? place.offset : static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(place.memory));
}

/// Whether two stretches begin at one place, and ShapeError where they overlap otherwise.
bool same(const Place& a, std::size_t a_bytes, const Place& b, std::size_t b_bytes) {
  if ((a.file == nullptr) != (b.file == nullptr) || (a.file && !a.file->same_file(*b.file))) return false;
  const std::uint64_t first = begin_of(a), second = begin_of(b);
  if (first == second) return true;
  if (first < second + b_bytes && second < first + a_bytes)
    throw ShapeError("sort: in and out overlap and begin " +
                     std::to_string(first > second ? first - second : second - first) +
                     " bytes apart; they must be the same or apart.");
  return false;
}

sort::Lane lane(const Array& array, const SortColumn& column) {
  return {array, 0, {0, 0}, {1, static_cast<Index>(column.bytes)}, column.offset};
}

}  // namespace

Statistics sort(Runtime& runtime, std::span<const SortColumn> columns, Index n,
                std::shared_ptr<const kernel::RecordOrder> order) {
  if (n < 0) throw ShapeError("sort: n is " + std::to_string(n) + "; it must not be negative.");
  if (n == 0) return {};
  bool in_place = false;
  for (const SortColumn& column : columns) {
    for (const Place* place : {&column.in, &column.out})
      if (!place->file && !place->memory)
        throw ShapeError("sort: a null pointer was given for " + std::to_string(n) +
                         " elements; map a file or allocate them first.");
    if (column.out.file && !column.out.file->writable())
      throw StorageError("sort: out is mapped for reading; map it with update", EROFS, column.out.file->path());
    for (const SortColumn& other : columns) {
      const auto count = static_cast<std::size_t>(n);
      const bool one = same(column.in, count * column.bytes, other.out, count * other.bytes);
      in_place = in_place || one;
    }
  }
  if (in_place && n == 1) return {};
  sort::Job job;
  job.records = n;
  job.order = std::move(order);
  for (const SortColumn& column : columns) {
    job.from.push_back(lane(bytes_at(column.in, n, column.bytes), column));
    job.to.push_back(lane(bytes_at(column.out, n, column.bytes), column));
  }
  return runtime.run([&](Graph& graph) {
    sort::Scheme scheme = sort::choose(job, graph.budget(), graph.workers());
    if (in_place && scheme.runs == 1) {  // all is read before anything is written: runs, and a merge
      scheme.block = std::max<Index>(1, std::min(scheme.block, n / 2));
      scheme.run = ceil_div(ceil_div(n, 2), scheme.block) * scheme.block;
      scheme.runs = ceil_div(n, scheme.run);
    }
    sort::run(graph, job, scheme);
  });
}

}  // namespace flagstone::flash
