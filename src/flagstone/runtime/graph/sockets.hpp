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

/// $FLAGSTONE_SOCKETS, a topology to be pretended; else the memories that /sys tells of. None where it tells of none,
/// or where the processors of this process are not dealt out to them evenly: workers are, and some would share a
/// processor while others stand idle.
Sockets sockets_of_machine();
/// `listed` as /sys has it, without what is not among `there`; none where that is not even.
Sockets even_sockets(const Sockets& listed, std::span<const int> there);

/// What this thread may use, or could before it was bound; in ascending order.
std::vector<int> processors_here();

/// Binds this thread. Where the system changed its mind since the processors were looked at, it stays where it may be,
/// which costs time alone.
void bind_to(std::span<const int> processors);

}  // namespace flagstone
