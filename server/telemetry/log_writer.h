// The thread that writes a process's log lines.
//
//   WriteLogLine(std::move(line));    // from any thread, at any time
//   FlushLog(absl::Seconds(1));       // before the process ends
//
// Lines wait in a queue of kMaxQueuedLogBytes: who logs never waits for whoever reads standard
// error. A line that finds no room is dropped and counted; once there is room again a line
// says how many were. Lines come out in the order in which they went in.

#ifndef BATCHPLAN_SERVER_TELEMETRY_LOG_WRITER_H_
#define BATCHPLAN_SERVER_TELEMETRY_LOG_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace batchplan {

// Some ten thousand lines.
inline constexpr size_t kMaxQueuedLogBytes = 4 << 20;

// Has `line`, which ends in a newline, written to standard error. The first one starts the thread,
// which takes no signals and lives as long as the process.
void WriteLogLine(const std::string& line);

// Waits until the lines of now are written, at most so long; whether they are. Takes no lock and no
// memory, so that a signal handler may call it.
bool FlushLog(absl::Duration longest);

// Since the process began.
uint64_t DroppedLogLines();

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_TELEMETRY_LOG_WRITER_H_
