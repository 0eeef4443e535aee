#pragma once
// QR of a matrix of any size inside the budget, by a communication-avoiding tree (Demmel, Grigori, Hoemmen and Langou
// 2012). LQ is QR of the adjoint: an operand that is seen transposed and conjugated.
#include <memory>
#include <optional>
#include <string>

#include "flagstone/algorithms/factor/qr_tree.hpp"
#include "flagstone/algorithms/tiled/operand.hpp"
#include "flagstone/runtime/runtime.hpp"
#include "flagstone/storage/output/checkpoint.hpp"

namespace flagstone::linalg {

/// How a factorization goes through memory; a function of shape and budget, and no matter of bits.
struct QrOrder {
  bool streamed = false;  // panels over the rest of the matrix, else slabs that panels go over
  Index slab = 1;         // columns of tiles kept together
  std::string text() const;
};
QrOrder choose_order(const QrTree& tree, std::uint64_t budget, int workers);

/// ShapeError where `a` is no matrix of a BLAS dtype; `who` says so.
void check_qr(const std::string& who, const Operand& a);

struct QrOptions {
  std::string who = "qr";              // whom errors name
  bool turned = false;                 // and whether A is the adjoint of what was given there
  std::shared_ptr<std::string> order;  // where somebody wants to know
  /// Where progress is saved: groups of a tall matrix, slabs of others; not within the streamed order, whose tiles go
  /// on changing.
  std::shared_ptr<Checkpoint> checkpoint;
  bool saved = false;  // the run saves its progress: for plans, which have no checkpoint
  /// Tiles of another size than the kind of devices has (Graph::large_tiles). Reflectors that are results have the
  /// host's, whoever computes them.
  std::optional<QrCut> cut;
};

/// r := R of A (m x n), min(m, n) x n; nothing is written where R is not (its lower part). One read of A where n is at
/// most one column of tiles. 2 n² (m - n/3) flops; complex: four times as many.
void qr_r(Graph& graph, const Operand& a, const Operand& r, const QrOptions& options);
/// The reflectors of A, into arrays of reflector_shapes(); R too where `r` is given.
void qr_factor(Graph& graph, const Operand& a, const Reflectors& f, const Operand* r, const QrOptions& options);
struct ApplyOptions {
  std::string who = "apply_q";
  bool turned = false;  // B is the adjoint of what was given
  bool given = true;    // the reflectors are the caller's, who may have NaN or Inf among them
};
/// out := Qᴴ B (`adjoint`) or Q B, Q m x m and B m x k: 4 m n k - 2 n² k flops.
void apply_q(Graph& graph, const QrTree& tree, const Reflectors& f, const Operand& b, bool adjoint, const Operand& out,
             const ApplyOptions& options = {});
/// out := the first columns of Q; `dropped`: nobody needs the reflectors afterwards.
void form_q(Graph& graph, const QrTree& tree, const Reflectors& f, bool dropped, const Operand& out,
            const QrOptions& options);
/// Q and R at once, the reflectors in scratch.
void qr(Graph& graph, const Operand& a, const Operand& q, const Operand& r, const QrOptions& options);

}  // namespace flagstone::linalg
