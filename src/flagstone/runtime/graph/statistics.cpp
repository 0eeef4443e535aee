#include "flagstone/runtime/graph/statistics.hpp"

namespace flagstone {

void Statistics::count(const std::vector<Call>& calls, double task_seconds) {
  double flops = 0;
  for (const Call& call : calls) flops += call.flops;
  for (const Call& call : calls) {
    KernelStatistics& counted = kernels[static_cast<std::size_t>(call.kernel)];
    const double share = flops > 0 ? call.flops / flops : &call == calls.data() ? 1 : 0;
    ++counted.calls, counted.flops += call.flops, counted.seconds += share * task_seconds;
  }
}

}  // namespace flagstone
