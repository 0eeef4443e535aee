#pragma once
// Sums of squares that neither overflow nor underflow: three levels of numbers, each scaled by a power of two before it
// is squared (after Blue, ACM TOMS 4 (1978), and Anderson, ACM TOMS 44 (2017): LAPACK's nrm2 and lassq since 3.10).
// What is added up is of one level at a time, that of the largest number so far: what lower levels would add to it then
// lies below its last place. Constants alone: code of loops is compiled once per instruction set.

namespace flagstone::kernel {

/// Numbers above are of level 1, below `small_number` of level -1, between them of level 0; squares of level 0 leave
/// room for 2^60 of them, and lose nothing above the last place of the sum's largest.
inline constexpr double large_number = 0x1p480, small_number = 0x1p-400;
/// 2^-600 and 2^600: by which numbers of level 1 and -1 are multiplied, and by which results are multiplied back.
inline constexpr double scale_down = 0x1p-600, scale_up = 0x1p600;

}  // namespace flagstone::kernel
