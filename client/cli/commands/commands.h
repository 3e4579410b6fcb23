// The subcommands of `batchplan`, each in the file of its name.
//
// Each function adds its command to `app`; when the command is given, app's parse runs it and sets
// `exit_code`, which must outlive the parse.

#ifndef BATCHPLAN_CLIENT_CLI_COMMANDS_COMMANDS_H_
#define BATCHPLAN_CLIENT_CLI_COMMANDS_COMMANDS_H_

#include <CLI/CLI.hpp>

#include "client/cli/output/outcome.h"

namespace batchplan::cli {

// Load on a server, and what it takes.
void AddBenchCommand(CLI::App* app, ExitCode* exit_code);

// One batch, planned by every algorithm.
void AddCompareCommand(CLI::App* app, ExitCode* exit_code);

// What a shell needs to complete a command line.
void AddCompletionCommand(CLI::App* app, ExitCode* exit_code);

// One worker's part of a collective plan, for trying it by hand and from scripts.
void AddJoinCommand(CLI::App* app, ExitCode* exit_code);

// Documents in, their lengths in tokens out.
void AddLengthsCommand(CLI::App* app, ExitCode* exit_code);

// Lengths or a whole request in, a plan out.
void AddPlanCommand(CLI::App* app, ExitCode* exit_code);

// One batch, planned at every combination of budget, DP and CP.
void AddSweepCommand(CLI::App* app, ExitCode* exit_code);

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_COMMANDS_COMMANDS_H_
