// How --help reads: names and types of the options, descriptions wrapped to the width of a page.

#ifndef BATCHPLAN_CLIENT_CLI_HELP_FORMATTER_H_
#define BATCHPLAN_CLIENT_CLI_HELP_FORMATTER_H_

#include <CLI/CLI.hpp>
#include <string>

namespace batchplan::cli {

class HelpFormatter final : public CLI::Formatter {
 public:
  HelpFormatter();

  // The type alone: which options exclude each other is said by their groups, and by the error.
  std::string make_option_opts(const CLI::Option* option) const override;

  std::string make_option_desc(const CLI::Option* option) const override;
};

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_HELP_FORMATTER_H_
