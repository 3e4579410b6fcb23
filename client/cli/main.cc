// The `batchplan` command: its subcommands, wired up.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/cli/bench_command.h"
#include "client/cli/compare_command.h"
#include "client/cli/exit_code.h"
#include "client/cli/help_formatter.h"
#include "client/cli/lengths_command.h"
#include "client/cli/output.h"
#include "client/cli/plan_command.h"
#include "client/cli/sweep_command.h"
#include "client/cli/version.h"

namespace batchplan::cli {
namespace {

constexpr char kFooter[] = R"(
Example:
  batchplan lengths /usr/share/doc > lengths.txt
  batchplan plan --lengths lengths.txt --dp 8 --budget 16384
  batchplan compare --lengths lengths.txt --dp 8 --budget 16384
  batchplan sweep --lengths lengths.txt --dp 8,16 --budget 8192,16384

`batchplan COMMAND --help` says more.)";

int Main(int argc, char** argv) {
  CLI::App app("Plans batches for LLM training: less padding, less waiting.", "batchplan");
  app.footer(kFooter);
  app.set_version_flag("--version", VersionLine());
  app.require_subcommand(1);
  app.formatter(std::make_shared<HelpFormatter>());

  ExitCode exit_code = ExitCode::kOk;
  AddPlanCommand(&app, &exit_code);
  AddCompareCommand(&app, &exit_code);
  AddSweepCommand(&app, &exit_code);
  AddLengthsCommand(&app, &exit_code);
  AddBenchCommand(&app, &exit_code);
  app.add_subcommand("version", "Print the versions of the planner and of its libraries")
      ->callback([&] { exit_code = ReportError("version", WriteToStdout(VersionReport())); });

  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    std::string command;
    for (const CLI::App* parsed : app.get_subcommands()) command = parsed->get_name();
    std::string message = error.what();
    if (command.empty() && !app.remaining().empty()) {
      message = absl::StrCat("there is no command \"", app.remaining()[0], "\"");
    }
    std::fputs(absl::StrCat("batchplan: ", command, command.empty() ? "" : ": ", message,
                            "\nTry 'batchplan ", command, command.empty() ? "" : " ", "--help'.\n")
                   .c_str(),
               stderr);
    exit_code = ExitCode::kUsage;
  }
  return static_cast<int>(exit_code);
}

}  // namespace
}  // namespace batchplan::cli

int main(int argc, char** argv) {
  try {
    return batchplan::cli::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "batchplan: %s\n", error.what());
    return static_cast<int>(batchplan::cli::ExitCode::kFailed);
  }
}
