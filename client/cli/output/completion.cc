#include "client/cli/output/completion.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "client/cli/input/choice.h"

namespace batchplan::cli {
namespace {

// How a value is completed.
struct Value {
  // Empty for a switch, which has no value.
  std::string name;
  std::vector<std::string> choices;
  bool is_file = false;
};

struct Flag {
  // With the leading dashes.
  std::string name;
  std::string description;
  Value value;
};

struct Command {
  // Empty for the program itself.
  std::string name;
  std::string description;
  std::vector<Flag> flags;
  // The positional argument; like a switch's value if there is none.
  Value argument;
};

// The part of a description that fits beside a flag: without choices, remarks and default.
std::string InShort(const std::string& description) {
  const std::string first = description.substr(0, description.find_first_of(":;["));
  return std::string(absl::StripSuffix(first, " "));
}

Command ReadCommand(const CLI::App& app, const std::string& name) {
  Command command = {
      .name = name, .description = InShort(app.get_description()), .flags = {}, .argument = {}};
  for (const CLI::Option* option : app.get_options()) {
    Value value;
    if (option->get_items_expected_max() > 0) {
      value.name = ValueName(*option);
      value.choices = Choices(*option);
      value.is_file = value.name == "FILE";
    }
    if (option->get_positional()) {
      value.name = option->get_name();
      value.is_file = value.choices.empty();
      command.argument = value;
    }
    for (const std::string& flag : option->get_lnames()) {
      command.flags.push_back(
          {absl::StrCat("--", flag), InShort(option->get_description()), value});
    }
  }
  return command;
}

std::vector<Command> ReadCommands(const CLI::App& app) {
  const std::vector<const CLI::App*> apps =
      app.get_subcommands([](const CLI::App*) { return true; });
  std::vector<Command> commands;
  commands.reserve(apps.size());
  for (const CLI::App* command : apps) {
    commands.push_back(ReadCommand(*command, command->get_name()));
  }
  return commands;
}

// Quotes for bash and zsh.
std::string ShellQuoted(absl::string_view text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

std::string Names(const std::vector<Flag>& flags) {
  return absl::StrJoin(flags, " ",
                       [](std::string* text, const Flag& flag) { text->append(flag.name); });
}

constexpr char kBashBegin[] =
    R"(# Completes `batchplan` in bash; `batchplan completion bash` prints it.
_batchplan() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
  local command= words= files=
  # Bash takes --flag=value for three words.
  if [[ $current == = ]]; then
    current=
  elif [[ $previous == = ]]; then
    previous=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  # Dashes are as good as underscores.
  if [[ $current == --* ]]; then current=${current:2} current=--${current//-/_}; fi
  if [[ $previous == --* ]]; then previous=${previous:2} previous=--${previous//-/_}; fi
  if ((COMP_CWORD > 1)); then command=${COMP_WORDS[1]}; fi
  case "$command $previous" in
)";

constexpr char kBashEnd[] = R"(      esac
      ;;
  esac
  local IFS=$' \t\n'
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  if [[ $files && $current != -* ]]; then
    IFS=$'\n'
    COMPREPLY+=($(compgen -f -- "$current"))
    compopt -o filenames 2> /dev/null
  fi
}
complete -F _batchplan batchplan
)";

// "words='...'", or that files are names, or that nothing completes it.
std::string BashWords(const Value& value) {
  if (value.is_file) return "files=1";
  return absl::StrCat("words=", ShellQuoted(absl::StrJoin(value.choices, " ")));
}

// A case of a command: its flags and arguments.
std::string BashCommand(const Command& command) {
  return absl::StrCat(
      "        ", command.name, ")\n          words=",
      ShellQuoted(absl::StrCat(Names(command.flags), command.argument.choices.empty() ? "" : " ",
                               absl::StrJoin(command.argument.choices, " "))),
      command.argument.is_file ? " files=1" : "", "\n          ;;\n");
}

std::string BashScript(const Command& program, const std::vector<Command>& commands) {
  std::string script = kBashBegin;
  std::vector<std::string> words = {Names(program.flags)};
  words.reserve(commands.size() + 1);
  for (const Command& command : commands) {
    words.push_back(command.name);
    for (const Flag& flag : command.flags) {
      if (flag.value.name.empty()) continue;
      absl::StrAppend(&script, "    '", command.name, " ", flag.name, "') ", BashWords(flag.value),
                      " ;;\n");
    }
  }
  absl::StrAppend(&script, "    *)\n      case $command in\n        '') words=",
                  ShellQuoted(absl::StrJoin(words, " ")), " ;;\n");
  for (const Command& command : commands) absl::StrAppend(&script, BashCommand(command));
  return absl::StrCat(script, kBashEnd);
}

// ":NAME:(words)": what _arguments says and offers.
std::string ZshValue(const Value& value) {
  return absl::StrCat(":", absl::StrReplaceAll(value.name, {{":", "\\:"}}), ":",
                      value.is_file ? "_files"
                      : value.choices.empty()
                          ? " "
                          : absl::StrCat("(", absl::StrJoin(value.choices, " "), ")"));
}

std::string ZshScript(const Command& program, const std::vector<Command>& commands) {
  const auto arguments = [](const Command& command) {
    std::string text = "_arguments";
    for (const Flag& flag : command.flags) {
      const bool has_value = !flag.value.name.empty();
      absl::StrAppend(
          &text, " \\\n        ",
          ShellQuoted(absl::StrCat(flag.name, has_value ? "=" : "", "[", flag.description, "]",
                                   has_value ? ZshValue(flag.value) : "")));
    }
    if (!command.argument.name.empty()) {
      absl::StrAppend(&text, " \\\n        ",
                      ShellQuoted(absl::StrCat("*", ZshValue(command.argument))));
    }
    return absl::StrCat(text, "\n");
  };
  std::string script = R"(#compdef batchplan
# Completes `batchplan` in zsh; `batchplan completion zsh` prints it.
_batchplan() {
  if ((CURRENT == 2)); then
    local -a commands=(
)";
  for (const Command& command : commands) {
    absl::StrAppend(&script, "      ",
                    ShellQuoted(absl::StrCat(command.name, ":", command.description)), "\n");
  }
  absl::StrAppend(&script, "    )\n    _describe command commands\n    ", arguments(program),
                  "    return\n  fi\n  shift words\n  ((CURRENT--))\n  case $words[1] in\n");
  for (const Command& command : commands) {
    absl::StrAppend(&script, "    ", command.name, ")\n      ", arguments(command), "      ;;\n");
  }
  return absl::StrCat(script, "  esac\n}\n",
                      "if [[ $funcstack[1] == _batchplan ]]; then\n  _batchplan \"$@\"\nelse\n"
                      "  compdef _batchplan batchplan\nfi\n");
}

std::string FishQuoted(absl::string_view text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"'", "\\'"}}), "'");
}

