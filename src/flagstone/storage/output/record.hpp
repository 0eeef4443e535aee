#pragma once
// Records of long operations: who they are, so that the same one goes on with what a killed process had finished.
#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>

#include "flagstone/storage/output/checkpoint.hpp"
#include "flagstone/storage/output/output.hpp"

namespace flagstone {

/// Everything that decides the bits of an operation, by name: values, and stored operands as they are now. Limits and
/// workers are not among them.
class RecordArguments {
 public:
  RecordArguments& value(const std::string& name, const std::string& text);
  RecordArguments& value(const std::string& name, double number);
  template <std::integral T>
  RecordArguments& value(const std::string& name, T number) {
    if constexpr (std::is_same_v<T, bool>) return set(name, number ? "true" : "false");
    return set(name, std::to_string(number));
  }
  /// A stored operand: where it is, and what tells it from a later version of itself (inode, size, times).
  RecordArguments& file(const std::string& name, const std::string& path);
  /// As a JSON object.
  std::string text() const;

 private:
  RecordArguments& set(const std::string& name, std::string json);
  std::map<std::string, std::string> members_;  // as JSON
};

struct RecordOptions {
  int threads_per_task = 1;  // of the Runtime: it decides bits
  /// A scratch directory, whose list of outputs that are being built `flagstone scratch` shows; empty: it shows none.
  std::string scratch;
  std::function<void(const std::string&)> warn;  // hears, in a sentence, of progress that is thrown away
  std::function<void(int)> saved;                // hears of every checkpoint, with its number
};

/// The record of one operation, and its checkpoints once its output is open. An output that the same operation had
/// begun in a process that died is gone on with; what another one had finished of it is thrown away.
///
/// The record is JSON: {"arguments": {...}, "format": 2, "language": "C++", "operation": ..., "threads_per_task": ...,
/// "version": ...}. Two are the same to the byte or not at all. Python's have no language: `fl.resume` makes their call
/// again, and says of others that their program must be started again.
class Record {
 public:
  Record(const std::string& operation, const RecordArguments& arguments, RecordOptions options = {});
  /// One that was written elsewhere; an empty text: of an operation that begins again when its process dies.
  static Record written(std::string operation, std::string text, RecordOptions options);

  /// Opens the output, with what a killed process had built; as Output's constructor. From then on there are
  /// checkpoints, at least checkpoint_seconds() apart.
  std::unique_ptr<Output> output(const std::string& path, bool replace, std::uint64_t bytes_needed = 0);
  /// Opens the output, lets `fill` write what is missing of it, and publishes it. Where that fails in a way that passes
  /// (a full disk, a limit that is too small, a damaged operand), what was saved stays for the next process;
  /// what a dead process had built and is damaged goes, and `fill` is called once more, without it.
  void build(const std::string& path, bool replace, const std::function<void(const Output&)>& fill,
             std::uint64_t bytes_needed = 0);

  /// For Stages: null before there is an output.
  const std::shared_ptr<Checkpoint>& checkpoint() const { return checkpoint_; }
  /// Whether the output holds what a dead process had built, and how much of all the work that was, between 0 and 1.
  bool resumed() const { return resumed_; }
  double done() const { return done_; }
  const std::string& operation() const { return operation_; }
  const std::string& text() const { return text_; }
  /// Says that what was left of an output is damaged.
  void begin_again(const std::string& path, const std::string& why) const;

 private:
  Record() = default;
  void announce(const std::string& path) const;
  void drop_useless(const std::string& path) const;

  std::string operation_, text_;
  RecordOptions options_;
  std::shared_ptr<Checkpoint> checkpoint_;
  bool resumed_ = false;
  double done_ = 0;
};

inline constexpr int record_format = 2;  // operands are opened again by name
/// The text of a record whose arguments are a JSON object. `language`: whose program makes the call again; empty: it
/// can be made from the record. `devices`: kinds of memories beside the host's, which decide bits; empty: none.
std::string record_text(const std::string& operation, const std::string& arguments, int threads_per_task,
                        const std::string& language = {}, const std::string& devices = {});
/// Least seconds between two checkpoints: $FLAGSTONE_CHECKPOINT_SECONDS, else 30; 0: every opportunity is taken.
double checkpoint_seconds();
/// For operations of this thread from now on; none: as the environment has it.
void set_checkpoint_seconds(std::optional<double> seconds);
/// Whether an operation that takes about so long has a record: beginning a short one again costs less.
bool worth_a_record(double seconds);
/// About how long work takes, on one nominal machine: only for worth_a_record().
double nominal_seconds(double flops, double bytes);

}  // namespace flagstone
