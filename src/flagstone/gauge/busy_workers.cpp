#include "flagstone/gauge/busy_workers.hpp"

#include <malloc.h>
#include <time.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "flagstone/base/thread.hpp"

namespace flagstone::gauge {
namespace {

double elapsed_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double busy_now() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

Rate run_on_all(const Work& work, double units, const std::function<std::function<void()>()>& prepare) {
  const int workers = std::max(1, work.workers);
  std::barrier ready(workers);
  std::mutex mutex;
  std::exception_ptr error;
  Rate sum;
  const auto one = [&] {
    std::function<void()> body;
    try {
      body = prepare();
      body();
    } catch (...) {
      std::lock_guard lock(mutex);
      error = std::current_exception();
    }
    ready.arrive_and_wait();
    if (!body) return;
    const double start = elapsed_now(), busy_start = busy_now();
    double calls = 0;
    do body(), ++calls;
    while (elapsed_now() - start < work.seconds);
    const double elapsed = elapsed_now() - start, busy = busy_now() - busy_start;
    std::lock_guard lock(mutex);
    sum.elapsed += calls * units / elapsed;
    sum.busy += calls * units / std::max(busy, 1e-9);
  };
  std::vector<std::thread> threads;
  for (int i = 1; i < workers; ++i) threads.push_back(start_thread(one));
  one();
  for (std::thread& thread : threads) thread.join();
#ifdef __GLIBC__
  ::malloc_trim(0);  // a plan at a tight limit follows the probe: what it freed must not count against it
#endif
  if (error) std::rethrow_exception(error);
  return {sum.elapsed / workers, sum.busy / workers};
}

}  // namespace flagstone::gauge
