#pragma once
// What lies on disk, opened by what it is. Nothing is loaded.
#include <cstdint>
#include <string>
#include <variant>

#include "flagstone/storage/array/array.hpp"
#include "flagstone/storage/sparse/csr.hpp"

namespace flagstone {

struct OpenOptions {
  std::string member = {};  // of a group: its path, "layers/counts". None: AnnData's X, or the only member
  bool writable = false;    // Zarr arrays of ours, .npy
  bool verify = false;      // of Zarr arrays: parts of chunks are read whole and verified
  /// Most resident bytes of the process while metadata are parsed, which may be long; 0: as many as it takes.
  std::uint64_t memory = 0;
};

/// A dense array: Zarr v2 or v3, alone or in a group, or a .npy, in place.
///
/// BudgetError where metadata beyond 256 KiB would go beyond `memory`, before they are parsed.
/// FormatError, which says what to do: a sparse matrix (open_sparse); a format that only the Python package reads
/// (flagstone convert); a group of several, which are named; anything else. StorageError where nothing is there. While
/// another takes the place of what is there (results appear by a rename), that one is opened.
Array open(const std::string& path, const OpenOptions& options = {});
/// A CSR matrix: a group of ours, or AnnData's. One in columns (CSC) is refused like a foreign format.
CsrMatrix open_sparse(const std::string& path, const OpenOptions& options = {});
/// Either of them.
std::variant<Array, CsrMatrix> open_any(const std::string& path, const OpenOptions& options = {});

}  // namespace flagstone
