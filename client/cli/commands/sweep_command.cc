#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "batchplan/client.h"
#include "client/cli/commands/commands.h"
#include "client/cli/input/count.h"
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

--budget_per_gpu, in place of --budget, has a micro-batch hold CP times so many tokens, as many as its GPUs
have room for. --gpus, in place of --dp, compares sizes of CP and PP on one machine: DP is N / (CP x TP x
PP), and sizes that do not divide it are left out, and named below the table or on stderr.

A predicted step time is what one rank of DP x CP x PP takes, so that step times compare as they stand:
the least one is the fastest point, on however many GPUs (DP x CP x TP x PP). * marks the least GPU time a
true token, predicted step time x DP x CP x PP / true tokens, waiting and padding included: the cheapest
point. Both take it that CP and TP divide the compute evenly, and leave communication out, but for
--transfer and --exchange: without the latter, more CP looks better balanced for nothing. With --overlong
drop or truncate, points of different budgets may plan different tokens.

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
  How much context parallelism, on 64 GPUs whose nodes have 8?
    batchplan sweep --lengths lengths.txt --budget_per_gpu 8192 --gpus 64 --cp 1,2,4,8,16 \
      --exchange 8:0.02,0:0.065
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
  // --gpus; 0: not given.
  uint32_t gpus = 0;
  ReportFlags report;
};

ExitCode RunSweep(SweepFlags* flags) {
  SweepAxes& axes = flags->axes;
  const bool pipeline =
      std::ranges::any_of(axes.pipeline_parallel, [](uint32_t p) { return p > 1; });
  if (absl::Status read = flags->input.Read(pipeline); !read.ok()) {
    return ReportError(kCommand, read);
  }
  const v1::PlanBatchRequest& request = flags->input.request();
  if (absl::Status one = CheckOneBatch(request); !one.ok()) return ReportError(kCommand, one);
  const absl::StatusOr<int> pass = FindPass(request, flags->report.pass);
  if (!pass.ok()) return ReportError(kCommand, pass.status());
  std::vector<SweepPoint> points = Sweep(Client(MakeInProcessConnection()), request, axes, *pass);
  for (SweepPoint& point : points) {
    if (!point.figures.ok()) point.figures = flags->input.NameFlags(point.figures.status());
  }
  const std::vector<std::string> left_out = LeftOut(request, axes);
  if (points.empty()) {
    return ReportError(kCommand, absl::InvalidArgumentError(
                                     absl::StrCat("--gpus is ", flags->gpus, ", which none of ",
                                                  absl::StrJoin(left_out, ", "), " divides")));
  }
  if (!left_out.empty() && flags->report.format != "table") {
    std::cerr << "batchplan: sweep: left out, as they do not divide " << flags->gpus
              << " GPUs: " << absl::StrJoin(left_out, ", ") << "\n";
  }
  const Report report = ReportSweep(WithOneYardstick(request, axes), axes, points);
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
  CLI::Option* budget = AddAxis(command, kBudgetFlag, &flags->axes.budgets,
                                "Tokens that a micro-batch holds at most, padding included; 16k "
                                "is 16384, as k is 1024 in every N");
  CLI::Option* per_gpu = AddAxis(command, "--budget_per_gpu", &flags->axes.budgets,
                                 "The same over CP: what one GPU has room for")
                             ->excludes(budget);
  CLI::Option* data_parallel =
      AddAxis(command, "--dp", &flags->axes.data_parallel, "Data-parallel ranks [1]");
  CLI::Option* gpus = command
                          ->add_option("--gpus", flags->gpus,
                                       "All GPUs: data-parallel ranks are what CP x TP x PP leaves")
                          ->type_name("N")
                          ->transform(AsCount())
                          ->check(CLI::PositiveNumber.description(""))
                          ->excludes(data_parallel)
                          ->group("What is swept");
  AddAxis(command, "--cp", &flags->axes.context_parallel, "Context-parallel sizes [1]");
  AddAxis(command, "--pp", &flags->axes.pipeline_parallel, "Pipeline-parallel sizes [1]");
  AddAxis(command, "--vpp", &flags->axes.virtual_pipeline, "Virtual pipeline stages [1]");
  flags->report.AddTo(command);
  command->callback([=] {
    flags->input.Check();
    if (command->count("--lengths") > 0 && budget->count() + per_gpu->count() == 0) {
      throw CLI::RequiresError("--lengths", "--budget or --budget_per_gpu");
    }
    flags->axes.budgets_per_gpu = per_gpu->count() > 0;
    if (gpus->count() > 0) flags->axes.gpus = flags->gpus;
    if (const uint64_t points = flags->axes.Points(); points > kMostPoints) {
      throw CLI::ValidationError(
          "--budget, --dp, --cp, --pp, --vpp",
          absl::StrCat("these make ", points, " points; a sweep has at most ", kMostPoints));
    }
    *exit_code = RunSweep(flags.get());
  });
}

}  // namespace batchplan::cli
