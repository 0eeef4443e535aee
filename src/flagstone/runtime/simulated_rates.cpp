// How long things take on a simulated machine; what happens when is in simulator.cpp.
#include <algorithm>
#include <cmath>

#include "flagstone/runtime/simulator.hpp"

namespace flagstone {

/// At the rates that the profile has for it; else one that this process computes for is as fast as a worker on each of
/// its queues, and copies as fast as memory, or as its own link.
Simulator::Link Simulator::link_to(const DeviceProperties& properties) const {
  Link made{.queues = std::vector<double>(static_cast<std::size_t>(properties.kernel_queues)),
            .waiting = std::vector<int>(static_cast<std::size_t>(properties.kernel_queues)),
            .most = most_launches(properties.kernel_queues)};
  auto rates = profile_.spaces.find(properties.name);
  if (rates == profile_.spaces.end()) rates = profile_.spaces.find(properties.kind);
  if (rates != profile_.spaces.end()) {
    made.profile = rates->second;
  } else if (properties.host_workers > 0) {
    SpaceProfile& as_host = made.profile;
    int computing = 0;  // threads, of which processors have one each as long as there are no more than workers
    for (const auto& device : options_.devices) computing += device->properties().host_workers;
    const double share = std::min(1.0, static_cast<double>(options_.workers) / computing);
    as_host.flops_float32 = share * profile_.flops_float32, as_host.flops_float64 = share * profile_.flops_float64;
    as_host.kernels_float32 = profile_.kernels_float32, as_host.kernels_float64 = profile_.kernels_float64;
    as_host.memory_bytes_per_second = profile_.memory_bytes_per_second;
    as_host.bytes_in_per_second = profile_.memory_bytes_per_second / 2;
    if (properties.bytes_per_second > 0)
      as_host.bytes_in_per_second = std::min(as_host.bytes_in_per_second, properties.bytes_per_second);
    as_host.bytes_out_per_second = as_host.bytes_in_per_second;
    made.each_copy = properties.latency_seconds;
  }
  if (properties.host_workers == 0) made.queues.resize(1);
  return made;
}

double Simulator::seconds_on(const TaskState& task, const SpaceProfile& device) const {
  double seconds = task.spec.cost.bytes_touched / device.memory_bytes_per_second, counted = 0;
  for (const Call& call : task.spec.calls) {
    const bool wide = real_part_of(call.dtype) == Dtype::float64;
    const auto& rates = wide ? device.kernels_float64 : device.kernels_float32;
    const auto rate = rates.find(std::string(name_of(call.kernel)));
    const double edge = std::cbrt(call.flops / (is_complex(call.dtype) ? 8 : 2));
    const double share =
        rate == rates.end() || edge == 0 ? 1 : rate->second.most * edge / (edge + rate->second.half_edge);
    seconds += call.flops / (share * (wide ? device.flops_float64 : device.flops_float32));
    counted += call.flops;
  }
  const double rest = std::max(0.0, task.spec.cost.flops - counted);
  return seconds + rest / (task.spec.cost.float64 ? device.flops_float64 : device.flops_float32);
}

double Simulator::seconds_of(const Cost& cost) const {
  const double rate = cost.float64 ? profile_.flops_float64 : profile_.flops_float32;
  return cost.flops / rate + cost.bytes_touched / profile_.memory_bytes_per_second +
         cost.bytes_decoded / profile_.decode_bytes_per_second;
}

/// On a worker of that socket, from now on; messages of a node go one after the other.
double Simulator::seconds_of(const TaskSpec& task, std::size_t socket) {
  const Cost& cost = task.cost;
  double seconds = seconds_of(cost);
  if (profile_.sockets > 1)
    seconds += cost.bytes_touched * (1 / memory_rate(task.socket >= 0, socket) - 1 / profile_.memory_bytes_per_second);
  if (cost.bytes_sent <= 0 || profile_.cluster.nodes == 1) return seconds;
  link_free_ = std::max(link_free_, now_) + cost.bytes_sent / profile_.cluster.link_bytes_per_second;
  return seconds + link_free_ + profile_.cluster.message_seconds - now_;
}

/// Of a worker while all are busy: what was placed lies in its own socket's memory; else all lies in the first one's,
/// whose rate all workers share.
double Simulator::memory_rate(bool placed, std::size_t socket) const {
  if (placed) return profile_.memory_bytes_per_second;
  const double share = profile_.memory_bytes_per_second / profile_.sockets;
  return socket == 0 ? share : std::min(share, profile_.remote_bytes_per_second);
}

/// States the flops of calls whose kernel has a rate of its own as those that gemm would do meanwhile. The edge of a
/// tile is taken from its flops, as if it were a product of cubes.
void Simulator::rate_kernels(TaskSpec& task) const {
  for (const Call& call : task.calls) {
    const auto& rates = real_part_of(call.dtype) == Dtype::float64 ? kernels_float64_ : kernels_float32_;
    const KernelRate& rate = rates[static_cast<std::size_t>(call.kernel)];
    const double edge = std::cbrt(call.flops / (is_complex(call.dtype) ? 8 : 2));
    if (edge > 0) task.cost.flops += call.flops * ((edge + rate.half_edge) / (rate.most * edge) - 1);
  }
}

void Simulator::count_by_rate(const Cost& cost) {
  RateSeconds& sum = stats_.by_rate;
  (cost.float64 ? sum.flops_float64 : sum.flops_float32) +=
      cost.flops / (cost.float64 ? profile_.flops_float64 : profile_.flops_float32);
  sum.memory += cost.bytes_touched / profile_.memory_bytes_per_second;
  sum.decode += cost.bytes_decoded / profile_.decode_bytes_per_second;
}

/// The disk serves one request after the other at its rate; latency hides behind the queue. While requests of the
/// other direction stand in the queue, both take longer (or shorter) by the measured penalty.
double Simulator::transfer_end(const Requests& requests, bool write) {
  if (requests.number == 0) return now_;
  double rate = write ? profile_.write_bytes_per_second : profile_.read_bytes_per_second;
  if (const auto& disks = profile_.cluster.disks; node_ < disks.size())
    rate *= write ? disks[node_].second : disks[node_].first;
  double seconds = static_cast<double>(requests.bytes) / rate +
                   profile_.request_overhead_seconds * static_cast<double>(requests.number);
  if (direction_free_[!write] > now_) seconds *= profile_.mixed_penalty;
  disk_free_ = direction_free_[write] = std::max(disk_free_, now_) + seconds;
  stats_.ring_busy_seconds += seconds;
  return disk_free_ + profile_.request_seconds;
}

}  // namespace flagstone
