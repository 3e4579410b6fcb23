// Runs the `batchplan` program as a shell would.

#ifndef BATCHPLAN_TESTS_CLIENT_CLI_RUN_CLI_H_
#define BATCHPLAN_TESTS_CLIENT_CLI_RUN_CLI_H_

#include <string>
#include <vector>

namespace batchplan {

struct CliResult {
  // -1 if a signal ended the program.
  int exit_code = -1;
  // 0 if no signal ended the program.
  int signal = 0;
  std::string out;
  std::string err;
};

// Runs the program with `arguments`, and with `input` on stdin, to its end.
CliResult RunCli(const std::vector<std::string>& arguments, const std::string& input = "");

// Runs the program with a stdout that nobody reads.
CliResult RunCliIntoClosedPipe(const std::vector<std::string>& arguments);

}  // namespace batchplan

#endif  // BATCHPLAN_TESTS_CLIENT_CLI_RUN_CLI_H_
