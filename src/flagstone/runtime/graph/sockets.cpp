#include "flagstone/runtime/graph/sockets.hpp"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>

#include "flagstone/base/error.hpp"

namespace flagstone {
namespace {

thread_local std::vector<int> before_bound;  // a Runtime that is made inside a task has all processors

[[noreturn]] void refuse(const std::string& text, const std::string& why) {
  throw Error("Runtime: FLAGSTONE_SOCKETS is '" + text + "' and " + why +
              "; name each processor once, as '0-3;4-7', or leave it unset.");
}

/// Reads a number and moves on; false where there is none.
bool take_number(std::string_view& text, int& number) {
  const auto [after, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0 || number >= CPU_SETSIZE) return false;
  text.remove_prefix(static_cast<std::size_t>(after - text.data()));
  return true;
}

/// "0-3,8"; false where it is something else.
bool take_list(std::string_view text, std::vector<int>& processors) {
  for (;;) {
    int first = 0, last = 0;
    if (!take_number(text, first)) return false;
    last = first;
    if (text.starts_with('-')) {
      text.remove_prefix(1);
      if (!take_number(text, last) || last < first) return false;
    }
    for (int processor = first; processor <= last; ++processor) processors.push_back(processor);
    if (text.empty()) return true;
    if (!text.starts_with(',')) return false;
    text.remove_prefix(1);
  }
}

}  // namespace

Sockets sockets_from_text(const std::string& text, std::span<const int> there) {
  Sockets sockets;
  std::vector<int> seen;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(';', at), text.size());
    sockets.emplace_back();
    if (!take_list(std::string_view(text).substr(at, end - at), sockets.back())) refuse(text, "is no list of sockets");
    for (const int processor : sockets.back()) {
      const std::string told = "processor " + std::to_string(processor) + " ";
      if (!std::ranges::binary_search(there, processor)) refuse(text, told + "is not there for this process");
      if (std::ranges::find(seen, processor) != seen.end()) refuse(text, told + "is named twice");
      seen.push_back(processor);
    }
    std::ranges::sort(sockets.back());
    at = end + 1;
  }
  return sockets;
}

std::vector<int> processors_here() {
  if (!before_bound.empty()) return before_bound;
  cpu_set_t allowed;
  std::vector<int> found;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return found;
  for (int processor = 0; processor < CPU_SETSIZE; ++processor)
    if (CPU_ISSET(static_cast<std::size_t>(processor), &allowed)) found.push_back(processor);
  return found;
}

void bind_to(std::span<const int> processors) {
  before_bound = processors_here();
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int processor : processors) CPU_SET(static_cast<std::size_t>(processor), &set);
  ::pthread_setaffinity_np(::pthread_self(), sizeof set, &set);
}

Sockets even_sockets(const Sockets& listed, std::span<const int> there) {
  Sockets found;
  std::size_t number = 0;
  for (const std::vector<int>& socket : listed) {
    std::vector<int> ours;
    std::ranges::copy_if(socket, std::back_inserter(ours),
                         [&](int processor) { return std::ranges::binary_search(there, processor); });
    number += ours.size();
    if (!ours.empty()) found.push_back(ours);
  }
  const bool even = std::ranges::all_of(found, [&](const auto& socket) { return socket.size() == found[0].size(); });
  return even && number == there.size() ? found : Sockets{};
}

Sockets sockets_of_machine() {
  const std::vector<int> here = processors_here();
  if (const char* given = std::getenv("FLAGSTONE_SOCKETS"); given && *given) return sockets_from_text(given, here);
  const std::string nodes = "/sys/devices/system/node/";
  const auto list_in = [](const std::string& path) {
    std::ifstream file(path);
    std::string text;
    std::vector<int> listed;
    if (!file || !std::getline(file, text) || !take_list(text, listed)) listed.clear();
    return listed;
  };
  Sockets listed;
  for (const int node : list_in(nodes + "online"))  // one without processors has an empty list
    listed.push_back(list_in(nodes + "node" + std::to_string(node) + "/cpulist"));
  return even_sockets(listed, here);
}

}  // namespace flagstone
