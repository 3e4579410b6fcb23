#include "server/flag_set.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace batchplan {
namespace {

constexpr char kVariablePrefix[] = "BATCHPLAN_";
constexpr size_t kDescriptionColumn = 36;
constexpr size_t kPageWidth = 100;

std::string VariableOf(const std::string& flag) {
  std::string variable = kVariablePrefix;
  absl::StrAppend(&variable, absl::AsciiStrToUpper(flag));
  return variable;
}

// Breaks `text` between words into lines of at most `width`.
std::string Wrap(const std::string& text, size_t width, const std::string& line_start) {
  std::string wrapped;
  size_t column = 0;
  for (const absl::string_view word : absl::StrSplit(text, ' ')) {
    if (column > 0 && column + 1 + word.size() > width) {
      wrapped += '\n';
      column = 0;
    } else if (column > 0) {
      wrapped += ' ';
      ++column;
    }
    if (column == 0) wrapped += line_start;
    absl::StrAppend(&wrapped, word);
    column += word.size();
  }
  return wrapped;
}

// Prints name, type, description and default of each flag, within the width of a page.
class HelpPage final : public CLI::Formatter {
 public:
  HelpPage() { column_width(kDescriptionColumn); }

  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    // CLI11 appends this to names that turn a flag off.
    return absl::StrReplaceAll(CLI::Formatter::make_option_name(option, is_positional),
                               {{"{false}", ""}});
  }

  std::string make_option_opts(const CLI::Option* option) const override {
    const std::string type = option->get_type_name();
    return type.empty() ? "" : absl::StrCat(" ", type);
  }

  std::string make_option_desc(const CLI::Option* option) const override {
    std::string text = option->get_description();
    if (!option->get_default_str().empty()) {
      absl::StrAppend(&text, " [", option->get_default_str(), "]");
    }
    return Wrap(text, kPageWidth - kDescriptionColumn, "");
  }
};

// A value for a configuration file. CLI11's reader knows no escapes; values that it would misread
// are refused when read.
std::string Quoted(const std::string& text) { return absl::StrCat("\"", text, "\""); }

}  // namespace

FlagSet::FlagSet(const std::string& program, const std::string& description,
                 const std::string& footer, const std::string& version)
    : app_(std::make_unique<CLI::App>(description, program)) {
  app_->footer(footer);
  app_->formatter(std::make_shared<HelpPage>());
  app_->set_version_flag("--version", absl::StrCat(program, " ", version));
  app_->add_option("--config", config_,
                   absl::StrCat("Read flags from this file of `name = value` lines; --print_config "
                                "prints one"))
      ->type_name("FILE");
  app_->add_flag("--print_config", print_config_,
                 "Print all flags as they would hold, as a file for --config, and stop");
}

FlagSet::~FlagSet() = default;

void FlagSet::Remember(const std::string& name, CLI::Option* option, const std::string& description,
                       std::function<std::string()> text) {
  option->group(group_);
  const std::string value = text();
  option->default_str(value == Quoted("") ? "" : absl::StrReplaceAll(value, {{"\"", ""}}));
  flags_[name] = {.option = option,
                  .text = std::move(text),
                  .description = description,
                  .group = group_,
                  .may_be_empty = value == Quoted(""),
                  .source = ""};
  names_.push_back(name);
}

void FlagSet::Add(const std::string& name, std::string* value, const std::string& type,
                  const std::string& description, const std::vector<std::string>& choices) {
  CLI::Option* option = app_->add_option("--" + name, *value, description);
  if (!choices.empty()) option->check(CLI::IsMember(choices).description(""));
  option->type_name(type);
  Remember(name, option, description, [value] { return Quoted(*value); });
}

void FlagSet::Add(const std::string& name, int64_t* value, const std::string& type,
                  const std::string& description) {
  CLI::Option* option = app_->add_option("--" + name, *value, description)->type_name(type);
  Remember(name, option, description, [value] { return absl::StrCat(*value); });
}

void FlagSet::Add(const std::string& name, bool* value, const std::string& description) {
  CLI::Option* option =
      app_->add_flag(absl::StrCat("--", name, ",!--no", name), *value, description);
  Remember(name, option, description, [value] { return *value ? "true" : "false"; });
}

void FlagSet::Add(const std::string& name, absl::Duration* value, const std::string& description) {
  CLI::Option* option = app_->add_option_function<double>(
      "--" + name, [value](double seconds) { *value = absl::Seconds(seconds); }, description);
  option->type_name("SECONDS");
  Remember(name, option, description,
           [value] { return absl::StrCat(absl::ToDoubleSeconds(*value)); });
}