// What fish offers for a value.
std::string FishValue(const Value& value) {
  if (value.is_file) return "F";
  if (value.choices.empty()) return "x";
  return absl::StrCat("xa ", FishQuoted(absl::StrJoin(value.choices, " ")));
}

std::string FishScript(const Command& program, const std::vector<Command>& commands) {
  std::string script =
      "# Completes `batchplan` in fish; `batchplan completion fish` prints it.\n"
      "complete -c batchplan -f\n";
  const auto add = [&](const std::string& condition, const Command& command) {
    const std::string begin = absl::StrCat("complete -c batchplan -n '", condition, "' ");
    for (const Flag& flag : command.flags) {
      absl::StrAppend(&script, begin, "-l ", flag.name.substr(2), " -d ",
                      FishQuoted(flag.description),
                      flag.value.name.empty() ? ""
                      : flag.value.is_file    ? " -rF"
                                              : absl::StrCat(" -", FishValue(flag.value)),
                      "\n");
    }
    if (!command.argument.name.empty()) {
      absl::StrAppend(
          &script, begin,
          command.argument.is_file
              ? "-F"
              : absl::StrCat("-a ", FishQuoted(absl::StrJoin(command.argument.choices, " "))),
          "\n");
    }
  };
  add("__fish_use_subcommand", program);
  for (const Command& command : commands) {
    absl::StrAppend(&script, "complete -c batchplan -n __fish_use_subcommand -a ", command.name,
                    " -d ", FishQuoted(command.description), "\n");
    add(absl::StrCat("__fish_seen_subcommand_from ", command.name), command);
  }
  return script;
}

}  // namespace

std::vector<std::string> Shells() { return {"bash", "zsh", "fish"}; }

std::string CompletionScript(const CLI::App& app, const std::string& shell) {
  const Command program = ReadCommand(app, "");
  const std::vector<Command> commands = ReadCommands(app);
  if (shell == "bash") return BashScript(program, commands);
  return shell == "zsh" ? ZshScript(program, commands) : FishScript(program, commands);
}

}  // namespace batchplan::cli
