// The server's time, passed to its users so that a test can hold and move it.

#ifndef BATCHPLAN_SERVER_BASE_CLOCK_H_
#define BATCHPLAN_SERVER_BASE_CLOCK_H_

#include <chrono>
#include <functional>

namespace batchplan {

using Instant = std::chrono::steady_clock::time_point;

// Never goes back. Called from any thread.
using Clock = std::function<Instant()>;

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_BASE_CLOCK_H_
