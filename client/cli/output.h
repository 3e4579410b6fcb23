// Data for stdout.

#ifndef BATCHPLAN_CLIENT_CLI_OUTPUT_H_
#define BATCHPLAN_CLIENT_CLI_OUTPUT_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace batchplan::cli {

// Writes all of `data` to stdout, now. DataLoss if that fails, for example on a full disk.
absl::Status WriteToStdout(absl::string_view data);

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_OUTPUT_H_
