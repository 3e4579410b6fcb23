// Work without Python's lock, also while Python ends.
//
//   {
//     const Unlocked unlocked;
//     ...  // nothing of Python's
//   }
//
// In place of nanobind's guard. When Python ends it kills every thread that wants its lock back, by
// unwinding the thread's frames; from C++ that aborts the process, after a job that was done. So
// before that, from atexit, all work here is told to stop and awaited: what it plans for is over.
// Threads whose work goes on for more than 2 s are never given back to Python.

#ifndef BATCHPLAN_CLIENT_PYTHON_CORE_UNLOCKED_H_
#define BATCHPLAN_CLIENT_PYTHON_CORE_UNLOCKED_H_

#include <nanobind/nanobind.h>

#include <list>
#include <stop_token>

namespace batchplan::python {

// Python's lock is released as long as this lives; the caller has it before and after.
class Unlocked {
 public:
  // `stop` is requested when Python ends.
  explicit Unlocked(std::stop_source stop = std::stop_source(std::nostopstate));
  // Does not return if Python has given up the thread.
  ~Unlocked();

  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  // Null where the lock was kept: Python ends, and this is another thread than that which ends it.
  PyThreadState* thread_ = nullptr;
  // Among those at work; none of the thread that ends Python.
  std::list<std::stop_source>::iterator place_;
  bool counted_ = false;
};

// Whether Python ends, and this is another thread than that which ends it. Needs Python's lock.
bool PythonEnds();

// Tells Python to call what it must at its end and before a fork, and the system what every child
// of a fork must. Once, when the module is made.
void WatchPythonsEnd();

}  // namespace batchplan::python

#endif  // BATCHPLAN_CLIENT_PYTHON_CORE_UNLOCKED_H_
