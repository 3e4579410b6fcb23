#include "client/cpp/examples/trainers/job.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"

namespace batchplan::examples {
namespace {

// The same for a job, worker and step: a worker that joins a step again must bring the same part.
std::mt19937_64 RandomOf(const Job& job, uint32_t worker, uint64_t step) {
  std::seed_seq seed = {std::hash<std::string>{}(job.name), uint64_t{worker}, step};
  return std::mt19937_64(seed);
}

constexpr char kPatches[] = "patches";

void AddPatches(double limit, std::mt19937_64& random, v1::PlanBatchRequest* request) {
  v1::Load* patches = request->mutable_manifest()->add_loads();
  patches->set_name(kPatches);
  std::bernoulli_distribution has_image(1.0 / 3);
  std::uniform_int_distribution<uint32_t> size(256, 4096);
  for (int i = 0; i < request->manifest().lengths_size(); ++i) {
    patches->add_values(has_image(random) ? size(random) : 0);
  }
  v1::CostModel* costs = request->mutable_cost_model();
  v1::LoadCost* encoder = costs->add_loads();
  encoder->set_load(kPatches);
  encoder->set_separate(true);
  if (!costs->fitted()) {
    costs->set_per_token(1);
    costs->set_per_token_squared(1.0 / 24576);
    encoder->set_per_unit(0.2);
  }
  v1::LoadLimit* most = request->mutable_passes(0)->add_limits();
  most->set_load(kPatches);
  most->set_max_per_microbatch(limit);
}

v1::PlanBatchRequest RequestOf(const Job& job, uint32_t worker, uint64_t step, bool fitted) {
  v1::PlanBatchRequest request;
  request.set_job_id(job.name);
  request.set_step(step);
  request.set_preset(job.preset);
  request.mutable_topology()->set_data_parallel(job.data_parallel);
  request.mutable_topology()->set_pipeline_parallel(job.pipeline_parallel);
  if (job.dynamic_context) request.mutable_topology()->mutable_dynamic_context();
  if (fitted) request.mutable_cost_model()->set_fitted(true);
  v1::Pass& pass = *request.add_passes();
  pass.set_max_tokens_per_microbatch(job.budget);
  pass.set_max_sequences_per_microbatch(job.max_sequences_per_microbatch);
  std::mt19937_64 random = RandomOf(job, worker, step);
  std::lognormal_distribution<double> length(std::log(job.median), job.sigma);
  for (uint32_t i = 0; i < job.sequences / job.workers; ++i) {
    request.mutable_manifest()->add_lengths(
        static_cast<uint32_t>(std::clamp<double>(length(random), 16, job.longest)));
  }
  if (job.taken > 0) {
    // A few are old, and a third of these too old.
    constexpr uint32_t kMaxAge = 4;
    std::geometric_distribution<uint32_t> age(0.6);
    for (uint32_t i = 0; i < job.sequences; ++i) {
      request.mutable_manifest()->add_ages(std::min(age(random), kMaxAge + 1));
    }
    request.mutable_selection()->set_sequences(job.taken);
    request.mutable_selection()->set_max_age(kMaxAge);
    request.mutable_selection()->set_max_overtaking(job.taken / 4);
  }
  if (job.patch_limit > 0) AddPatches(job.patch_limit, random, &request);
  if (job.overlong_every > 0 && step % job.overlong_every == 0) {
    request.mutable_manifest()->add_lengths(job.budget + 1);
  }
  return request;
}

// The timing of micro-batch `m`, with its tokens and the loads that the manifest has.
v1::MicrobatchTiming Microbatch(const v1::Manifest& manifest, const v1::PassPlan& pass, int m) {
  v1::MicrobatchTiming timing;
  timing.set_sequences(pass.microbatch_offsets(m + 1) - pass.microbatch_offsets(m));
  for (uint32_t i = pass.microbatch_offsets(m); i < pass.microbatch_offsets(m + 1); ++i) {
    const uint64_t length = pass.sequence_lengths(static_cast<int>(i));
    timing.set_tokens(timing.tokens() + length);
    timing.set_tokens_squared(timing.tokens_squared() + length * length);
  }
  for (const v1::Load& load : manifest.loads()) {
    double sum = 0;
    for (uint32_t i = pass.microbatch_offsets(m); i < pass.microbatch_offsets(m + 1); ++i) {
      sum += load.values(static_cast<int>(pass.sequence_index(static_cast<int>(i))));
    }
    timing.add_loads(sum);
  }
  return timing;
}

// The micro-batches of a plan's first pass, each with its place.
std::vector<v1::MicrobatchTiming> Microbatches(const Job& job, const v1::Manifest& manifest,
                                               const v1::PassPlan& pass) {
  std::vector<v1::MicrobatchTiming> microbatches;
  int m = 0;
  const auto add = [&](uint32_t mini_batch, uint32_t rank, uint32_t slot, uint32_t group) {
    v1::MicrobatchTiming timing = Microbatch(manifest, pass, m);
    timing.set_context_parallel(group);
    timing.set_rank(rank);
    timing.set_slot(slot);
    timing.set_mini_batch(mini_batch);
    microbatches.push_back(std::move(timing));
  };
  uint32_t mini_batch = 0;
  for (const uint32_t slots : pass.microbatches_per_rank()) {
    if (job.dynamic_context) {
      // Every rank of a group reports the group's micro-batch.
      for (uint32_t slot = 0; slot < slots; ++slot) {
        for (uint32_t rank = 0; rank < job.data_parallel; ++m) {
          const uint32_t group = pass.context_sizes(m);
          for (uint32_t place = 0; place < group; ++place) add(mini_batch, rank++, slot, group);
        }
      }
    } else {
      for (uint32_t rank = 0; rank < job.data_parallel; ++rank) {
        for (uint32_t slot = 0; slot < slots; ++slot, ++m) add(mini_batch, rank, slot, 1);
      }
    }
    ++mini_batch;
  }
  return microbatches;
}

// A report of a device with costs of its own and an occasional straggler. If the job has loads,
// `manifest` has the whole batch.
v1::ReportStepRequest ReportOf(const Job& job, uint64_t step, const v1::Manifest& manifest,
                               const v1::PlanBatchResponse& plan, bool fitted) {
  constexpr double kPerToken = 2e-2;
  constexpr double kPerTokenSquared = 8e-7;
  constexpr double kPerMicrobatch = 4;
  constexpr double kPerPatch = 5e-3;
  constexpr double kExchangedPerToken = 1e-3;
  constexpr uint64_t kBytesPerToken = 2 << 20;
  constexpr uint64_t kBytesBeside = uint64_t{20} << 30;
  v1::ReportStepRequest report;
  report.set_job_id(job.name);
  report.set_step(step);
  report.set_memory_limit_bytes(uint64_t{80} << 30);
  std::mt19937_64 random = RandomOf(job, job.workers, step);
  std::normal_distribution<double> noise(1, 0.02);
  std::bernoulli_distribution straggles(0.002);
  const v1::PassPlan& pass = plan.passes(0);
  report.set_data_parallel(job.data_parallel);
  for (const v1::Load& load : manifest.loads()) report.add_loads(load.name());
  // Costs that are not fitted do not predict milliseconds.
  if (fitted) report.set_predicted_step_time(pass.metrics().predicted_step_time());
  for (v1::MicrobatchTiming& timing : Microbatches(job, manifest, pass)) {
    const auto tokens = static_cast<double>(timing.tokens());
    const double ranks = timing.context_parallel();
    double cost =
        (kPerToken * tokens + kPerTokenSquared * static_cast<double>(timing.tokens_squared()) +
         kExchangedPerToken * tokens * (ranks - 1)) /
            ranks +
        kPerMicrobatch;
    for (const double patches : timing.loads()) cost += kPerPatch * patches;
    timing.set_milliseconds(cost * std::max(noise(random), 0.5) * (straggles(random) ? 3 : 1));
    timing.set_peak_bytes(kBytesBeside + kBytesPerToken * timing.tokens());
    *report.add_microbatches() = std::move(timing);
  }
  return report;
}

absl::StatusOr<v1::PlanBatchResponse> Plan(const Client& client, const Job& job, uint32_t worker,
                                           const v1::PlanBatchRequest& request) {
  if (job.workers == 1) return client.PlanBatch(request);
  v1::JoinBatchRequest part;
  *part.mutable_request() = request;
  part.set_worker(worker);
  part.set_world_size(job.workers);
  absl::StatusOr<v1::JoinBatchResponse> joined = client.JoinBatch(part);
  if (!joined.ok()) return joined.status();
  return std::move(*joined->mutable_plan());
}

}  // namespace

std::vector<Job> DemoJobs() {
  return {
      {.name = "grpo-7b", .preset = "balanced", .sequences = 512, .workers = 4, .reports = true},
      {.name = "sft-documents",
       .preset = "balanced",
       .budget = 8192,
       .sequences = 2048,
       .median = 400,
       .sigma = 1.2,
       .longest = 8000},
      {.name = "dpo-pairs", .preset = "nemo_rl_packing", .sequences = 256, .median = 600},
      {.name = "sft-70b", .preset = "balanced", .pipeline_parallel = 4, .sequences = 256},
      {.name = "rl-long-reasoning",
       .preset = "balanced",
       .dynamic_context = true,
       .sequences = 128,
       .median = 3000,
       .sigma = 1.4,
       .longest = 120000,
       .reports = true},
      {.name = "grpo-asynchronous",
       .preset = "balanced",
       .sequences = 768,
       .median = 900,
       .taken = 512},
      {.name = "sft-images",
       .preset = "balanced",
       .sequences = 256,
       .median = 700,
       .reports = true,
       .patch_limit = 24576},
      // A padded job with few sequences a micro-batch, and sometimes a sequence that does not fit.
      {.name = "sft-misconfigured",
       .preset = "nemo_rl_dynamic",
       .budget = 32768,
       .sequences = 256,
       .median = 500,
       .sigma = 1.2,
       .longest = 12000,
       .max_sequences_per_microbatch = 4,
       .overlong_every = 5},
  };
}

absl::Status RunStep(const Client& client, const Job& job, uint32_t worker, uint64_t step,
                     bool fitted) {
  const v1::PlanBatchRequest request = RequestOf(job, worker, step, fitted);
  const absl::StatusOr<v1::PlanBatchResponse> plan = Plan(client, job, worker, request);
  if (!plan.ok() || !job.reports || worker != 0) return plan.status();
  return client.ReportStep(ReportOf(job, step, request.manifest(), *plan, fitted)).status();
}

void RunWorker(const Client& client, const Job& job, uint32_t worker, uint64_t first,
               absl::Duration interval, const std::function<bool()>& stop,
               const std::function<void(const absl::Status&)>& failed) {
  // Workers of a step must agree on this. They do: the first step's report precedes the second
  // step, and if there is no fit, all workers of a step are told so.
  bool fitted = false;
  for (uint64_t step = first; !stop(); ++step) {
    const absl::Time next = absl::Now() + interval;
    const absl::Status status = RunStep(client, job, worker, step, fitted);
    fitted = job.reports && !absl::IsFailedPrecondition(status);
    if (!status.ok()) failed(status);
    while (absl::Now() < next && !stop()) absl::SleepFor(absl::Milliseconds(20));
  }
}

}  // namespace batchplan::examples
