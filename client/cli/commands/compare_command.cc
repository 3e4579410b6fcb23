#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "batchplan/client.h"
#include "client/cli/commands/commands.h"
#include "client/cli/input/request_input.h"
#include "client/cli/output/outcome.h"
#include "client/cli/reports/comparison.h"
#include "client/cli/reports/report.h"

namespace batchplan::cli {
namespace {

constexpr char kCommand[] = "compare";

constexpr char kFooter[] = R"(
One row for each preset, "balanced" first; for each packer, its bins dealt to the ranks; and for each scan of the
padded layout, every rank taking a stride of the sorted batch. What the request says about preset,
packer, scan and sharding is replaced; everything else holds for all rows. Where the lengths have
ranks, each row makes micro-batches within these. Where sequences share prefixes, two more rows are
balanced with nothing shared, and with every group on one rank; padded rows share nothing. With --dynamic_cp the rows are the presets that divide
a pool of ranks, and each --cp that divides their number, fixed, with as many tokens on each rank; one at
which --overlong cuts or drops other tokens than in the pool is refused.

* marks the least predicted step time under --sync; among equals fewer micro-batches, then the first.
Step times are those of one rank of DP x CP x PP in the units of --cost, under both synchronizations,
on pipelines simulated; "above bound" is how far the one under --sync is above a time that no plan within
the constraints beats, of a fixed --cp none of that size; "pipeline bubble", shown with --pp, is the part of the time in which the busiest
stage of the slowest rank waits. A row of - is refused: the note below says why.

--format json prints an array, an object a row: "kind", "candidate", "best"; the table's figures as
"microbatches", "lowerBoundMicrobatches", "binUtilization", "paddingRemoved", "rankCostImbalance",
"lockstepStepTime", "accumulatedStepTime", "stepTimeAboveBound", "pipelineBubble",
"planningMilliseconds"; and "metrics", the whole PlanMetrics. A refused row has "error": {"code",
"message"} instead. csv has the same columns in lower_snake_case, and `error`.

Examples:
  Which algorithm suits these lengths?
    batchplan compare --lengths lengths.txt --dp 8 --budget 16384
  With gradients accumulated over DDP ranks, and context parallelism:
    batchplan compare --lengths lengths.txt --dp 8 --cp 2 --budget 16384 --sync accumulated
  What is it worth that groups differ in size, against every fixed size of 64 ranks?
    batchplan compare --lengths lengths.txt --dp 64 --dynamic_cp 1 --budget 16384
  On pipelines of four stages, each with two chunks of the model:
    batchplan compare --lengths lengths.txt --dp 8 --pp 4 --vpp 2 --budget 16384
  The same in a browser, with a picture of every plan:
    batchplan compare --lengths lengths.txt --dp 8 --budget 16384 --format html > compare.html
  A saved request, its pass "logprobs", for a program:
    batchplan compare --request request.json --pass logprobs --format json

Exit codes:
  0  at least one candidate has a plan
  1  every candidate was refused, or an input can't be read
  2  the command line is wrong
)";

struct CompareFlags {
  RequestInput input;
  ReportFlags report;
};

ExitCode RunCompare(CompareFlags* flags) {
  if (absl::Status read = flags->input.Read(); !read.ok()) return ReportError(kCommand, read);
  const v1::PlanBatchRequest& request = flags->input.request();
  if (absl::Status one = CheckOneBatch(request); !one.ok()) return ReportError(kCommand, one);
  const absl::StatusOr<int> pass = FindPass(request, flags->report.pass);
  if (!pass.ok()) return ReportError(kCommand, pass.status());
  const Client client(MakeInProcessConnection());
  std::vector<ComparisonRow> rows = Compare(client, request, *pass);
  for (ComparisonRow& row : rows) {
    if (!row.figures.ok()) row.figures = flags->input.NameFlags(row.figures.status());
  }
  const Report report = ReportComparison(request, *pass, rows);
  if (flags->report.format != "html" || !CheckAnyPlanned(report).ok()) {
    return PrintReport(kCommand, report, flags->report.format);
  }
  return PrintOrReport(kCommand, FormatComparisonPage(client, request, *pass, rows));
}

}  // namespace

void AddCompareCommand(CLI::App* app, ExitCode* exit_code) {
  const auto flags = std::make_shared<CompareFlags>();
  CLI::App* command = app->add_subcommand(
      kCommand, "Plan one batch with every preset and packer, and show which is best");
  command->footer(kFooter);
  flags->input.AddTo(
      command, {"--preset", "--packer", "--scan", "--sharding", "--job", "--step", "--request_id"});
  flags->report.AddTo(command, /*html=*/true);
  command->callback([=] {
    flags->input.Check();
    *exit_code = RunCompare(flags.get());
  });
}

}  // namespace batchplan::cli
