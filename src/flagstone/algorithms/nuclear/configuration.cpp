#include "flagstone/algorithms/nuclear/configuration.hpp"

#include <algorithm>
#include <map>

namespace flagstone::nuclear {
namespace {

/// Puts what is left of the nucleons into the orbits from `orbit` on.
void fill(const std::vector<Orbit>& orbits, std::size_t orbit, int left, int quanta_left, Configuration& now,
          std::vector<Configuration>& all) {
  if (left == 0) {
    all.push_back(now);
    return;
  }
  if (orbit == orbits.size()) return;
  const int quanta = orbits[orbit].quanta();
  int most = std::min(left, orbits[orbit].states());
  if (quanta > 0) most = std::min(most, quanta_left / quanta);
  for (int k = most; k >= 0; --k) {
    if (k > 0) now.orbits.push_back({static_cast<int>(orbit), k, -1}), now.quanta += k * quanta;
    fill(orbits, orbit + 1, left - k, quanta_left - k * quanta, now, all);
    if (k > 0) now.orbits.pop_back(), now.quanta -= k * quanta;
  }
}

/// The pattern, and which slot each orbit has in it.
Pattern take_slots(Configuration& c, const std::vector<Orbit>& orbits) {
  std::vector<Occupied*> partly;
  for (Occupied& o : c.orbits)
    if (o.count < orbits[static_cast<std::size_t>(o.orbit)].states()) partly.push_back(&o);
  const auto key = [&](const Occupied* o) {
    return std::tuple(orbits[static_cast<std::size_t>(o->orbit)].two_j, o->count, o->orbit);
  };
  std::sort(partly.begin(), partly.end(), [&](const auto* a, const auto* b) { return key(a) < key(b); });
  Pattern pattern;
  for (Occupied* o : partly) {
    o->slot = static_cast<int>(pattern.size());
    pattern.emplace_back(orbits[static_cast<std::size_t>(o->orbit)].two_j, o->count);
  }
  return pattern;
}

}  // namespace

Species::Species(std::vector<Orbit> given, int count, int most_quanta)
    : orbits(std::move(given)), nucleons(count), least(least_quanta(orbits, count)) {
  Configuration now;
  fill(orbits, 0, nucleons, most_quanta < 0 ? 1 << 20 : most_quanta, now, configurations);
  std::stable_sort(configurations.begin(), configurations.end(),
                   [](const auto& a, const auto& b) { return a.quanta < b.quanta; });
  std::map<Pattern, int> numbers;
  for (Configuration& c : configurations) {
    Pattern pattern = take_slots(c, orbits);
    const auto [at, fresh] = numbers.emplace(pattern, static_cast<int>(patterns.size()));
    if (fresh) distributions.push_back(distribution_of(pattern)), patterns.push_back(std::move(pattern));
    c.pattern = at->second;
  }
}

Moves moves_between(const Configuration& from, const Configuration& to) {
  Moves found;
  int removed = 0, added = 0;
  const auto step = [&](int orbit, int more) {
    for (; more > 0; --more, ++added)
      if (added < 2) found.added[added] = orbit;
    for (; more < 0; ++more, ++removed)
      if (removed < 2) found.removed[removed] = orbit;
  };
  auto a = from.orbits.begin();
  auto b = to.orbits.begin();
  while ((a != from.orbits.end() || b != to.orbits.end()) && removed <= 2 && added <= 2) {
    if (b == to.orbits.end() || (a != from.orbits.end() && a->orbit < b->orbit)) {
      step(a->orbit, -a->count), ++a;
    } else if (a == from.orbits.end() || b->orbit < a->orbit) {
      step(b->orbit, b->count), ++b;
    } else {
      step(a->orbit, b->count - a->count), ++a, ++b;
    }
  }
  found.moves = std::min(3, std::max(removed, added));
  return found;
}

}  // namespace flagstone::nuclear
