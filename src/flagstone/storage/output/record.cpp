#include "flagstone/storage/output/record.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "flagstone/base/version.hpp"
#include "flagstone/storage/file/build_name.hpp"
#include "flagstone/storage/file/stamp.hpp"
#include "flagstone/storage/output/leftovers.hpp"
#include "flagstone/storage/zarr/metadata/json.hpp"

namespace flagstone {
namespace {

constexpr double usual_seconds = 30;  // between two checkpoints at least
constexpr double worth = 1.0 / 3;     // of that: shorter operations are begun again

std::string quoted(const std::string& text) { return Json(text).dump_ascii(); }

std::string per_cent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f%%", 100 * share);
  return text;
}

/// What other operations had finished, and nobody goes on with now.
bool goes(const Leftover& one, const std::string& record) {
  return one.resumable() && !one.live && one.record != record;
}

/// Whether what is built is damaged, not an operand, which may be brought back.
bool names_a_build(const FormatError& error) { return std::string(error.what()).find(build_mark) != std::string::npos; }

/// Whether what failed may go well tomorrow, with what is built: everything but wrong arguments and numbers.
bool passes(const std::exception& error) {
  if (dynamic_cast<const StorageError*>(&error) || dynamic_cast<const BudgetError*>(&error)) return true;
  return !dynamic_cast<const Error*>(&error);
}

}  // namespace

RecordArguments& RecordArguments::set(const std::string& name, std::string json) {
  members_[name] = std::move(json);
  return *this;
}

RecordArguments& RecordArguments::value(const std::string& name, const std::string& text) {
  return set(name, quoted(text));
}

RecordArguments& RecordArguments::value(const std::string& name, double number) {
  return set(name, Json(number).dump());
}

RecordArguments& RecordArguments::file(const std::string& name, const std::string& path) {
  const std::string place = std::filesystem::absolute(path).lexically_normal().string();
  return set(name, "{\"path\": " + quoted(place) + ", \"stamp\": " + quoted(stored_stamp(place)) + "}");
}

std::string RecordArguments::text() const {
  std::string text;
  for (const auto& [name, json] : members_) text += (text.empty() ? "" : ", ") + quoted(name) + ": " + json;
  return "{" + text + "}";
}

/// As Python's json.dumps writes it, members sorted by name: records of older processes are compared with it.
std::string record_text(const std::string& operation, const std::string& arguments, int threads_per_task,
                        const std::string& language, const std::string& devices) {
  return "{\"arguments\": " + arguments + (devices.empty() ? "" : ", \"devices\": " + quoted(devices)) +
         ", \"format\": " + std::to_string(record_format) +
         (language.empty() ? "" : ", \"language\": " + quoted(language)) + ", \"operation\": " + quoted(operation) +
         ", \"threads_per_task\": " + std::to_string(threads_per_task) + ", \"version\": " + quoted(version()) + "}";
}

static thread_local std::optional<double> chosen_seconds;
void set_checkpoint_seconds(std::optional<double> seconds) { chosen_seconds = seconds; }

double checkpoint_seconds() {
  if (chosen_seconds) return *chosen_seconds;
  const char* given = std::getenv("FLAGSTONE_CHECKPOINT_SECONDS");
  if (!given || *given == '\0') return usual_seconds;
  char* end = nullptr;
  const double seconds = std::strtod(given, &end);
  while (*end == ' ') ++end;
  if (end == given || *end != '\0' || !(seconds >= 0 && std::isfinite(seconds)))
    throw Error("FLAGSTONE_CHECKPOINT_SECONDS: '" + std::string(given) +
                "' is no number of seconds; give 0 (at every opportunity) or more, or leave it unset.");
  return seconds;
}

bool worth_a_record(double seconds) { return seconds >= 0 && seconds >= worth * checkpoint_seconds(); }

double nominal_seconds(double flops, double bytes) { return flops / 1e11 + bytes / 1e9; }

Record::Record(const std::string& operation, const RecordArguments& arguments, RecordOptions options)
    : operation_(operation),
      text_(record_text(operation, arguments.text(), options.threads_per_task, "C++")),
      options_(std::move(options)) {}

Record Record::written(std::string operation, std::string text, RecordOptions options) {
  Record record;
  record.operation_ = std::move(operation);
  record.text_ = std::move(text);
  record.options_ = std::move(options);
  return record;
}

std::unique_ptr<Output> Record::output(const std::string& path, bool replace, std::uint64_t bytes_needed) {
  announce(path);
  if (!text_.empty()) drop_useless(path);
  auto output = std::make_unique<Output>(path, replace, bytes_needed, text_);
  if (text_.empty()) return output;
  register_output(options_.scratch, path);
  checkpoint_ = std::make_shared<Checkpoint>(output->notes(), checkpoint_seconds(), options_.saved);
  resumed_ = output->adopted();
  done_ = checkpoint_->done();
  return output;
}

void Record::build(const std::string& path, bool replace, const std::function<void(const Output&)>& fill,
                   std::uint64_t bytes_needed) {
  for (;;) {
    const std::unique_ptr<Output> output = this->output(path, replace, bytes_needed);
    const auto keep = [&] {
      if (checkpoint_ && checkpoint_->saves() > 0) output->leave();
    };
    try {
      fill(*output);
      return output->publish();
    } catch (const FormatError& error) {
      if (!names_a_build(error)) keep();
      if (!names_a_build(error) || !resumed_) throw;
      begin_again(path, error.what());  // without what goes now
    } catch (const std::exception& error) {
      if (passes(error)) keep();
      throw;
    } catch (...) {
      keep();
      throw;
    }
  }
}

/// Says, before it goes, what another operation had finished of the same output.
void Record::announce(const std::string& path) const {
  if (!options_.warn) return;
  for (const Leftover& one : leftovers_of(path))
    if (goes(one, text_)) {
      const std::string who = one.operation.empty() ? "an operation, whose record is damaged," : "a " + one.operation;
      options_.warn("'" + path + "': " + who + " that was " + per_cent(one.done) +
                    " done is thrown away, because this call is another one (other operands or options); write "
                    "elsewhere to keep it.");
    }
}

/// Removes what has our record and cannot be gone on with: no checkpoint yet, or a damaged one.
void Record::drop_useless(const std::string& path) const {
  for (const Leftover& one : leftovers_of(path)) {
    if (one.live || one.record != text_) continue;
    bool useless = true;
    try {
      useless = Checkpoint(one.notes, 0).saves() == 0;
    } catch (const FormatError& error) {
      begin_again(path, error.what());
    }
    if (useless) sweep_leftovers(one.path);
  }
}

void Record::begin_again(const std::string& path, const std::string& why) const {
  if (options_.warn) options_.warn("'" + path + "': it is begun again: " + why);
}

}  // namespace flagstone
