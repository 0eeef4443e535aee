// The same operation goes on with what a killed one had finished; another one throws it away, and says so.
#include "flagstone/storage/output/record.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "flagstone/base/version.hpp"
#include "flagstone/storage/file/build_name.hpp"
#include "flagstone/storage/file/stamp.hpp"
#include "flagstone/storage/file/text_file.hpp"
#include "flagstone/storage/output/leftovers.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

void save(Checkpoint& checkpoint, double done) {
  const int number = 7;
  checkpoint.save(done, {Checkpoint::part("number", &number, 1)});
}

void fill(const Output& output) {
  fs::create_directories(output.directory());
  std::ofstream(output.directory() + "/part") << "whole";
}

/// An operation of this record, in a process that is killed after `saves` checkpoints.
void die(Record record, const std::string& path, int saves) {
  const pid_t child = ::fork();
  if (child == 0) {
    const auto output = record.output(path, true);
    fs::create_directories(output->directory());
    for (int i = 1; i <= saves; ++i) save(*record.checkpoint(), 0.2 * i);
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
}

Record counting(int to, RecordOptions options = {}) {
  return Record("count", RecordArguments().value("to", to), std::move(options));
}

TEST(Record, IsTheTextThatPythonWrites) {
  EXPECT_EQ(record_text("matmul", R"({"a": {"path": "/a"}, "beta": [0.0, 0.0]})", 2),
            R"({"arguments": {"a": {"path": "/a"}, "beta": [0.0, 0.0]}, "format": 2, "operation": "matmul", )"
            R"("threads_per_task": 2, "version": ")" +
                std::string(version()) + "\"}");
  EXPECT_EQ(record_text("count", "{}", 1, {}, "cuda"),
            R"({"arguments": {}, "devices": "cuda", "format": 2, "operation": "count", "threads_per_task": 1, )"
            R"("version": ")" +
                std::string(version()) + "\"}");
  const Record ours = counting(3);
  EXPECT_EQ(ours.text(), R"({"arguments": {"to": 3}, "format": 2, "language": "C++", "operation": "count", )"
                         R"("threads_per_task": 1, "version": ")" +
                             std::string(version()) + "\"}");
}

TEST(Record, TellsArgumentsApart) {
  TemporaryDirectory top;
  std::ofstream(top / "x") << "one";
  const auto text = [&] {
    return RecordArguments()
        .file("x", top / "x")
        .value("name", "a \"b\" \xc3\xa9")
        .value("big", std::uint64_t{1} << 63)
        .value("share", 0.1)
        .value("yes", true)
        .text();
  };
  const std::string stamp = stored_stamp(top / "x");
  EXPECT_EQ(text(), R"({"big": 9223372036854775808, "name": "a \"b\" \u00e9", "share": 0.1, "x": {"path": ")" +
                        (top / "x") + R"(", "stamp": ")" + stamp + R"("}, "yes": true})");
  std::ofstream(top / "x") << "other";
  EXPECT_NE(stored_stamp(top / "x"), stamp);
}

TEST(Record, GoesOnWithWhatAKilledProcessSaved) {
  TemporaryDirectory top;
  die(counting(3), top / "c", 2);
  std::vector<std::string> warned;
  std::vector<int> saved;
  Record record = counting(3, {.warn = [&](const std::string& text) { warned.push_back(text); },
                               .saved = [&](int number) { saved.push_back(number); }});
  {
    const auto output = record.output(top / "c", true);
    EXPECT_TRUE(record.resumed());
    EXPECT_DOUBLE_EQ(record.done(), 0.4);
    EXPECT_EQ(record.checkpoint()->load<int>("number"), std::vector{7});
    save(*record.checkpoint(), 0.6);
    output->leave();
  }
  EXPECT_THAT(saved, ElementsAre(3));
  const auto left = leftovers_of(top / "c");
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].operation, "count");
  EXPECT_DOUBLE_EQ(left[0].done, 0.6);
  EXPECT_EQ(left[0].saves, 3);
  EXPECT_EQ(left[0].process, ::getpid());
  EXPECT_GE(left[0].age, 0);
  EXPECT_LT(left[0].age, 600);
  EXPECT_TRUE(left[0].resumable());
  EXPECT_TRUE(warned.empty());
}

TEST(Record, AnotherOperationThrowsItAwayAndSaysSo) {
  TemporaryDirectory top;
  die(counting(3), top / "c", 2);
  std::vector<std::string> warned;
  const auto warn = [&](const std::string& text) { warned.push_back(text); };
  Record record = counting(4, {.warn = warn});
  const auto output = record.output(top / "c", true);
  EXPECT_FALSE(record.resumed());
  EXPECT_THAT(warned, ElementsAre("'" + (top / "c") +
                                  "': a count that was 40% done is thrown away, because this call is another one "
                                  "(other operands or options); write elsewhere to keep it."));
  EXPECT_EQ(leftovers_of(top / "c").size(), 1u);
}

