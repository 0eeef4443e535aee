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
};

/// Those in `directory` and below; symbolic links and what is inside arrays are not looked at. Cost: one pass over the
/// directories, and one over the files of every build.
std::vector<Leftover> leftovers(const std::string& directory);
/// Those of one output.
std::vector<Leftover> leftovers_of(const std::string& path);
/// Removes what dead writers of `path` left, with or without a record; finishes a publish that died between its two
/// steps. What is being built is left alone.
void sweep_leftovers(const std::string& path);

// For Output, which makes them.
inline const std::string lock_suffix = ".lock", old_suffix = ".old", notes_suffix = ".notes";
inline constexpr char publishing = 'p';  // written into the lock before a publish that takes two steps

bool path_exists(const std::string& path);  // a link counts, wherever it points
/// Everything in a hidden name before its id: `<parent>/.<name>.flagstone-tmp-`.
std::string hidden_prefix(const std::string& path);
/// The builds that begin so, without suffixes.
std::set<std::string> hidden_siblings(const std::string& prefix);
/// Removes one of them if its writer is dead.
void clear_leftover(const std::string& hidden, const std::string& path);
void remove_tree(const std::string& path);
/// As stored (blocks), of a file or a whole directory.
std::uint64_t bytes_on_disk(const std::string& path);
/// The record of a build that can be taken over: empty where there is none, or where `hidden` holds something else
/// than what was built (the version that a publish replaced).
std::string record_of(const std::string& hidden);
/// Removes the notes of a build: the record before what says to which build it belongs. Without that, the version that
/// a publish replaced would look like what was built.
void remove_notes(const std::string& hidden);
/// To be called before a publish: from then on record_of() knows what was built from what is there.
void note_build(const std::string& hidden);

}  // namespace flagstone
