#pragma once
// What one kind of nucleon does in a Hamiltonian, between two of its configurations: one nucleon that moves, for the
// part that protons and neutrons share, and two-body elements of its own.
#include <vector>

#include "flagstone/algorithms/nuclear/clebsch.hpp"
#include "flagstone/algorithms/nuclear/interaction.hpp"

namespace flagstone::nuclear {

/// Clebsch tables of all pairs of j that orbits have.
class ClebschTables {
 public:
  explicit ClebschTables(const Space& space);
  const ClebschTable& of(int two_j1, int two_j2) const {
    return tables_[static_cast<std::size_t>(two_j1 / 2 * width_ + two_j2 / 2)];
  }

 private:
  int width_ = 0;
  std::vector<ClebschTable> tables_;
};

/// One species on two sides: its orbits, configurations and their determinants.
struct Side {
  const Species* species;
  bool neutron;
  const Configuration *from, *to;
  const Determinants *from_determinants, *to_determinants;
};

/// One nucleon from state `from` of its orbit to state `to`: determinant `target`, with a sign. `channel`: which
/// orbits.
struct Jump {
  std::int32_t target;
  std::uint8_t channel, from, to;
  std::int8_t sign;
};

/// All jumps of all determinants, by determinant and by what M gains.
class Jumps {
 public:
  void list(const Side& side);
  struct Channel {
    int from, to;  // orbits
  };
  const std::vector<Channel>& channels() const { return channels_; }
  /// Those of a determinant that change 2M by `two_delta`.
  std::pair<const Jump*, const Jump*> of(Index det, int two_delta) const {
    const int step = two_delta / 2 + most_;
    if (step < 0 || step > 2 * most_) return {nullptr, nullptr};
    const std::size_t at =
        static_cast<std::size_t>(det) * static_cast<std::size_t>(2 * most_ + 1) + static_cast<std::size_t>(step);
    return {jumps_.data() + starts_[at], jumps_.data() + starts_[at + 1]};
  }
  /// Bytes that its lists take.
  std::size_t bytes() const {
    return sizeof(Jump) * (jumps_.capacity() + sorted_.capacity()) + 4 * starts_.capacity() +
           sizeof(Channel) * channels_.capacity();
  }
  /// The largest change of M.
  int most() const { return most_; }

 private:
  std::vector<Channel> channels_;
  std::vector<Jump> jumps_, sorted_;
  std::vector<std::int32_t> starts_;
  int most_ = 0;
};

/// Two-body elements (and energies) between determinants of equal M, by rows; of those rows whose |2M - center| is
/// within reach.
class OwnElements {
 public:
  void list(const Side& side, const Interaction& interaction, double scale, const ClebschTables& tables, int center,
            int reach);
  struct Element {
    std::int32_t target;
    double value;
  };
  /// Bytes that its lists take.
  std::size_t bytes() const {
    return sizeof(Element) * elements_.capacity() + 12 * row_.capacity() + 9 * starts_.capacity();
  }
  std::pair<const Element*, const Element*> of(Index det) const {
    const auto d = static_cast<std::size_t>(det);
    return {elements_.data() + starts_[d], elements_.data() + starts_[d + 1]};
  }

 private:
  std::vector<Element> elements_;
  std::vector<std::int32_t> starts_;
  std::vector<double> row_;
  std::vector<std::int32_t> touched_;
  std::vector<std::uint8_t> seen_;
};

/// V_J of four orbits with what multiplies it, ready for elements of states.
struct Quadruple {
  int a = -1, b = -1, c = -1, d = -1;
  const ClebschTable *bra = nullptr, *ket = nullptr;
  int first = 0;  // 2J
  std::vector<double> values;
  double element(int ma, int mb, int mc, int md) const {
    const double *left = bra->row(ma, mb, first), *right = ket->row(mc, md, first);
    double sum = 0;
    for (std::size_t i = 0; i < values.size(); ++i) sum += left[i] * values[i] * right[i];
    return sum;
  }
};

}  // namespace flagstone::nuclear
