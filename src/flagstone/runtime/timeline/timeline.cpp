#include "flagstone/runtime/timeline/timeline.hpp"

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <utility>

#include "flagstone/base/error.hpp"

namespace flagstone {
namespace {

std::mutex active_mutex;
std::shared_ptr<Timeline> active_timeline;

/// A JSON string's inside.
std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    if (c == '"' || c == '\\') safe += '\\';
    safe += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return safe;
}

[[gnu::format(printf, 1, 2)]] std::string formatted(const char* format, ...) {
  std::va_list values, again;
  va_start(values, format);
  va_copy(again, values);
  std::string text(static_cast<std::size_t>(std::vsnprintf(nullptr, 0, format, values)), '\0');
  std::vsnprintf(text.data(), text.size() + 1, format, again);
  va_end(again);
  va_end(values);
  return text;
}

std::string arguments(std::string_view about, std::uint64_t bytes) {
  std::string text;
  if (!about.empty()) text.append("\"about\":\"").append(escaped(about)).append("\"");
  if (bytes && !text.empty()) text += ',';
  if (bytes) text += formatted("\"bytes\":%llu", static_cast<unsigned long long>(bytes));
  return ",\"args\":{" + text + "}";
}

std::string naming(const char* what, int run, int row, std::string_view name) {
  return formatted(R"({"name":"%s","ph":"M","pid":%d,"tid":%d,"args":{"name":"%s"}},)", what, run, row,
                   escaped(name).c_str());
}

}  // namespace

Timeline::Timeline(const std::string& path, bool overwrite) : path_(path) {
  if (overwrite && ::unlink(path.c_str()) && errno != ENOENT)
    throw StorageError("timeline: what is there cannot be replaced", errno, path);
  file_ = File::open(path, File::Mode::create);
  buffer_.reserve(memory_bytes);
  add("[");
}

Timeline::~Timeline() {
  try {
    close();
  } catch (const Error&) {  // close() says it to whoever asks
  }
}

std::shared_ptr<Timeline> Timeline::active() {
  const std::lock_guard lock(active_mutex);
  // A process that was forked has the pointer, and the file is its parent's.
  return active_timeline && active_timeline->process_ == ::getpid() ? active_timeline : nullptr;
}

void Timeline::activate(std::shared_ptr<Timeline> timeline) {
  const std::lock_guard lock(active_mutex);
  if (timeline && active_timeline && active_timeline->process_ == ::getpid())
    throw Error("timeline: '" + active_timeline->path() + "' is being written; one at a time, end it first.");
  active_timeline = std::move(timeline);
}

double Timeline::microseconds(Clock::time_point at) const {
  return std::chrono::duration<double, std::micro>(at - start_).count();
}

int Timeline::begin_run(std::string_view who, int workers) {
  const std::lock_guard lock(mutex_);
  const int run = ++runs_;
  add(naming("process_name", run, 0, "run " + std::to_string(run) + (who.empty() ? "" : ": " + std::string(who))));
  for (int i = 0; i < workers; ++i) add(naming("thread_name", run, i, "worker " + std::to_string(i)));
  return run;
}

void Timeline::name_row(int run, int row, std::string_view name) {
  const std::lock_guard lock(mutex_);
  add(naming("thread_name", run, row, name));
}

void Timeline::span(int run, int row, std::string_view kind, std::string_view name, Clock::time_point began,
                    Clock::time_point ended, std::string_view about, std::uint64_t bytes) {
  const std::string line = formatted(R"({"name":"%s","cat":"%s","ph":"X","pid":%d,"tid":%d,"ts":%.3f,"dur":%.3f%s},)",
                                     escaped(name).c_str(), escaped(kind).c_str(), run, row, microseconds(began),
                                     microseconds(ended) - microseconds(began), arguments(about, bytes).c_str());
  const std::lock_guard lock(mutex_);
  add(line);
}

void Timeline::mark(int run, int row, std::string_view kind, std::string_view name, std::string_view about,
                    std::uint64_t bytes) {
  const std::string line =
      formatted(R"({"name":"%s","cat":"%s","ph":"i","s":"t","pid":%d,"tid":%d,"ts":%.3f%s},)", escaped(name).c_str(),
                escaped(kind).c_str(), run, row, microseconds(Clock::now()), arguments(about, bytes).c_str());
  const std::lock_guard lock(mutex_);
  add(line);
}

void Timeline::memory(int run, std::uint64_t used, std::uint64_t capacity) {
  const auto now = Clock::now();
  const std::lock_guard lock(mutex_);
  if (now - memory_told_ < std::chrono::milliseconds(1)) return;
  memory_told_ = now;
  add(formatted(R"({"name":"memory","ph":"C","pid":%d,"ts":%.3f,"args":{"used":%llu,"free":%llu}},)", run,
                microseconds(now), static_cast<unsigned long long>(used),
                static_cast<unsigned long long>(capacity > used ? capacity - used : 0)));
}

/// A line; of a failed or closed file nothing.
void Timeline::add(std::string_view line) {
  if (!file_ || failed_) return;
  if (buffer_.size() + line.size() + 1 > memory_bytes) write();
  buffer_.insert(buffer_.end(), line.begin(), line.end());
  buffer_.push_back('\n');
}

void Timeline::write() {
  try {
    if (!failed_) write_exactly(file_->buffered(), *file_, buffer_.data(), buffer_.size(), at_);
    at_ += buffer_.size();
  } catch (const StorageError& error) {
    failed_ = error.number;  // the run goes on; close() says it
  }
  buffer_.clear();
}

void Timeline::close() {
  const std::lock_guard lock(mutex_);
  if (!file_) return;
  if (process_ != ::getpid()) return file_.reset();
  const double now = microseconds(Clock::now());
  add(formatted(R"({"name":"end","ph":"M","pid":0,"tid":0,"ts":%.3f,"args":{}})", now));
  add("]");
  write();
  file_.reset();
  if (failed_) throw StorageError("timeline: not all of it could be written", failed_, path_);
}

}  // namespace flagstone
