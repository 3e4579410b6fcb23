// The `batchplan` command: its subcommands, wired up, with its help and its version.

#include <google/protobuf/stubs/common.h>
#include <grpcpp/grpcpp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "client/cli/commands/commands.h"
#include "client/cli/input/choice.h"
#include "client/cli/input/command_line.h"
#include "client/cli/output/outcome.h"
#include "server/base/address_space.h"
#include "server/planner/make_plan.h"

namespace batchplan::cli {
namespace {

constexpr char kFooter[] = R"(
Example:
  batchplan lengths /usr/share/doc > lengths.txt
  batchplan plan --lengths lengths.txt --dp 8 --budget 16384
  batchplan compare --lengths lengths.txt --dp 8 --budget 16384
  batchplan sweep --lengths lengths.txt --dp 8,16 --budget 8192,16384

Whole numbers may end in k, m or g, of 1024, its square and its cube: 16k is 16384, 1.5k is 1536.
Dashes in a flag are as good as underscores: --max-sequences is --max_sequences.

`batchplan COMMAND --help` says more.)";

constexpr size_t kDescriptionColumn = 34;
constexpr size_t kDescriptionWidth = 64;

// Formats --help: options with their type, descriptions wrapped to the width of a page.
class HelpFormatter final : public CLI::Formatter {
 public:
  HelpFormatter() { column_width(kDescriptionColumn); }

  // The type alone; groups and the error message say which options exclude each other.
  std::string make_option_opts(const CLI::Option* option) const override {
    const std::string type = ValueName(*option);
    return type.empty() ? "" : absl::StrCat(" ", type);
  }

  std::string make_option_desc(const CLI::Option* option) const override {
    std::string wrapped;
    size_t width = 0;
    for (const absl::string_view word : absl::StrSplit(option->get_description(), ' ')) {
      if (width > 0) {
        const bool full = width + 1 + word.size() > kDescriptionWidth;
        wrapped += full ? '\n' : ' ';
        width = full ? 0 : width + 1;
      }
      absl::StrAppend(&wrapped, word);
      width += word.size();
    }
    return wrapped;
  }
};

// Equal requests get equal plans from one version.
std::string VersionLine() { return absl::StrCat("batchplan ", std::string(PlannerVersion())); }

// VersionLine, then the versions of the libraries underneath, a line each.
std::string VersionReport() {
  return absl::StrCat(VersionLine(), "\ngRPC ", grpc::Version(), "\nprotobuf ",
                      GOOGLE_PROTOBUF_VERSION / 1000000, ".", GOOGLE_PROTOBUF_VERSION / 1000 % 1000,
                      ".", GOOGLE_PROTOBUF_VERSION % 1000, "\n");
}

int Main(int argc, char** argv) {
  CLI::App app("Plans batches for LLM training: less padding, less waiting.", "batchplan");
  app.footer(kFooter);
  app.set_version_flag("--version", VersionLine());
  app.require_subcommand(1);
  app.formatter(std::make_shared<HelpFormatter>());

  ExitCode exit_code = ExitCode::kOk;
  AddPlanCommand(&app, &exit_code);
  AddJoinCommand(&app, &exit_code);
  AddCompareCommand(&app, &exit_code);
  AddSweepCommand(&app, &exit_code);
  AddLengthsCommand(&app, &exit_code);
  AddBenchCommand(&app, &exit_code);
  AddCompletionCommand(&app, &exit_code);
  app.add_subcommand("version", "Print the versions of the planner and of its libraries")
      ->callback([&] { exit_code = ReportError("version", WriteToStdout(VersionReport())); });

  try {
    std::vector<std::string> arguments = ReadArguments(argc, argv, app);
    std::ranges::reverse(arguments);  // CLI11's order
    app.parse(arguments);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    std::string command;
    for (const CLI::App* parsed : app.get_subcommands()) command = parsed->get_name();
    WriteToStderr(absl::StrCat("batchplan: ", command, command.empty() ? "" : ": ",
                               WhatIsWrong(app, error), "\nTry 'batchplan ", command,
                               command.empty() ? "" : " ", "--help'.\n"));
    exit_code = ExitCode::kUsage;
  }
  return static_cast<int>(exit_code);
}

}  // namespace
}  // namespace batchplan::cli

int main(int argc, char** argv) {
  batchplan::SpareAddressSpace();
  try {
    return batchplan::cli::Main(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fputs("batchplan: out of memory\n", stderr);
    return static_cast<int>(batchplan::cli::ExitCode::kFailed);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "batchplan: %s\n", error.what());
    return static_cast<int>(batchplan::cli::ExitCode::kFailed);
  }
}
