// Tasks whose bodies are Python functions. The lock is taken around the call only: functions that let go of it (NumPy's
// own loops, Numba with nogil=True) run on all workers at once.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <numeric>
#include <optional>
#include <set>

#include "bindings/core/bindings.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/base/grid.hpp"
#include "flagstone/base/memory.hpp"

namespace flagstone::python {
namespace {

/// What a view of a tile holds. A view that outlives its task keeps its pages mapped: reading it is never an accident.
struct Lease {
  Array array;  // of an array in memory: keeps that alive
  const std::byte* data;
  std::shared_ptr<std::atomic<int>> alive;
  std::atomic<bool> kept = false;

  ~Lease() {
    --*alive;
    if (kept) release_pages(data);
  }
};

class Interruptible;

/// Threads that are inside a task's function now. Guarded by Python's lock.
std::vector<Interruptible*>& inside_tasks() {
  static auto* threads = new std::vector<Interruptible*>;
  return *threads;
}

/// As long as it lives interrupt_tasks() reaches this thread.
class Interruptible {
 public:
  Interruptible() { inside_tasks().push_back(this); }
  ~Interruptible() {
    auto& threads = inside_tasks();
    threads.erase(std::find(threads.begin(), threads.end(), this));
    if (interrupted_) take_late_one();
  }
  Interruptible(const Interruptible&) = delete;

  unsigned long thread() const { return thread_; }
  void interrupt() {
    interrupted_ = true;
    PyThreadState_SetAsyncExc(thread_, PyExc_KeyboardInterrupt);
  }

 private:
  /// An exception that came when the function had ended is for nobody. It must be raised: taken back, as by
  /// PyThreadState_SetAsyncExc with nothing, it leaves the interpreter looking for it at every step, and for ever where
  /// a tracer or profiler runs (CPython 3.11).
  static void take_late_one() {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject* names = PyDict_New();
    PyObject* done = names ? PyRun_String("None", Py_eval_input, names, names) : nullptr;
    if (!done) PyErr_Clear();
    Py_XDECREF(done);
    Py_XDECREF(names);
    PyErr_Restore(type, value, trace);
  }

  bool interrupted_ = false;
  const unsigned long thread_ = PyThread_get_thread_ident();
};

/// The interpreter's state of a worker, kept until the thread ends: made anew for every call, it is an allocation of
/// some structures and a mapping of 16 KiB for frames.
class ThreadState {
 public:
  ThreadState() : held_(PyGILState_Ensure()), state_(PyEval_SaveThread()) {}
  ~ThreadState() {
    if (!Py_IsInitialized()) return;
    PyEval_RestoreThread(state_);
    PyGILState_Release(held_);
  }
  ThreadState(const ThreadState&) = delete;

  /// For a thread that Python did not start.
  static void keep() {
    static thread_local std::unique_ptr<ThreadState> kept;
    if (!kept && !PyGILState_GetThisThreadState()) kept = std::make_unique<ThreadState>();
  }

