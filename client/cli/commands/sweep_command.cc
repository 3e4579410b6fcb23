#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "batchplan/client.h"
#include "client/cli/commands/commands.h"
#include "client/cli/input/field_flag.h"
#include "client/cli/input/request_input.h"
#include "client/cli/output/outcome.h"
#include "client/cli/reports/report.h"
#include "client/cli/reports/sweep.h"

namespace batchplan::cli {
namespace {

constexpr char kCommand[] = "sweep";
constexpr uint64_t kMostPoints = 4096;

constexpr char kFooter[] = R"(
One row for each combination of --budget, --dp, --cp, --pp and --vpp, at most 4096; a list that is left
out takes the request's own value. A row of - is infeasible or refused: the note below says why.

A predicted step time is what one rank of DP x CP x PP takes, so that step times compare as they stand:
the least one is the fastest point, on however many GPUs (DP x CP x TP x PP). * marks the least GPU time a
true token, predicted step time x DP x CP x PP / true tokens, waiting and padding included: the cheapest
point. Both take it that CP and TP divide the compute evenly, and leave communication out, but for
--transfer. With --overlong drop or truncate, points of different budgets may plan different tokens.

Where one of the points is a pipeline, all are measured alike: without --cost and --sync, as pipelines
are, with 1024 tokens' cost a micro-batch and ranks that meet once a mini-batch. The flags of pipelines
are left out at --pp 1; --stage_shares are refused where they are not as many as --pp times --vpp.
"pipeline bubble", shown where there is one, is the part of the time in which the busiest stage of the
slowest rank waits.

--format json prints an array, an object a row: "budget", "dataParallel", "contextParallel",
"pipelineParallel", "virtualPipeline", "gpus", "best"; the figures as `batchplan compare --help` names
them; "gpuTimePerToken"; and "metrics". An infeasible row has "error": {"code", "message"} instead. csv
has the same columns in lower_snake_case, and `error`.

Examples:
  Which budget, and how many ranks?
    batchplan sweep --lengths lengths.txt --budget 8192,16384,32768 --dp 8,16 --cp 1,2,4
  How many stages, and in how many chunks?
    batchplan sweep --lengths lengths.txt --budget 16384 --dp 8 --pp 1,2,4,8 --vpp 1,2
  The same with another system's way of planning:
    batchplan sweep --lengths lengths.txt --budget 16384 --dp 8 --pp 1,2,4,8 --vpp 1,2 --preset verl
  A saved request at other budgets of its pass "train", for a spreadsheet:
    batchplan sweep --request request.json --pass train --budget 8192,16384 --format csv

Exit codes:
  0  at least one point has a plan
  1  every point was refused, or an input can't be read
  2  the command line is wrong
)";

struct SweepFlags {
  RequestInput input;
  SweepAxes axes;
  ReportFlags report;
};

ExitCode RunSweep(SweepFlags* flags) {
  if (absl::Status read = flags->input.Read(); !read.ok()) return ReportError(kCommand, read);
  const v1::PlanBatchRequest& request = flags->input.request();
  const absl::StatusOr<int> pass = FindPass(request, flags->report.pass);
  if (!pass.ok()) return ReportError(kCommand, pass.status());
  const std::vector<SweepPoint> points =
      Sweep(Client(MakeInProcessConnection()), request, flags->axes, *pass);
  const Report report = ReportSweep(WithOneYardstick(request, flags->axes), points);
  return PrintReport(kCommand, report, flags->report.format);
}

CLI::Option* AddAxis(CLI::App* command, const std::string& flag, std::vector<uint32_t>* values,
                     const std::string& help) {
  return command
      ->add_option_function<std::string>(
          flag, [=](const std::string& text) { *values = ParseNumbers(flag, text); }, help)
      ->type_name("N,N,...")
      ->group("What is swept");
}

}  // namespace

void AddSweepCommand(CLI::App* app, ExitCode* exit_code) {
  const auto flags = std::make_shared<SweepFlags>();
  CLI::App* command = app->add_subcommand(
      kCommand, "Plan one batch at every combination of token budget, DP, CP, PP and VPP");
  command->footer(kFooter);
  flags->input.AddTo(
      command, {kBudgetFlag, "--dp", "--cp", "--pp", "--vpp", "--job", "--step", "--request_id"});
  flags->input.RequireForLengths(
      AddAxis(command, kBudgetFlag, &flags->axes.budgets,
              "Tokens that a micro-batch holds at most, padding included"));
  AddAxis(command, "--dp", &flags->axes.data_parallel, "Data-parallel ranks [1]");
  AddAxis(command, "--cp", &flags->axes.context_parallel, "Context-parallel sizes [1]");
  AddAxis(command, "--pp", &flags->axes.pipeline_parallel, "Pipeline-parallel sizes [1]");
  AddAxis(command, "--vpp", &flags->axes.virtual_pipeline, "Virtual pipeline stages [1]");
  flags->report.AddTo(command);
  command->callback([=] {
    flags->input.Check();
    if (const uint64_t points = flags->axes.Points(); points > kMostPoints) {
      throw CLI::ValidationError(
          "--budget, --dp, --cp, --pp, --vpp",
          absl::StrCat("these make ", points, " points; a sweep has at most ", kMostPoints));
    }
    *exit_code = RunSweep(flags.get());
  });
}

}  // namespace batchplan::cli
