#include "flagstone/flash/eigsh.hpp"

#include "flagstone/algorithms/eigenpairs/eigsh.hpp"
#include "flagstone/base/error.hpp"

namespace flagstone::flash {

Eigenpairs eigsh(Runtime& runtime, const EigshCall& call) {
  spectral::EigshOptions options;
  spectral::SchurOptions& o = options.solver;
  o.k = call.k, o.block = call.options.block, o.ncv = call.options.ncv, o.tol = call.options.tol;
  o.which = spectral::which_from_name(call.options.which);
  o.seed = call.options.seed, o.verify = call.options.verify, o.most = call.options.applications;
  o.dtype = call.dtype;
  options = spectral::completed(options, call.n);
  const StoredMatrix written("eigsh", "vectors", Order::row_major, {call.vectors, call.k}, call.n, call.k, call.dtype);
  written.check_writable();
  spectral::EigshInput input;
  input.n = call.n;
  input.applied = [&](const Array& x, const Array& y) {
    call.apply(x.store().memory(), y.store().memory(), x.shape()[1]);
  };
  spectral::EigshResult result;
  Eigenpairs found;
  found.did =
      runtime.run([&](Graph& graph) { spectral::eigsh(graph, input, options, written.lines_as_rows(), result); });
  found.values = std::move(result.values), found.residuals = std::move(result.residuals);
  found.applications = result.applications;
  found.converged = result.converged, found.verified = result.verified;
  return found;
}

}  // namespace flagstone::flash