absl::Status FlagSet::Set(const std::string& name, const std::string& value,
                          const std::string& source) {
  try {
    app_->parse(std::vector<std::string>{absl::StrCat("--", name, "=", value)});
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": ", name, "=", value, ": ", error.what()));
  }
  flags_.at(name).source = source;
  return absl::OkStatus();
}

absl::Status FlagSet::SetFromFile(const std::string& path) {
  std::vector<CLI::ConfigItem> items;
  try {
    std::ifstream file(path);
    // A directory can be opened; only reading it fails.
    if (!file.is_open() || (file.peek(), file.bad())) {
      return absl::NotFoundError(absl::StrCat("--config=", path, ": can't be read"));
    }
    items = CLI::ConfigTOML().from_config(file);
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat("--config=", path, ": ", error.what()));
  }
  std::set<std::string> seen;
  for (const CLI::ConfigItem& item : items) {
    const auto refuse = [&](const std::string& why) {
      return absl::InvalidArgumentError(
          absl::StrCat("--config=", path, ": ", item.fullname(), ": ", why));
    };
    if (!item.parents.empty()) return refuse("there are no sections in this file, only flags");
    if (flags_.find(item.name) == flags_.end()) return refuse("there is no such flag");
    if (item.inputs.size() != 1 || !seen.insert(item.name).second) {
      return refuse("must be given once, with one value; a text stands in \"quotes\"");
    }
    const std::string& value = item.inputs.front();
    if (value.find_first_of("\"#") != std::string::npos)
      return refuse("a value holds neither \" nor #");
    if (value.empty()) {
      // --print_config shows an empty value for such a flag, which does not set it.
      if (flags_.at(item.name).may_be_empty) continue;
      return refuse("is empty");
    }
    if (absl::Status set = Set(item.name, value, path); !set.ok()) return set;
  }
  return absl::OkStatus();
}

absl::Status FlagSet::SetFromEnvironment() {
  for (const std::string& name : names_) {
    const std::string variable = VariableOf(name);
    const char* value = std::getenv(variable.c_str());
    // Some launchers mean "not set" by an empty variable.
    if (value == nullptr || *value == '\0') continue;
    if (absl::Status set = Set(name, value, variable); !set.ok()) return set;
  }
  return absl::OkStatus();
}

absl::Status FlagSet::Read(int argc, const char* const* argv, Outcome* outcome) {
  *outcome = Outcome::kDone;
  // A flag keeps its value if a later parse does not mention it. The command line has the last
  // word, so it is parsed last; it is also parsed first, for --help, --config and its own errors.
  const auto parse_command_line = [&]() -> absl::Status {
    try {
      app_->parse(argc, argv);
    } catch (const CLI::Success& help) {
      app_->exit(help);
      return absl::CancelledError();
    } catch (const CLI::ParseError& error) {
      return absl::InvalidArgumentError(error.what());
    }
    return absl::OkStatus();
  };
  absl::Status parsed = parse_command_line();
  if (absl::IsCancelled(parsed)) return absl::OkStatus();
  if (!parsed.ok()) return parsed;

  std::string config = config_;
  const char* variable = std::getenv(VariableOf("config").c_str());
  if (config.empty() && variable != nullptr) config = variable;
  if (!config.empty()) {
    if (absl::Status set = SetFromFile(config); !set.ok()) return set;
  }
  if (absl::Status set = SetFromEnvironment(); !set.ok()) return set;
  parsed = parse_command_line();
  if (!parsed.ok()) return parsed;
  for (auto& [name, flag] : flags_) {
    if (flag.option->count() > 0) flag.source.clear();
  }
  *outcome = print_config_ ? Outcome::kPrintConfig : Outcome::kRun;
  return absl::OkStatus();
}

std::string FlagSet::ConfigurationFile() const {
  std::string file;
  std::string group;
  for (const std::string& name : names_) {
    const Flag& flag = flags_.at(name);
    if (flag.group != group) {
      group = flag.group;
      absl::StrAppend(&file, file.empty() ? "" : "\n", "# == ", group, "\n");
    }
    const std::string text = flag.text();
    absl::StrAppend(&file, Wrap(flag.description, kPageWidth - 2, "# "), "\n",
                    text == Quoted("") ? "# " : "", name, " = ", text, "\n");
  }
  return file;
}

std::string FlagSet::SourceOf(const std::string& name) const {
  const auto flag = flags_.find(name);
  if (flag == flags_.end() || flag->second.source.empty()) return "";
  return absl::StrCat(" (from ", flag->second.source, ")");
}

}  // namespace batchplan
