#pragma once
// Threads of the library never see the user's signals: Ctrl-C belongs to the thread that called.
#include <pthread.h>

#include <csignal>

namespace flagstone {

/// All signals are blocked while it lives, so that threads that are started meanwhile inherit that.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace flagstone
