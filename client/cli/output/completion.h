// What a shell needs to complete a command line of the program.

#ifndef BATCHPLAN_CLIENT_CLI_OUTPUT_COMPLETION_H_
#define BATCHPLAN_CLIENT_CLI_OUTPUT_COMPLETION_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace batchplan::cli {

// bash, zsh, fish.
std::vector<std::string> Shells();

// A script for `shell`, one of Shells(), that completes the commands of `app`, their flags, the
// words that these take (Choices) and names of files. It knows what `app` has, and runs nothing.
std::string CompletionScript(const CLI::App& app, const std::string& shell);

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_OUTPUT_COMPLETION_H_
