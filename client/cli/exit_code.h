// The exit codes of `batchplan`, which scripts build on; the help text states them.

#ifndef BATCHPLAN_CLIENT_CLI_EXIT_CODE_H_
#define BATCHPLAN_CLIENT_CLI_EXIT_CODE_H_

#include <string>

#include "absl/status/status.h"

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

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_EXIT_CODE_H_
