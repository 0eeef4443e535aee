#pragma once
// H by pairs of groups: the moves of nucleons are the same for every state of a pair, and rows are found by rank.
#include <memory>
#include <vector>

#include "flagstone/algorithms/nuclear/moves.hpp"
#include "flagstone/kernel/sparse/sparse_block.hpp"

namespace flagstone::nuclear {

/// What all makers of blocks share.
class Hamiltonian {
 public:
  /// ShapeError where the interaction lacks an orbit.
  Hamiltonian(std::shared_ptr<const Basis> basis, std::shared_ptr<const Interaction> interaction);
  const Basis& basis() const { return *basis_; }
  const Interaction& interaction() const { return *interaction_; }
  const Coupling& coupling() const { return coupling_; }
  const ClebschTables& tables() const { return tables_; }
  double scale() const { return scale_; }
  /// What of block (i, j) is known before it is made.
  struct Extent {
    Index nonzeros;  // a bound of the stored values
    Index steps;     // changes of M by which jumps are looked up, of all rows
  };
  Extent extent(Index i, Index j) const;
  /// A bound of the bytes that making it takes.
  std::size_t workspace_bytes(Index i, Index j) const;

 private:
  std::shared_ptr<const Basis> basis_;
  std::shared_ptr<const Interaction> interaction_;
  Coupling coupling_;
  ClebschTables tables_;
  double scale_;
};

/// Bytes of the lists of each species that a maker keeps beside those in use.
inline constexpr std::size_t kept_list_bytes = 1 << 20;

/// The lists of one species that a maker holds: each pair of configurations at a place of its own, as long as no other
/// one needs that.
struct ListPlaces {
  static constexpr std::size_t number = 1024;
  static std::size_t of(std::int32_t from, std::int32_t to) {
    return (static_cast<std::size_t>(from) * 0x9E3779B1u + static_cast<std::size_t>(to)) % number;
  }
};

/// Which of the lists that blocks need their maker has to make: asked in the order of blocks.
class ListsToMake {
 public:
  struct Made {
    Index lists = 0, determinants = 0;  // a determinant's jumps count threefold: they take as long
  };
  Made of(const Hamiltonian& h, Index i, Index j);

 private:
  struct Known {
    std::int32_t from = -1, to = -1;
    bool own = false, jumps = false;
  };
  std::vector<Known> known_[2] = {std::vector<Known>(ListPlaces::number), std::vector<Known>(ListPlaces::number)};
};

/// Makes blocks, one after the other; keeps the lists of pairs of configurations, which neighbours share: to list what
/// all determinants of a pair do takes longer than one block with them. One thread.
class BlockMaker {
 public:
  explicit BlockMaker(std::shared_ptr<const Hamiltonian> h) : h_(std::move(h)) {}
  /// H_ij: rows of group i, columns of group j.
  void make(Index i, Index j, kernel::SparseBlock& to);

 private:
  /// Lists of one species between two configurations.
  struct Lists {
    std::int32_t from = -1, to = -1;
    int reach = -1;
    bool has_own = false, has_jumps = false;
    OwnElements own;
    Jumps jumps;
    std::size_t bytes() const { return sizeof(Lists) + own.bytes() + jumps.bytes(); }
  };
  /// Those of one species.
  struct Kept {
    std::vector<std::unique_ptr<Lists>> lists = std::vector<std::unique_ptr<Lists>>(ListPlaces::number);
    std::size_t bytes = 0;
  };
  const Lists& prepare(bool neutron, std::int32_t from, std::int32_t to, int reach, bool own, bool jumps);
  void prepare_mixed();
  void row(Index p, Index n, const std::vector<std::int32_t>& base, const Determinants& to_neutrons);
  void mixed_direct(Index p, Index n, const std::vector<std::int32_t>& base, const Determinants& to_neutrons,
                    kernel::SparseBlock& to);

  std::shared_ptr<const Hamiltonian> h_;
  Kept kept_[2];  // of protons, of neutrons
  const Lists *protons_ = nullptr, *neutrons_ = nullptr;
  std::vector<Quadruple> mixed_;  // by channels of protons, then of neutrons
  std::vector<std::int32_t> base_, touched_;
  std::vector<double> row_;
  std::vector<std::uint8_t> seen_;
};

}  // namespace flagstone::nuclear
