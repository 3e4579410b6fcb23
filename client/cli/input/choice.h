// Words to choose from: the values of a flag, the flags of a command, the commands.

#ifndef BATCHPLAN_CLIENT_CLI_INPUT_CHOICE_H_
#define BATCHPLAN_CLIENT_CLI_INPUT_CHOICE_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace batchplan::cli {

// "; did you mean WORD?" with the word that `typed` is most likely meant to be: the one of least
// edit distance, in which two neighbours in each other's place count once, the first of several.
// Case does not matter, - is as good as _, and dashes in front are not compared. Empty if more than
// a third of `typed`, and more than one character, would have to change.
std::string DidYouMean(absl::string_view typed, const std::vector<std::string>& words);

// For Option::check: the value is one of `words`, which the error lists, with DidYouMean.
CLI::Validator OneOf(const std::vector<std::string>& words);

// The words that the option takes by OneOf; empty for other options.
std::vector<std::string> Choices(const CLI::Option& option);

// What --help and errors call the option's value: its type without the words of OneOf, which its
// description lists.
std::string ValueName(const CLI::Option& option);

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_INPUT_CHOICE_H_
