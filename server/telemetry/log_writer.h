// The thread that writes a process's log lines.
//
//   WriteLogLine(std::move(line));    // from any thread, at any time
//   FlushLog(absl::Seconds(1));       // before the process ends
//
// Lines wait in a queue of kMaxQueuedLogBytes, so that a caller never waits for the reader of
// standard error. A line that finds no room is dropped and counted; once there is room again, a
// line says how many were dropped. Lines are written in the order in which they were queued: one
// after a pause at once, those that come within the next millisecond together.

#ifndef BATCHPLAN_SERVER_TELEMETRY_LOG_WRITER_H_
#define BATCHPLAN_SERVER_TELEMETRY_LOG_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace batchplan {

// Room for about ten thousand lines.
inline constexpr size_t kMaxQueuedLogBytes = 4 << 20;

// Queues `line`, which ends in a newline. The first call starts the writing thread, which blocks
// all signals and lives as long as the process.
void WriteLogLine(const std::string& line);

// Waits up to `longest` until the lines queued so far are written; returns whether they are.
// Neither locks nor allocates, so that a signal handler may call it.
bool FlushLog(absl::Duration longest);

// Counted from the start of the process.
uint64_t DroppedLogLines();

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_TELEMETRY_LOG_WRITER_H_
