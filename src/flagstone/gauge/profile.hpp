#pragma once
// Rates of this machine as they are kept in the user's cache: one file for each disk, and the processors beside it.
#include <optional>
#include <span>
#include <string>

#include "flagstone/runtime/graph/options.hpp"

namespace flagstone::gauge {

/// What rates are of.
struct Device {
  std::string machine;              // its name
  std::string file_system, number;  // of the disk: "ext4", "259:1"
  std::string processor;            // its model
  int processors = 0;               // that this process may use
};
/// The disk that holds a directory, or its nearest parent that exists.
Device device_of(const std::string& directory);
/// `<cache>/flagstone/machine-<name>-<file system>-<number>.json`
std::string profile_file(const Device& device);

/// What a rate may be; beyond it the probe was disturbed, or the device is none that we know.
struct RateBounds {
  const char* name;
  double MachineProfile::*rate;
  double low, high;
};
std::span<const RateBounds> rate_bounds();

inline constexpr int profile_version = 2;
/// A profile is *measured* (`flagstone calibrate`) or a *quick probe* (of the first plan in Python).
struct Profile {
  std::string source, date;  // who took it and when, in ISO 8601
  Device device;
  MachineProfile rates;
  std::string text;  // all of it: what else was found, and how runs compared with their plans
};
/// None where nothing is kept, or it is damaged: it can be taken again.
std::optional<Profile> read_profile(const std::string& file);
/// The rates that are kept for the disk of a directory, for plans: `runtime.profile() = kept_profile(directory)`. Error
/// where none are, or where they were taken on another machine.
MachineProfile kept_profile(const std::string& directory);

}  // namespace flagstone::gauge
