// Nonzeros of H a second on one core, by pairs of groups and row by row through a hash, in turn in one process.
// row_by_row PROTONS NEUTRONS NMAX TWO_M ROUNDS: a line of JSON. Each round begins at another group and takes a second
// of each.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>

#include "flagstone/algorithms/nuclear/hamiltonian.hpp"
#include "flagstone/algorithms/nuclear/row_by_row.hpp"

using namespace flagstone;
using namespace flagstone::nuclear;

namespace {

constexpr double seconds = 1;  // of each, in a round

/// Seconds of a processor that this process had: others that run take none of them.
double now() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

/// Those on and below the diagonal of groups from `first` on, until the time is over.
double by_pairs(const std::shared_ptr<const Hamiltonian>& h, Index first) {
  BlockMaker maker(h);
  kernel::SparseBlock block;
  const std::vector<bool> all(static_cast<std::size_t>(h->basis().groups()), true);
  std::vector<std::int32_t> js;
  double made = 0, took = 0;
  for (Index i = first; i < h->basis().groups() && took < seconds; ++i) {
    h->coupling().of(i, all, js);
    const double start = now();
    for (const std::int32_t j : js) {
      maker.make(i, j, block);
      made += static_cast<double>(block.nonzeros());
    }
    took += now() - start;
  }
  return made / took;
}

/// The same rows twice: elements of pairs of states are computed in the first round, and not counted.
double by_rows(RowByRow& rows, Index first) {
  RowByRow::Row row;
  Index last = first;
  for (const double start = now(); last < rows.rows() && now() - start < 2 * seconds; ++last) rows.row(last, row);
  double made = 0;
  const double start = now();
  for (Index r = first; r < last; ++r) {
    rows.row(r, row);
    made += static_cast<double>(row.size());
  }
  return made / (now() - start);
}

}  // namespace

int main(int count, char** words) {
  if (count != 6) return std::fprintf(stderr, "row_by_row PROTONS NEUTRONS NMAX TWO_M ROUNDS\n"), 2;
  int given[5];
  for (int i = 0; i < 5; ++i) given[i] = std::atoi(words[i + 1]);
  const auto orbits = oscillator_orbits(given[2] + 1);
  const auto space = std::make_shared<Space>(orbits, orbits, given[0], given[1], given[2]);
  const auto basis = std::make_shared<Basis>(space, given[3]);
  const auto interaction = std::make_shared<Interaction>(Interaction::random(1));
  const auto h = std::make_shared<Hamiltonian>(basis, interaction);
  RowByRow rows(*basis, *interaction);
  std::vector<double> pairs, ours, theirs;
  for (int round = 0; round < given[4]; ++round) {
    const Index group = basis->groups() * (2 * round + 1) / (2 * given[4]);
    const double row_rate = by_rows(rows, basis->first(group)), pair_rate = by_pairs(h, group);
    ours.push_back(pair_rate), theirs.push_back(row_rate), pairs.push_back(pair_rate / row_rate);
  }
  for (auto* all : {&pairs, &ours, &theirs}) std::sort(all->begin(), all->end());
  const std::size_t middle = pairs.size() / 2;
  std::printf("{\"by_pairs\": %.3e, \"by_rows\": %.3e, \"ratio\": %.2f, \"least\": %.2f, \"most\": %.2f}\n",
              ours[middle], theirs[middle], pairs[middle], pairs.front(), pairs.back());
}
