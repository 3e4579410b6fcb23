// How a command ends: its text on stdout or an error on stderr, and an exit code that scripts build
// on; the help text states the codes.

#ifndef BATCHPLAN_CLIENT_CLI_OUTPUT_OUTCOME_H_
#define BATCHPLAN_CLIENT_CLI_OUTPUT_OUTCOME_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace batchplan::cli {

enum class ExitCode : int {
  kOk = 0,
  // The request was refused, or an input could not be read.
  kFailed = 1,
  // The command line is wrong.
  kUsage = 2,
  // The server could not be reached, or time ran out.
  kUnavailable = 3,
  // The plan breaks a promise.
  kVerificationFailed = 4,
};

// kUnavailable for Unavailable and DeadlineExceeded, kFailed for every other error.
ExitCode ExitCodeFor(const absl::Status& status);

// An error for people: its message, behind the code's name where that tells more than the message
// does.
std::string Explain(const absl::Status& status);

// Writes "batchplan: <command>: <explanation>" to stderr and returns ExitCodeFor(status). Writes
// nothing for OK.
ExitCode ReportError(const char* command, const absl::Status& status);

// Writes `text` to stderr, what a terminal would take for a command escaped: names of files, and
// what stands in them or comes from a server, may hold anything.
void WriteToStderr(absl::string_view text);

// Writes all of `data` to stdout, now. DataLoss if that fails, for example on a full disk.
absl::Status WriteToStdout(absl::string_view data);

// Writes `text` to stdout; or reports why there is none, or why it could not be written.
ExitCode PrintOrReport(const char* command, const absl::StatusOr<std::string>& text);

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_OUTPUT_OUTCOME_H_
