#pragma once
// Clebsch-Gordan coefficients, as tables of one pair of angular momenta.
#include <vector>

namespace flagstone::nuclear {

/// <j1 m1 j2 m2 | J m1+m2> (Condon and Shortley), all arguments doubled. Racah's sum in long double.
double clebsch_gordan(int j1, int m1, int j2, int m2, int J);

/// All of one pair: of each (m1, m2) the coefficients of J = |j1 - j2| ... j1 + j2 one after the other.
class ClebschTable {
 public:
  ClebschTable(int two_j1, int two_j2);
  /// i, k: numbers of the states, i = m + j. `two_J`: where the row begins.
  const double* row(int i, int k, int two_J) const {
    return values_.data() + (i * states2_ + k) * count_ + (two_J - least_) / 2;
  }

 private:
  int states2_, count_, least_;
  std::vector<double> values_;
};

}  // namespace flagstone::nuclear
