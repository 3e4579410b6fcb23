// `batchplan bench`: load on a server, and what it takes.

#ifndef BATCHPLAN_CLIENT_CLI_BENCH_COMMAND_H_
#define BATCHPLAN_CLIENT_CLI_BENCH_COMMAND_H_

#include <CLI/CLI.hpp>

#include "client/cli/exit_code.h"

namespace batchplan::cli {

// Adds the command to `app`; when it is given, app's parse runs it and sets `exit_code`, which must
// outlive the parse.
void AddBenchCommand(CLI::App* app, ExitCode* exit_code);

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_BENCH_COMMAND_H_
