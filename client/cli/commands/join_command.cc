#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "batchplan/client.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "client/cli/commands/commands.h"
#include "client/cli/commands/whole_request.h"
#include "client/cli/input/field_flag.h"
#include "client/cli/input/request_input.h"
#include "client/cli/input/server_flags.h"
#include "client/cli/output/outcome.h"
#include "client/cli/output/plan_output.h"
#include "proto/batchplan/v1/json.h"

namespace batchplan::cli {
namespace {

constexpr char kCommand[] = "join";
constexpr char kGroup[] = "This worker";

constexpr char kFooter[] = R"(
All workers of a step give the same flags but for --worker, --lengths and how they print. Each gets the
same plan, once the last one is in; a worker that got no answer joins again with the same command.

Examples:
  Two workers of step 7, in two terminals or on two machines:
    batchplan join --server planner:50051 --job rl --step 7 --world_size 2 --worker 0 \
        --lengths first.txt --dp 4 --budget 16384
    batchplan join --server planner:50051 --job rl --step 7 --world_size 2 --worker 1 \
        --lengths second.txt --dp 4 --budget 16384
  What rank 3 runs, for a program; wait two minutes for the others:
    batchplan join --server planner:50051 --job rl --step 7 --world_size 2 --worker 1 \
        --lengths second.txt --dp 4 --budget 16384 --rank 3 --own_slice --format json --timeout 2m

Exit codes:
  0  the step was planned
  1  the part was refused, or an input can't be read
  2  the command line is wrong
  3  the server can't be reached, or time ran out; the message names the workers that are missing
  4  --verify found that the plan breaks a promise
)";

struct JoinFlags {
  RequestInput input;
  v1::JoinBatchRequest worker;
  ServerFlags where;
  PlanOutput output;
};

ExitCode RunJoin(JoinFlags* flags) {
  if (absl::Status complete = flags->input.Read(); !complete.ok()) {
    return ReportError(kCommand, complete);
  }
  v1::JoinBatchRequest request = flags->worker;
  *request.mutable_request() = flags->input.request();
  // What is printed or verified is the whole batch's, of which a worker knows its own part.
  request.set_return_request(!request.own_slice_only());
  const Client client(MakeRemoteConnection(flags->where.server, flags->where.remote_options()));
  absl::StatusOr<v1::JoinBatchResponse> response =
      client.JoinBatch(request, flags->where.call_options());
  if (!response.ok()) return ReportError(kCommand, flags->input.NameFlags(response.status()));
  if (request.own_slice_only()) {
    return PrintOrReport(kCommand, ToCompleteJson(*response));
  }
  const absl::StatusOr<v1::PlanBatchRequest> whole = WholeRequest(request, *response);
  if (!whole.ok()) return ReportError(kCommand, whole.status());
  response->clear_request();
  return flags->output.Print(kCommand, {.request = *whole,
                                        .plan = response->plan(),
                                        .message = *response,
                                        .where = absl::StrCat("by ", flags->where.server)});
}

// What one worker alone can't do.
void Check(const JoinFlags& flags) {
  if (flags.worker.own_slice_only() && (!flags.output.json() || flags.output.verify())) {
    throw CLI::ValidationError("--own_slice",
                               "a slice is printed with --format json only, and without --verify");
  }
}

}  // namespace

void AddJoinCommand(CLI::App* app, ExitCode* exit_code) {
  const auto flags = std::make_shared<JoinFlags>();
  CLI::App* command = app->add_subcommand(
      kCommand, "Join a collective plan: one batch of which each worker knows its own part");
  command->footer(kFooter);

  flags->input.AddTo(command);
  const auto add = [&](const char* flag, const char* field, const char* help) {
    flags->input.AddFlagName(field, flag);
    return AddFieldFlag(command, flag, &flags->worker, field, help)->group(kGroup);
  };
  add("--world_size", "world_size", "Workers of the step")->required();
  add("--worker", "worker", "Which of them this is, from 0; the batch is their parts in this order")
      ->required();
  CLI::Option* rank = add("--rank", "data_parallel_rank", "The rank for --own_slice [0]");
  CLI::Option* slice = add("--own_slice", "own_slice_only", "Get the micro-batches of --rank only");
  rank->needs(slice);
  add("--own_part", "own_part_only",
      "Of what else the answer says, get only what is of --worker's and of --rank's sequences")
      ->needs(slice);
  add("--run_id", "run_id",
      "The run that this worker belongs to; workers of different runs never meet [Slurm's job, "
      "step "
      "and restarts, if this is one of a step's tasks]");
  flags->where.AddTo(command, "Where the workers meet")->required();
  flags->output.AddTo(command, "JoinBatchResponse");

  command->callback([=] {
    flags->input.Check();
    Check(*flags);
    *exit_code = RunJoin(flags.get());
  });
}

}  // namespace batchplan::cli
