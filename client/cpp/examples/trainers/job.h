// A training job as the planner sees it: batches of lengths, step after step.

#ifndef BATCHPLAN_CLIENT_CPP_EXAMPLES_TRAINERS_JOB_H_
#define BATCHPLAN_CLIENT_CPP_EXAMPLES_TRAINERS_JOB_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "batchplan/client.h"

namespace batchplan::examples {

struct Job {
  std::string name;
  std::string preset;
  uint32_t data_parallel = 8;
  // Stages of each rank's pipeline; 1: no pipeline.
  uint32_t pipeline_parallel = 1;
  // Ranks are one pool, which each slot divides into context-parallel groups of its own.
  bool dynamic_context = false;
  uint32_t budget = 16384;
  // Of a global batch; lognormal lengths, cut at `longest`.
  uint32_t sequences = 512;
  double median = 900;
  double sigma = 0.9;
  uint32_t longest = 15000;
  // More than one: each has a part of the batch, and they join.
  uint32_t workers = 1;
  // Report what micro-batches took, and plan with what is fitted to that.
  bool reports = false;
  // 0: as many as fit.
  uint32_t max_sequences_per_microbatch = 0;
  // Of the sequences that wait, chosen by the planner, by one worker; 0: all of them.
  uint32_t taken = 0;
  // The limit on a micro-batch's image patches, which an encoder computes before the rest; a third
  // of the sequences have an image. 0: there are no images.
  double patch_limit = 0;
  // A sequence is longer than the budget once in this many steps; 0: never.
  uint32_t overlong_every = 0;
};

// Those of a cluster that has something to show: reinforcement learning whose workers join and
// report, documents, pairs, a model in stages, long reasoning on context-parallel groups that
// differ in size, asynchronous reinforcement learning that takes a part of what waits, text with
// images, and one that is badly configured.
std::vector<Job> DemoJobs();

// What a worker does at a step: asks for the plan, made with what is `fitted` or not, and where the
// job reports, worker 0 tells what it took on a device whose times scatter.
absl::Status RunStep(const Client& client, const Job& job, uint32_t worker, uint64_t step,
                     bool fitted);

// Steps from `first` on, one every `interval` or so, until `stop` says so. Errors are told to
// `failed`.
void RunWorker(const Client& client, const Job& job, uint32_t worker, uint64_t first,
               absl::Duration interval, const std::function<bool()>& stop,
               const std::function<void(const absl::Status&)>& failed);

}  // namespace batchplan::examples

#endif  // BATCHPLAN_CLIENT_CPP_EXAMPLES_TRAINERS_JOB_H_
