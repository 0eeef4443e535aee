#pragma once
// For tests: processes that die at a step of a commit.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "flagstone/storage/zarr/shard/commit_journal.hpp"

namespace flagstone::test {

inline int steps_left = 0;
inline std::string deadly_step;

/// Runs `body` in a child in which `on_step` looks at every step of a commit: whether it returned. Else it died there.
template <class Body>
bool returns_with(void (*on_step)(const char*), Body&& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    commit_step = on_step;
    try {
      body();
    } catch (...) {
      ::_exit(1);
    }
    ::_exit(0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 9)) << status;
  return status == 0;
}

template <class Body>
bool returns_before_step(int number, Body&& body) {
  steps_left = number;
  return returns_with(
      [](const char*) {
        if (steps_left-- == 0) ::_exit(9);
      },
      body);
}

template <class Body>
bool returns_before_step(const std::string& name, Body&& body) {
  deadly_step = name;
  return returns_with(
      [](const char* what) {
        if (what == deadly_step) ::_exit(9);
      },
      body);
}

}  // namespace flagstone::test
