// A training step on DP x CP ranks by batchplan's plan, checked against the padded batch.
//
//   worker_example --dp 2 --cp 4 --layout padded
//   worker_example --dp 2 --cp 4 --dynamic_cp
//   worker_example --address localhost:50051
//
// Each rank is a thread with a WorkerClient of its own: it fetches the plan, packs its
// micro-batches (tokens, shifted labels, loss mask, advantages, position ids), runs a toy model on
// the packed rows, whose attention goes over the ranks that share a sequence, reduces losses per
// sequence, and restores losses and gradients to the batch's order. They must be those of the same
// model on the padded batch. ranks_step.cc is the part to read.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "batchplan/client.h"
#include "client/cpp/examples/worker/batch.h"
#include "client/cpp/examples/worker/model.h"
#include "client/cpp/examples/worker/padded_step.h"
#include "client/cpp/examples/worker/ranks_step.h"
#include "client/cpp/examples/worker/step_results.h"

namespace batchplan::examples {
namespace {

struct Flags {
  std::string address;
  uint32_t data_parallel = 2;
  uint32_t context_parallel = 2;
  bool dynamic_context = false;
  uint32_t sequences = 64;
  uint32_t longest = 500;
  uint32_t budget = 0;
  std::string layout = "packed";
  uint64_t seed = 1;
};

// The budget of a micro-batch without --budget. In a pool, the longest sequence needs most of all
// ranks' budgets, so that groups of many sizes occur.
uint32_t DefaultBudget(const Flags& flags) {
  if (!flags.dynamic_context) return 1024;
  return std::max(flags.longest * 5 / 4 / flags.data_parallel, 16 * flags.context_parallel);
}

v1::PlanBatchRequest RequestOf(const Flags& flags, const Batch& batch) {
  v1::PlanBatchRequest request;
  request.set_job_id("worker_example");
  request.mutable_manifest()->mutable_lengths()->Assign(batch.lengths.begin(), batch.lengths.end());
  request.mutable_topology()->set_data_parallel(flags.data_parallel);
  request.mutable_topology()->set_context_parallel(flags.context_parallel);
  if (flags.dynamic_context) request.mutable_topology()->mutable_dynamic_context();
  request.set_allow_empty_microbatches(true);
  v1::Pass& pass = *request.add_passes();
  pass.set_max_tokens_per_microbatch(flags.budget);
  if (flags.layout == "padded") pass.mutable_padded();
  return request;
}

absl::Status Run(const Flags& flags) {
  const Batch batch = MakeBatch(flags.sequences, flags.longest, kVocabulary, flags.seed);
  // Position ids run on through a sequence's padding, which is within the budget of its group.
  const uint32_t groups = flags.dynamic_context ? flags.data_parallel : 1;
  const Model model = MakeModel(size_t{flags.budget} * groups, flags.seed + 1);
  const Client client(
      flags.address.empty()
          ? MakeInProcessConnection()
          : MakeRemoteConnection(flags.address, {.default_timeout = absl::Seconds(5)}));

  const absl::StatusOr<RanksResults> ranks =
      RunRanks(client, RequestOf(flags, batch), batch, model);
  if (!ranks.ok()) return ranks.status();
  const StepResults padded = PaddedStep(batch, model);
  const absl::StatusOr<std::vector<float>> padded_means =
      PaddedReduction(batch, padded.token_losses);
  if (!padded_means.ok()) return padded_means.status();

  const std::vector<ComparedQuantity> quantities =
      Compare(ranks->results, padded, *padded_means, ranks->largest_group == 1);
  const auto tokens = std::accumulate(batch.lengths.begin(), batch.lengths.end(), uint64_t{0});
  std::fputs(absl::StrFormat(
                 "%d sequences of up to %d tokens on %d x %d ranks in groups of %s%d, %s, plan %s\n"
                 "%d micro-batches a rank; %d tokens in %d places, %d in the padded batch\n\n%s",
                 batch.sequences(), batch.width, flags.data_parallel, flags.context_parallel,
                 flags.dynamic_context ? "up to " : "", ranks->largest_group, flags.layout,
                 ranks->fingerprint.substr(0, 12), ranks->microbatches_per_rank, tokens,
                 ranks->scheduled_tokens, batch.sequences() * batch.width, TableOf(quantities))
                 .c_str(),
             stdout);
  const std::string disagreement = Disagreement(quantities);
  return disagreement.empty() ? absl::OkStatus() : absl::InternalError(disagreement);
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app("A training step on DP x CP ranks by plan, checked against the padded batch.",
               "worker_example");
  app.add_option("--address", flags.address, "HOST:PORT of a planner; none: plan in process");
  app.add_option("--dp", flags.data_parallel, "Data-parallel ranks")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  app.add_option("--cp", flags.context_parallel, "Context-parallel size")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  app.add_flag(
      "--dynamic_cp", flags.dynamic_context,
      "Context-parallel groups of one to all of the DP x CP ranks, one pool; takes no sizes, "
      "unlike the flag of batchplan");
  app.add_option("--sequences", flags.sequences, "Sequences of the batch")
      ->capture_default_str()
      ->check(CLI::Range(1, 100'000));
  app.add_option("--longest", flags.longest, "Tokens of the longest sequence, at most")
      ->capture_default_str()
      ->check(CLI::Range(1, 100'000));
  app.add_option("--budget", flags.budget,
                 "Tokens of a micro-batch [1024; with --dynamic_cp, on CP ranks, so many that the "
                 "longest sequence needs most of the pool]")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--layout", flags.layout, "packed or padded")
      ->capture_default_str()
      ->check(CLI::IsMember({"packed", "padded"}));
  app.add_option("--seed", flags.seed, "Seed of batch and model")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  if (flags.budget == 0) flags.budget = DefaultBudget(flags);

  const absl::Status status = Run(flags);
  if (status.ok()) return 0;
  std::fputs(absl::StrCat("worker_example: ", status.ToString(), "\n").c_str(), stderr);
  return 1;
}

}  // namespace
}  // namespace batchplan::examples

int main(int argc, char** argv) {
  try {
    return batchplan::examples::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "worker_example: %s\n", error.what());
    return 1;
  }
}