 private:
  const PyGILState_STATE held_;
  PyThreadState* const state_;
};

struct PythonTask {
  nb::object function;
  std::vector<Access> accesses;
  std::optional<Shape> start;  // of a block: what the function gets before its views
};

/// Tasks in program order. Bodies refer to them by number, so that no worker drops a reference to a Python object.
struct TaskList {
  std::vector<PythonTask> tasks;
};

nb::object view_of(const Access& access, const Tile& tile, const std::shared_ptr<std::atomic<int>>& alive,
                   std::vector<Lease*>& leases) {
  ++*alive;
  auto* lease = new Lease{access.region.array, tile.data, alive};
  leases.push_back(lease);
  const nb::capsule owner(lease, [](void* held) noexcept { delete static_cast<Lease*>(held); });
  std::vector<std::size_t> shape(tile.shape.begin(), tile.shape.end());
  std::vector<std::int64_t> strides;
  const auto item = static_cast<Index>(size_of(tile.dtype));
  for (Index stride : tile.strides) strides.push_back(stride / item);
  const nb::dlpack::dtype dtype = dlpack_of(tile.dtype);
  if (access.mode == Mode::read)
    return nb::cast(nb::ndarray<nb::numpy, nb::ro>(tile.data, shape.size(), shape.data(), owner, strides.data(), dtype),
                    nb::rv_policy::reference);
  return nb::cast(nb::ndarray<nb::numpy>(tile.data, shape.size(), shape.data(), owner, strides.data(), dtype),
                  nb::rv_policy::reference);
}

Access access_of(const std::string& mode, const Array& array, const Shape& start, const Shape& shape) {
  const Region region{array, {start, shape}};
  if (mode == "read") return read(region);
  if (mode == "write") return write(region);
  if (mode == "update") return update(region);
  return reduce(region);
}

Job job_of(const std::shared_ptr<TaskList>& list, const std::string& name, double touches) {
  return {[list, name, touches](Graph& graph) {
    for (std::size_t i = 0; i < list->tasks.size(); ++i) {
      // Blocks of a map have their order; to look for a better one takes as long as the rest of a small task.
      graph.trust_order(list->tasks[i].start.has_value());
      TaskSpec spec;
      spec.name = name;
      spec.accesses = list->tasks[i].accesses;
      for (const Access& access : spec.accesses)
        if (access.mode != Mode::scratch)
          spec.cost.bytes_touched +=
              touches * static_cast<double>(count(access.region.box.shape)) * size_of(access.region.array.dtype());
      spec.body = [list = list.get(), i](std::span<const Tile> tiles) {
        const PythonTask& task = list->tasks[i];
        call_with_views(task.function, task.start ? &*task.start : nullptr, task.accesses, tiles);
      };
      graph.add(std::move(spec));
    }
  }};
}

/// An array, and whether its dimensions are seen reversed.
using Seen = std::pair<Array, bool>;

/// One task for each block of `shape`: it reads the block of every input and writes that of `target`; its function
/// allocates `scratch` bytes, and `each` for every element.
void add_blocks(TaskList& list, const nb::object& function, const std::vector<Seen>& inputs, const Seen& target,
                const Shape& shape, const Shape& block, std::size_t scratch_bytes, std::size_t each) {
  const auto region = [](const Seen& seen, Box box) -> Region {
    if (seen.second) {
      std::reverse(box.start.begin(), box.start.end());
      std::reverse(box.shape.begin(), box.shape.end());
    }
    return {seen.first, std::move(box)};
  };
  std::vector<std::size_t> order(shape.size());
  std::iota(order.begin(), order.end(), 0);
  // A block that no other task names is not kept for one that might: its memory is the next block's.
  std::set<decltype(target.first.id())> named{target.first.id()};
  bool apart = true;
  for (const Seen& input : inputs) apart &= named.insert(input.first.id()).second;
  for_each_box(whole(shape), block, order, [&](const Box& box) {
    PythonTask task{function, {}, box.start};
    task.accesses.reserve(inputs.size() + 2);
    for (const Seen& input : inputs) {
      task.accesses.push_back(read(region(input, box)));
      task.accesses.back().last = apart;
    }
    task.accesses.push_back(once(write(region(target, box))));
    const std::size_t bytes = scratch_bytes + each * static_cast<std::size_t>(count(box.shape));
    if (bytes > 0) task.accesses.push_back(scratch(bytes));
    list.tasks.push_back(std::move(task));
  });
}

}  // namespace

void call_with_views(const nb::object& function, const Shape* first, std::span<const Access> accesses,
                     std::span<const Tile> tiles) {
  ThreadState::keep();
  nb::gil_scoped_acquire lock;
  const auto alive = std::make_shared<std::atomic<int>>(0);
  std::vector<Lease*> leases;
  const auto keep = [&leases] {  // by those who still look, of whom there may be none
    for (Lease* lease : leases)
      if (!lease->kept.exchange(true)) keep_pages(lease->data);
  };
  {
    nb::list views;
    if (first) views.append(nb::cast(*first));
    for (std::size_t i = 0; i < tiles.size(); ++i)
      if (accesses[i].mode != Mode::scratch) views.append(view_of(accesses[i], tiles[i], alive, leases));
    try {
      const Interruptible now;
      function(*nb::tuple(views));
    } catch (nb::python_error&) {
      keep();  // the traceback holds the function's arguments
      throw;
    }
    keep();
  }
  if (*alive == 0) return;
  PyGC_Collect();  // views in cycles
  if (*alive != 0)
    throw Error(
        "graph: a task's function kept a view of its tile beyond its end; keep or return a copy (view.copy()).");
}

std::shared_ptr<nb::object> shared_object(nb::object object) {
  return {new nb::object(std::move(object)), [](nb::object* held) {
            if (!Py_IsInitialized()) return;
            const nb::gil_scoped_acquire lock;
            delete held;
          }};
}

bool inside_task() {
  const auto& threads = inside_tasks();
  const unsigned long here = PyThread_get_thread_ident();
  return std::any_of(threads.begin(), threads.end(), [here](const auto* one) { return one->thread() == here; });
}

void interrupt_tasks() {
  for (Interruptible* one : inside_tasks()) one->interrupt();
}

void bind_tasks(nb::module_& m) {
  nb::class_<TaskList>(m, "TaskList")
      .def(nb::init<>())
      .def("begin",
           [](TaskList& list, nb::object function) {
             list.tasks.push_back({std::move(function), {}, {}});
           })
      .def("access",
           [](TaskList& list, const std::string& mode, const Array& array, const Shape& start, const Shape& shape) {
             list.tasks.back().accesses.push_back(access_of(mode, array, start, shape));
           })
      .def("blocks", &add_blocks, nb::arg("function"), nb::arg("inputs"), nb::arg("target"), nb::arg("shape"),
           nb::arg("block"), nb::arg("scratch"), nb::arg("each"))
      // What tasks do with `from` they do with `to`, another handle of the same elements.
      .def("replace",
           [](TaskList& list, const Array& from, const Array& to) {
             for (PythonTask& task : list.tasks)
               for (Access& access : task.accesses)
                 if (access.mode != Mode::scratch && access.region.array.id() == from.id()) access.region.array = to;
           })
      .def("scratch", [](TaskList& list, std::size_t bytes) { list.tasks.back().accesses.push_back(scratch(bytes)); })
      .def("__len__", [](const TaskList& list) { return list.tasks.size(); })
      // The list lives as long as the job: its Python objects are dropped by whoever drops the job, with the lock.
      .def("job", [](nb::object self, const std::string& name, double touches) {
        auto* list = nb::cast<TaskList*>(self);
        return job_of(std::shared_ptr<TaskList>(shared_object(std::move(self)), list), name, touches);
      });
}

}  // namespace flagstone::python
