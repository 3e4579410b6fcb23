#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "client/cli/commands/commands.h"
#include "client/cli/input/choice.h"
#include "client/cli/output/completion.h"
#include "client/cli/output/outcome.h"

namespace batchplan::cli {
namespace {

constexpr char kCommand[] = "completion";

constexpr char kFooter[] = R"(
`cmake --install` puts the scripts where shells look for them. Without it:
  bash    batchplan completion bash > ~/.local/share/bash-completion/completions/batchplan
          or, for this shell alone: source <(batchplan completion bash)
  zsh     batchplan completion zsh > DIRECTORY/_batchplan, for a directory of $fpath
  fish    batchplan completion fish > ~/.config/fish/completions/batchplan.fish
)";

}  // namespace

void AddCompletionCommand(CLI::App* app, ExitCode* exit_code) {
  const auto shell = std::make_shared<std::string>();
  CLI::App* command =
      app->add_subcommand(kCommand, "Print a script with which a shell completes this program");
  command->footer(kFooter);
  command->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(OneOf(Shells()))
      ->type_name("");
  command->callback(
      [=] { *exit_code = ReportError(kCommand, WriteToStdout(CompletionScript(*app, *shell))); });
}

}  // namespace batchplan::cli
