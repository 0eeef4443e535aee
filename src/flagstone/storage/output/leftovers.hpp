#pragma once
// What lies beside an output while it is built, and after its writer died.
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace flagstone {

/// A build that was not published. Beside `build` lie `build`.lock, `build`.notes (where its writer can go on) and,
/// for moments, `build`.old (a version that is being replaced).
struct Leftover {
  std::string path;         // of the output that it was to be
  std::string build;        // the hidden directory or file
  std::string notes;        // the directory with record.json; empty where there is no record
  std::string record;       // its text
  std::uint64_t bytes = 0;  // on the disk
  bool live = false;        // somebody builds it now (or the file system cannot tell)
  std::string operation;    // as the record calls it; empty: there is none, or it is damaged
  double done = 0;          // of all the work, at the last checkpoint
  int saves = 0;            // checkpoints
  int process = 0;          // that made the last one
  double age = 0;           // seconds since then

  /// Whether there is a checkpoint to go on from.
  bool resumable() const { return !record.empty() && saves > 0; }
};

/// Those in `directory` and below; symbolic links and what is inside arrays are not looked at. Cost: one pass over the
/// directories, and one over the files of every build.
std::vector<Leftover> leftovers(const std::string& directory);
/// Those of one output, whatever links lead to it.
std::vector<Leftover> leftovers_of(const std::string& path);
/// Notes in a scratch directory that an output is built somewhere, for registered_outputs(); it outlives the process.
/// Nothing where the directory is "" or cannot be written: the listing is a courtesy.
void register_output(const std::string& scratch, const std::string& path);
/// What is being built, or was left, with a record, of the outputs that scratch knows of; forgets those that are done.
std::vector<Leftover> registered_outputs(const std::string& scratch);
/// Removes what dead writers of `path` left, with or without a record; finishes a publish that died between its two
/// steps. What is being built is left alone.
void sweep_leftovers(const std::string& path);

}  // namespace flagstone
