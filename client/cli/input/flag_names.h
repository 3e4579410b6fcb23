// Which flag sets which field of a request, so that what a planner says of a field can name the
// flag.

#ifndef BATCHPLAN_CLIENT_CLI_INPUT_FLAG_NAMES_H_
#define BATCHPLAN_CLIENT_CLI_INPUT_FLAG_NAMES_H_

#include <CLI/CLI.hpp>
#include <map>
#include <string>

#include "absl/strings/string_view.h"

namespace batchplan::cli {

// Not thread-safe.
class FlagNames {
 public:
  // `flag` sets the field at `path`, and the fields below it: dotted names from the request,
  // without positions, as in passes.max_tokens_per_microbatch.
  void Add(const std::string& path, const std::string& flag);

  // `text` with each flag, in parentheses, behind the first mention of its field, by its path, or
  // by its own name if that has an underscore, as no English word has:
  // "passes[0].max_tokens_per_microbatch (--budget) is 8". A flag is left out if `app` does not
  // have it, if another one that was given excludes it, or if the text's name for the field is the
  // flag's.
  std::string Annotate(absl::string_view text, const CLI::App& app) const;

 private:
  // Empty if there is none.
  std::string Find(std::string path) const;

  std::map<std::string, std::string> by_path_;
  std::map<std::string, std::string> by_name_;
};

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_INPUT_FLAG_NAMES_H_
