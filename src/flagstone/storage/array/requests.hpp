#pragma once
// A Transfer as requests to a ring, and what their completions mean: shared by box_io and the runtime's io executor.
#include <cstdint>
#include <vector>

#include "flagstone/storage/array/array.hpp"
#include "flagstone/storage/ring/ring.hpp"

namespace flagstone {

/// The same transfer with no request longer than `most_bytes`: the ring's depth then bounds the bytes under way,
/// and tiles arrive one after the other in the order they were asked for.
inline constexpr std::size_t most_request_bytes = std::size_t{1} << 20;
Transfer in_pieces(Transfer transfer, std::size_t most_bytes = most_request_bytes);

/// What happens to a write before its requests leave: convert, then settle.
void make_ready(Transfer& transfer, std::byte* buffer, std::byte* staging);

/// One request for each segment, in order: request i carries `tag` + i. `base` is the staging buffer where
/// staging_bytes > 0, else the tile's buffer; `registered` is what the ring's register_buffer gave for it, or -1.
/// Direct segments use the file's O_DIRECT descriptor, the others the buffered one.
std::vector<Request> requests_of(const Transfer& transfer, std::byte* base, bool write, std::uint64_t tag,
                                 int registered = -1);

/// Throws when segment `segment` did not arrive whole: StorageError with errno, file and offset where the system said
/// no, FormatError where a read met the end of the file before its last `slack` bytes ("is truncated").
void check_completion(const Transfer& transfer, std::size_t segment, const Completion& completion, bool write);

/// ring.wake(), again where the kernel has no memory for it: nothing else helps while somebody waits in reap().
void wake_surely(Ring& ring);

}  // namespace flagstone
