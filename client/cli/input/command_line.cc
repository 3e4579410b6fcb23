#include "client/cli/input/command_line.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/input/choice.h"

namespace batchplan::cli {
namespace {

std::vector<std::string> FlagsOf(const CLI::App& command) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back(absl::StrCat("--", name));
  }
  return flags;
}

std::vector<const CLI::App*> CommandsOf(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

// "there is no KIND "WORD"; did you mean ...?"
std::string Unknown(const char* kind, const std::string& word,
                    const std::vector<std::string>& known) {
  return absl::StrCat("there is no ", kind, " \"", word, "\"", DidYouMean(word, known));
}

// The first flag that `command` does not know; empty if it knows all.
std::string UnknownFlag(const CLI::App& command) {
  for (const std::string& argument : command.remaining()) {
    if (argument == "--") break;
    if (argument.size() > 1 && argument[0] == '-') return argument.substr(0, argument.find('='));
  }
  return "";
}

}  // namespace

std::vector<std::string> ReadArguments(int argc, char** argv, const CLI::App& app) {
  std::vector<std::string> flags = FlagsOf(app);
  for (const CLI::App* command : CommandsOf(app)) {
    const std::vector<std::string> own = FlagsOf(*command);
    flags.insert(flags.end(), own.begin(), own.end());
  }
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  for (std::string& argument : arguments) {
    if (argument == "--") break;
    if (!absl::StartsWith(argument, "--")) continue;
    const size_t end = std::min(argument.find('='), argument.size());
    std::string flag = argument.substr(0, end);
    std::replace(flag.begin() + 2, flag.end(), '-', '_');
    if (std::ranges::find(flags, flag) != flags.end()) argument.replace(0, end, flag);
  }
  return arguments;
}

std::string WhatIsWrong(const CLI::App& app, const CLI::ParseError& error) {
  for (const CLI::App* parsed : app.get_subcommands()) {
    if (const std::string flag = UnknownFlag(*parsed); !flag.empty()) {
      return Unknown("option", flag, FlagsOf(*parsed));
    }
  }
  if (const std::string flag = UnknownFlag(app); !flag.empty()) {
    return Unknown("option", flag, FlagsOf(app));
  }
  if (app.get_subcommands().empty() && !app.remaining().empty()) {
    const std::vector<const CLI::App*> known = CommandsOf(app);
    std::vector<std::string> commands;
    commands.reserve(known.size());
    for (const CLI::App* command : known) commands.push_back(command->get_name());
    return Unknown("command", app.remaining()[0], commands);
  }
  return error.what();
}

}  // namespace batchplan::cli
