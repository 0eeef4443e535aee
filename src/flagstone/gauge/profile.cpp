#include "flagstone/gauge/profile.hpp"

#include <sched.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/file/text_file.hpp"
#include "flagstone/storage/scratch/scratch.hpp"
#include "flagstone/storage/zarr/metadata/json.hpp"

namespace flagstone::gauge {
namespace {

namespace fs = std::filesystem;

constexpr RateBounds bounds[] = {
    {"read_bytes_per_second", &MachineProfile::read_bytes_per_second, 1e6, 1e11},
    {"write_bytes_per_second", &MachineProfile::write_bytes_per_second, 1e6, 1e11},
    {"request_seconds", &MachineProfile::request_seconds, 1e-7, 1.0},
    {"request_overhead_seconds", &MachineProfile::request_overhead_seconds, 1e-8, 0.05},
    {"mixed_penalty", &MachineProfile::mixed_penalty, 0.3, 5.0},
    {"sync_seconds", &MachineProfile::sync_seconds, 1e-7, 10.0},
    {"flops_float32", &MachineProfile::flops_float32, 1e8, 1e13},
    {"flops_float64", &MachineProfile::flops_float64, 1e8, 1e13},
    {"memory_bytes_per_second", &MachineProfile::memory_bytes_per_second, 1e8, 1e12},
    {"decode_bytes_per_second", &MachineProfile::decode_bytes_per_second, 1e7, 1e11},
};

/// The first line of /proc/cpuinfo that says it. With C's means: streams stay resident.
std::string processor_model() {
  std::FILE* lines = std::fopen("/proc/cpuinfo", "re");
  std::string model;
  char* line = nullptr;
  for (std::size_t room = 0; lines && model.empty() && ::getline(&line, &room, lines) >= 0;) {
    const std::string text = line;
    const std::size_t colon = text.find(':');
    if (!text.starts_with("model name") || colon == std::string::npos) continue;
    const std::size_t first = text.find_first_not_of(" \t", colon + 1), last = text.find_last_not_of(" \t\n");
    if (first != std::string::npos && last >= first) model = text.substr(first, last - first + 1);
  }
  std::free(line);
  if (lines) std::fclose(lines);
  return model;
}

fs::path nearest(const std::string& directory) {
  std::error_code ignored;
  fs::path place = fs::absolute(directory, ignored);
  while (!fs::exists(place, ignored) && place != place.parent_path()) place = place.parent_path();
  return place;
}

MachineProfile rates_of(const Json& told) {
  MachineProfile rates;
  if (told.size() != std::size(bounds)) throw JsonError("rates are missing");
  for (const RateBounds& one : bounds) {
    const double rate = told.at(one.name).get<double>();
    if (!(rate >= one.low && rate <= one.high)) throw JsonError(one.name);
    rates.*one.rate = rate;
  }
  return rates;
}

std::string processors_text(const Device& device) {
  return std::to_string(device.processors) + " x " + (device.processor.empty() ? "unknown" : device.processor);
}

}  // namespace

std::span<const RateBounds> rate_bounds() { return bounds; }

Device device_of(const std::string& directory) {
  const fs::path place = nearest(directory);
  struct stat status;
  if (::stat(place.c_str(), &status) != 0)
    throw StorageError("gauge: cannot look at the directory", errno, place.string());
  utsname system{};
  ::uname(&system);
  cpu_set_t allowed;
  const bool known = ::sched_getaffinity(0, sizeof allowed, &allowed) == 0;
  return {system.nodename, file_system(place.string()),
          std::to_string(major(status.st_dev)) + ":" + std::to_string(minor(status.st_dev)), processor_model(),
          known ? CPU_COUNT(&allowed) : 1};
}

std::string profile_file(const Device& device) {
  const std::string cache = user_cache();
  if (cache.empty())
    throw StorageError("profile: nobody says where this user's cache is; set XDG_CACHE_HOME to a directory", ENOENT,
                       "~");
  std::string number = device.number;
  std::replace(number.begin(), number.end(), ':', '-');
  std::string name =
      device.machine + "-" + (device.file_system.empty() ? "unknown" : device.file_system) + "-" + number;
  std::replace(name.begin(), name.end(), '/', '_');
  return (fs::path(cache) / "flagstone" / ("machine-" + name + ".json")).string();
}

std::optional<Profile> read_profile(const std::string& file) try {
  Profile found;
  found.text = read_text(file, std::size_t{1} << 24);
  const Json told = Json::parse(found.text);
  if (told.at("version").get<int>() != profile_version) return std::nullopt;
  const Json device = told.at("device");
  found.source = told.at("source").get<std::string>();
  found.date = told.at("date").get<std::string>();
  found.device = {device.at("machine").get<std::string>(), device.at("file_system").get<std::string>(),
                  device.at("number").get<std::string>(), device.at("processor").get<std::string>(),
                  device.at("processors").get<int>()};
  found.rates = rates_of(told.at("rates"));
  return found;
} catch (const StorageError&) {
  return std::nullopt;
} catch (const FormatError&) {
  return std::nullopt;
} catch (const JsonError&) {
  return std::nullopt;
}

MachineProfile kept_profile(const std::string& directory) {
  const Device here = device_of(directory);
  const std::string file = profile_file(here);
  const std::optional<Profile> found = read_profile(file);
  if (!found)
    throw Error("profile: none is kept for the disk of '" + directory + "'; run 'flagstone calibrate " + directory +
                "', which measures it.");
  if (found->device.processor != here.processor || found->device.processors != here.processors)
    throw Error("profile: '" + file + "' was taken on another machine (" + processors_text(found->device) +
                ", and here are " + processors_text(here) + "); run 'flagstone calibrate " + directory +
                "' on this one.");
  return found->rates;
}

}  // namespace flagstone::gauge
