// The command line as a whole: how its flags may be written, and what is wrong with one.

#ifndef BATCHPLAN_CLIENT_CLI_INPUT_COMMAND_LINE_H_
#define BATCHPLAN_CLIENT_CLI_INPUT_COMMAND_LINE_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace batchplan::cli {

// The arguments behind the program's name, with dashes in the name of a flag, as in --max-sequences
// or --max-sequences=8, as underscores if `app` or one of its commands has that flag. Behind -- all
// are left as they are.
std::vector<std::string> ReadArguments(int argc, char** argv, const CLI::App& app);

// What `app` could not parse, for people. A flag or a command that is unknown comes before `error`,
// which may follow from it, with the one that was probably meant.
std::string WhatIsWrong(const CLI::App& app, const CLI::ParseError& error);

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_INPUT_COMMAND_LINE_H_
