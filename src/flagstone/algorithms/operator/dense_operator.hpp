#pragma once
// Products with a dense matrix that stays on disk, centred tile by tile: one read each.
#include <optional>

#include "flagstone/algorithms/operator/dense_panels.hpp"

namespace flagstone::spectral {

/// How the columns of X are centred. Tall panels subtract `shift` (1 x n float64 in memory); wide panels hold whole
/// columns and subtract their own means. Differences are formed in float64 before anything is multiplied, so a mean
/// much larger than the spread costs no digits.
struct Centring {
  bool center = false;
  std::optional<Array> shift;  // tall only
};

/// Collected by a pass, float64 in memory. Of X - 1 shiftᵀ (tall) or X minus its column means (wide).
struct Moments {
  Array sums;     // tall: 1 x n column sums; wide: 1 x n column means
  Array squares;  // tall: 1 x n column sums of squares; wide: 1 x 1 sum of squares
};

/// Y += G V with G = XᵀX (tall) or XXᵀ (wide) of the centred X; V side x b (its dtype is the products' precision), Y
/// float64, both in memory. `keep` (empty: none), extent x b in boxes of panels: what stands between, X V or XᵀV.
/// Each panel's sum is in V's dtype, the sum over panels in float64 in a fixed tree. 4 b flops a value.
void dense_gram_multiply(Graph& graph, const DensePanels& x, const Centring& centring, const Array& v, const Array& y,
                         const Array* keep, const Moments* moments);
/// G += the same G itself, side x side float64 in memory, lower triangle (other parts hold nothing of use): float64
/// throughout, side flops a value. Wait with graph.barrier(): blocks of G are boxes of their own.
void dense_gram_matrix(Graph& graph, const DensePanels& x, const Centring& centring, const Array& g,
                       const Moments* moments);
/// Bytes of working memory of dense_gram_matrix besides G.
std::uint64_t dense_gram_matrix_bytes(const DensePanels& x);
/// shift := column means of the first panel (tall): near enough to the mean for the first pass.
void first_panel_means(Graph& graph, const DensePanels& x, const Array& shift);
/// Throws NumericalError naming the first row (and its first column) with NaN or Inf; returns when there is none.
void find_bad_value(Graph& graph, const DensePanels& x);
/// The largest |x|, in one read of X.
double largest_magnitude(Graph& graph, const DensePanels& x);

}  // namespace flagstone::spectral
