// Plans in another thread than the caller's, which is kept for the next plan: to start one for each
// takes longer than a small plan.

#ifndef BATCHPLAN_CLIENT_PYTHON_CORE_KEPT_THREAD_H_
#define BATCHPLAN_CLIENT_PYTHON_CORE_KEPT_THREAD_H_

#include <functional>
#include <future>
#include <memory>

#include "client/python/core/planned.h"

namespace batchplan::python {

// Calls `make`. The thread takes no signals, which are for Python's main thread. Plans that are
// made at the same time have a thread each, of which one is kept. Throws std::system_error where
// the machine has no thread to spare.
std::future<std::shared_ptr<Planned>> PlanInThread(std::function<std::shared_ptr<Planned>()> make);

// Before a fork, about which Python warns where there are threads: ends the one that is kept, if it
// has no plan to make.
void EndKeptThread();

// In the child of a fork, Python's or not, which has none of its parent's threads.
void ForgetKeptThread();

}  // namespace batchplan::python

#endif  // BATCHPLAN_CLIENT_PYTHON_CORE_KEPT_THREAD_H_