TEST(Record, WhatCannotBeGoneOnWithIsBegunAgain) {
  TemporaryDirectory top;
  std::vector<std::string> warned;
  const auto warn = [&](const std::string& text) { warned.push_back(text); };
  die(counting(3), top / "c", 0);  // no checkpoint
  {
    Record record = counting(3, {.warn = warn});
    const auto output = record.output(top / "c", true);
    EXPECT_FALSE(record.resumed());
  }
  EXPECT_TRUE(warned.empty());
  die(counting(3), top / "c", 1);
  const std::string state = leftovers_of(top / "c").at(0).notes + "/state";
  fs::resize_file(state, fs::file_size(state) - 1);
  Record record = counting(3, {.warn = warn});
  const auto output = record.output(top / "c", true);
  EXPECT_FALSE(record.resumed());
  EXPECT_THAT(warned, ElementsAre(HasSubstr("it is begun again: resume: " + state + " is damaged")));
}

TEST(Record, IsListedInScratchUntilItIsDone) {
  TemporaryDirectory top;
  const RecordOptions options{.scratch = top / "scratch"};
  die(counting(3, options), top / "c", 1);
  const auto listed = registered_outputs(top / "scratch");
  ASSERT_EQ(listed.size(), 1u);
  EXPECT_EQ(listed[0].path, top / "c");
  EXPECT_FALSE(listed[0].live);
  EXPECT_EQ(std::distance(fs::directory_iterator(top / "scratch/resume"), fs::directory_iterator{}), 1);
  counting(3, options).build(top / "c", true, fill);
  EXPECT_EQ(read_text(top / "c/part"), "whole");
  EXPECT_TRUE(registered_outputs(top / "scratch").empty());
  EXPECT_TRUE(fs::is_empty(top / "scratch/resume"));
  EXPECT_TRUE(registered_outputs(top / "nowhere").empty());
}

TEST(Record, AnErrorThatPassesLeavesWhatWasSaved) {
  TemporaryDirectory top;
  const auto failing = [&](const std::function<void(const Output&)>& fails, int saves) {
    Record record = counting(3);
    EXPECT_ANY_THROW(record.build(top / "c", true, [&](const Output& output) {
      fill(output);
      for (int i = 0; i < saves; ++i) save(*record.checkpoint(), 0.5);
      fails(output);
    }));
    const bool kept = !leftovers_of(top / "c").empty();
    sweep_leftovers(top / "c");
    return kept;
  };
  EXPECT_TRUE(failing([](const Output&) { throw StorageError("full", ENOSPC, "c"); }, 1));
  EXPECT_TRUE(failing([](const Output&) { throw BudgetError("small", 1); }, 1));
  EXPECT_TRUE(failing([](const Output&) { throw FormatError("a.zarr is damaged"); }, 1));
  EXPECT_TRUE(failing([](const Output&) { throw 7; }, 1));
  EXPECT_FALSE(failing([](const Output&) { throw StorageError("full", ENOSPC, "c"); }, 0));
  EXPECT_FALSE(failing([](const Output&) { throw NumericalError("NaN"); }, 1));
  EXPECT_FALSE(failing([](const Output& out) { throw FormatError(out.directory() + " is damaged"); }, 1));
}

TEST(Record, ADamagedBuildIsBegunAgainAtOnce) {
  TemporaryDirectory top;
  die(counting(3), top / "c", 2);
  std::vector<std::string> warned;
  Record record = counting(3, {.warn = [&](const std::string& text) { warned.push_back(text); }});
  int calls = 0;
  record.build(top / "c", true, [&](const Output& output) {
    ++calls;
    if (output.adopted()) throw FormatError(output.directory() + " is damaged");
    fill(output);
  });
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(read_text(top / "c/part"), "whole");
  EXPECT_THAT(warned, ElementsAre(HasSubstr("'" + (top / "c") + "': it is begun again: ")));
  EXPECT_FALSE(record.resumed());
}

TEST(Record, WithoutATextNothingIsKept) {
  TemporaryDirectory top;
  Record record = Record::written("count", "", {.scratch = top / "scratch"});
  const auto output = record.output(top / "c", true);
  EXPECT_EQ(record.checkpoint(), nullptr);
  EXPECT_FALSE(path_exists(output->notes()));
  EXPECT_FALSE(path_exists(top / "scratch"));
}

TEST(Record, SecondsBetweenCheckpoints) {
  const auto with = [](const char* given) {
    ::setenv("FLAGSTONE_CHECKPOINT_SECONDS", given, 1);
    const double seconds = checkpoint_seconds();
    ::unsetenv("FLAGSTONE_CHECKPOINT_SECONDS");
    return seconds;
  };
  EXPECT_EQ(checkpoint_seconds(), 30);
  EXPECT_EQ(with("0"), 0);
  EXPECT_EQ(with("2.5"), 2.5);
  EXPECT_EQ(with(""), 30);
  for (const char* bad : {"-1", "x", "nan", "inf", "3 s"}) EXPECT_THROW(with(bad), Error) << bad;
  ::unsetenv("FLAGSTONE_CHECKPOINT_SECONDS");
  EXPECT_TRUE(worth_a_record(10));
  EXPECT_FALSE(worth_a_record(9.9));
  EXPECT_FALSE(worth_a_record(-1));
  EXPECT_EQ(nominal_seconds(2e11, 3e9), 5);
}

}  // namespace
}  // namespace flagstone
