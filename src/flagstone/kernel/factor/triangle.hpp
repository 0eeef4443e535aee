#pragma once
// Which half of a matrix, and which side of a product.
#include <cstdint>

namespace flagstone::kernel {

enum class Uplo : std::uint8_t { lower, upper };
enum class Side : std::uint8_t { left, right };
/// What a verb takes of a tile; `unit_lower`: the lower triangle with ones for its diagonal.
enum class Part : std::uint8_t { all, lower, upper, unit_lower };

constexpr Uplo flipped(Uplo uplo) { return uplo == Uplo::lower ? Uplo::upper : Uplo::lower; }
constexpr Side flipped(Side side) { return side == Side::left ? Side::right : Side::left; }

}  // namespace flagstone::kernel
