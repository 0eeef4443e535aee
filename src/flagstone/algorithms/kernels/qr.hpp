#pragma once
// Calls of the kernels of tile QR (kernel/factor/qr.hpp). Parts are seen transposed where they say so: all matrices but
// what is taken must have contiguous columns then. What a call changes comes last.
#include "flagstone/runtime/graph/call.hpp"

namespace flagstone::call {

/// What all kernels of one task share.
struct QrOptions {
  Index ib = 1;            // reflectors of one block
  bool adjoint = false;    // Qᴴ, not Q
  bool triangle = false;   // the lower part is a triangle
  std::uint32_t work = 0;  // the scratch access with kernel::qr_work_bytes
};

// The values of these calls.
struct Qr : CallValue {
  QrOptions options;
};
struct Identity : CallValue {
  Index row = 0;
};

Call geqrt(Dtype dtype, const QrOptions& options, TilePart t, TilePart a);
Call tpqrt(Dtype dtype, const QrOptions& options, TilePart t, TilePart b, TilePart r);
Call gemqrt(Dtype dtype, const QrOptions& options, TilePart v, TilePart t, TilePart c);
Call tpmqrt(Dtype dtype, const QrOptions& options, TilePart v, TilePart t, TilePart a, TilePart b);

/// to := rows of the identity matrix, the first of which is `row`.
Call identity(Dtype dtype, Index row, TilePart to);

}  // namespace flagstone::call
