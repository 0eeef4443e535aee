#pragma once
// What says to which record a build belongs, and in which order it goes. For Output, which makes builds.
#include <string>

namespace flagstone {

inline constexpr char publishing = 'p';  // written into the lock before a publish that takes two steps

/// Removes a build, and what lies beside it, if its writer is dead; finishes a publish that died between its two steps.
void clear_leftover(const std::string& hidden, const std::string& path);
/// The record of a build that can be taken over: empty where there is none, or where `hidden` holds something else
/// than what was built (the version that a publish replaced).
std::string record_of(const std::string& hidden);
/// Removes the notes of a build: the record before what says to which build it belongs. Without that, the version that
/// a publish replaced would look like what was built.
void remove_notes(const std::string& hidden);
/// To be called before a publish: from then on record_of() knows what was built from what is there.
void note_build(const std::string& hidden);

}  // namespace flagstone
