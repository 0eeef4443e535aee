#pragma once
// Which processors share a memory: those of a socket.
#include <span>
#include <string>
#include <vector>

namespace flagstone {

/// Processors of each socket, in ascending order; those that this process may not use are in none.
using Sockets = std::vector<std::vector<int>>;

/// "0-3,8;4-7": lists as /sys has them, one for each socket. Error where the text is no such thing, a processor is
/// named twice, or it is not among `there`.
Sockets sockets_from_text(const std::string& text, std::span<const int> there);

/// $FLAGSTONE_SOCKETS, a topology to be pretended; else the memories that /sys tells of; none where it tells of none.
Sockets sockets_of_machine();

}  // namespace flagstone
