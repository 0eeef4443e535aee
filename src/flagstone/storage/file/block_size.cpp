#include "flagstone/storage/file/block_size.hpp"

#include <fcntl.h>
#include <linux/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace flagstone {

std::size_t direct_block_of([[maybe_unused]] int descriptor) {
  std::size_t block = 512;
#ifdef STATX_DIOALIGN
  struct statx facts {};
  if (::syscall(SYS_statx, descriptor, "", AT_EMPTY_PATH, STATX_DIOALIGN, &facts) == 0 &&
      (facts.stx_mask & STATX_DIOALIGN) != 0)
    block = std::max<std::size_t>({block, facts.stx_dio_mem_align, facts.stx_dio_offset_align});
#endif
  return block;
}

}  // namespace flagstone
