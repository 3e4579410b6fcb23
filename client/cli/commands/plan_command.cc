#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "batchplan/client.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "client/cli/commands/commands.h"
#include "client/cli/input/request_input.h"
#include "client/cli/input/server_flags.h"
#include "client/cli/output/outcome.h"
#include "client/cli/output/plan_output.h"
#include "proto/batchplan/v1/json.h"

namespace batchplan::cli {
namespace {

constexpr char kCommand[] = "plan";

constexpr char kFooter[] = R"(
Flags that are left out take the preset's value, or the one in [brackets].

Examples:
  Plan a file of lengths for 8 data-parallel ranks, 16k tokens a micro-batch:
    batchplan plan --lengths lengths.txt --dp 8 --budget 16384
  The same for ranks that meet once a mini-batch (DDP, ZeRO-1), with the longest search:
    batchplan plan --lengths lengths.txt --dp 8 --budget 16384 --sync accumulated --effort thorough
  What would documents on disk give?
    batchplan lengths docs/ | batchplan plan --lengths - --dp 4 --budget 8192
  As NeMo-RL plans, with another packer:
    batchplan plan --lengths lengths.txt --dp 8 --budget 16384 --preset nemo_rl_packing \
        --packer best_fit_decreasing
  Long sequences on groups of as many of 64 GPUs as each is worth, 16k tokens a GPU:
    batchplan plan --lengths lengths.txt --dp 64 --dynamic_cp 1,16 --budget 16384
  Text with images, whose patches are the last column, limited and computed by an encoder before:
    batchplan plan --lengths images.txt --loads patches --dp 8 --budget 16384 \
        --limit patches=40000 --load_cost patches=0.2:separate
  Over gRPC, without depending on the server's life, checked, for a program:
    batchplan plan --lengths lengths.txt --dp 8 --budget 16384 \
        --server planner:50051 --fallback --verify --format json
  See which rank waits for which, in a browser:
    batchplan plan --lengths lengths.txt --dp 8 --budget 16384 --format html > plan.html
  Keep a request, and send it later:
    batchplan plan --lengths lengths.txt --dp 8 --budget 16384 --print_request > request.json
    batchplan plan --request request.json

Exit codes:
  0  a plan was made
  1  the request was refused, or an input can't be read
  2  the command line is wrong
  3  the server can't be reached, or time ran out
  4  --verify found that the plan breaks a promise
)";

struct PlanFlags {
  RequestInput input;
  ServerFlags where;
  bool fallback = false;
  PlanOutput output;
  bool print_request = false;
};

// Plans as the flags ask; `where` becomes the place that made the plan.
absl::StatusOr<v1::PlanBatchResponse> PlanBatch(const PlanFlags& flags, std::string* where) {
  const CallOptions call = flags.where.call_options();
  const std::string in_process = "in process";
  if (flags.where.server.empty()) {
    *where = in_process;
    return Client(MakeInProcessConnection()).PlanBatch(flags.input.request(), call);
  }
  *where = absl::StrCat("by ", flags.where.server);
  const std::shared_ptr<Connection> remote =
      MakeRemoteConnection(flags.where.server, flags.where.remote_options());
  if (!flags.fallback) return Client(remote).PlanBatch(flags.input.request(), call);

  FallbackOptions fallback_options;
  fallback_options.on_fallback = [](const v1::PlanBatchRequest&, const absl::Status& why) {
    ReportError(kCommand, absl::UnavailableError(
                              absl::StrCat(why.message(), "; planning in process instead")));
  };
  const auto connection =
      MakeFallbackConnection(remote, MakeInProcessConnection(), fallback_options);
  absl::StatusOr<v1::PlanBatchResponse> response =
      Client(connection).PlanBatch(flags.input.request(), call);
  if (connection->fallback_count() > 0) *where = in_process;
  return response;
}

ExitCode RunPlan(PlanFlags* flags) {
  if (absl::Status complete = flags->input.Read(); !complete.ok()) {
    return ReportError(kCommand, complete);
  }
  if (flags->print_request) {
    return PrintOrReport(kCommand, ToEditableJson(flags->input.request()));
  }
  std::string where;
  const absl::StatusOr<v1::PlanBatchResponse> response = PlanBatch(*flags, &where);
  if (!response.ok()) return ReportError(kCommand, flags->input.NameFlags(response.status()));
  return flags->output.Print(
      kCommand,
      {.request = flags->input.request(), .plan = *response, .message = *response, .where = where});
}

}  // namespace

void AddPlanCommand(CLI::App* app, ExitCode* exit_code) {
  const auto flags = std::make_shared<PlanFlags>();
  CLI::App* command = app->add_subcommand(
      kCommand, "Plan a global batch: which sequences form which micro-batch, on which rank");
  command->footer(kFooter);

  flags->input.AddTo(command);

  CLI::Option* server = flags->where.AddTo(command, "Plan there [plan in this process]");
  command->add_flag("--fallback", flags->fallback, "Plan in process if the server is unavailable")
      ->needs(server)
      ->group("Where");
  flags->output.AddTo(command, "PlanBatchResponse");
  command
      ->add_flag("--print_request", flags->print_request,
                 "Print the request as JSON, for --request, and stop")
      ->group("Output");

  command->callback([=] {
    flags->input.Check();
    *exit_code = RunPlan(flags.get());
  });
}

}  // namespace batchplan::cli
