#pragma once
// All neighbours within a radius: stretches of queries stay, points stream past them, what is found waits in memory
// until the rows of a stretch are whole.
#include <functional>
#include <span>

#include "flagstone/algorithms/cluster/knn.hpp"

namespace flagstone::cluster {

/// Rows of the result, from top to bottom: pointers from 0, columns ascending, values.
using RowSink = std::function<void(std::span<const Index> pointers, std::span<const Index> columns,
                                   std::span<const double> values)>;

struct RadiusInput {
  KnnInput of;               // k is not used
  double radius = 1;         // distances of at most that; products of at least that
  Index first = 0;           // rows before it were written by a dead process
  std::uint64_t beside = 0;  // bytes that the writer will hold, and has not touched yet
};

struct RadiusNotes {
  Index stretches = 0;  // of queries: the points are read once for each
  Index again = 0;      // of those, whose neighbours did not fit: begun again, shorter
  double pairs = 0;     // neighbours found
  Index too_many = -1;  // a query whose neighbours do not fit: rows end before it
  Index room = 0;       // for so many neighbours
};

/// ShapeError: dtypes, columns or the radius do not fit.
void check_radius(const RadiusInput& x);
/// Gives all neighbours of each query to `rows`. Reads the queries once and the points once for each stretch; 2 m n d
/// flops. A stretch is as long as its neighbours, 34 bytes each, fit half the room; one that proves too long is begun
/// again with less. A plan counts stretches as if there were few neighbours. Ends before a query whose neighbours do
/// not fit alone, and notes it: the runtime would take a BudgetError for one of its own.
void radius_neighbours(Graph& graph, const RadiusInput& x, const RowSink& rows, RadiusNotes& notes);

}  // namespace flagstone::cluster
