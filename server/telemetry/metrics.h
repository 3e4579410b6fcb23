// What the server counts and measures, for Prometheus.
//
//   Metrics metrics("0.2.0");
//   metrics.RecordPlan({.job_id = request.job_id(), .preset = request.preset(), ...}, absl::Now());
//   metrics.collectable();  // for an HttpEndpoint
//
// Names and meanings are in the catalog (metric_catalog.h). A method, preset or code that this
// version does not know counts as "other" or UNKNOWN, so that clients can't add time series.
// Thread-safe: a record needs a few atomic additions and short locks in histograms, and a lock if
// it is of a job. Allocates only for something new: a job, or a preset with a new class of sizes.

#ifndef BATCHPLAN_SERVER_TELEMETRY_METRICS_H_
#define BATCHPLAN_SERVER_TELEMETRY_METRICS_H_

#include <prometheus/collectable.h>
#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/telemetry/job_labels.h"
#include "server/telemetry/job_metrics.h"
#include "server/telemetry/plan_record.h"

namespace batchplan {

// Why a call was refused for lack of memory or time.
enum class Refusal {
  // There was no room, and its job may not displace another's call.
  kQueueFull,
  // It waited, and a call of a job that holds less displaced it.
  kPushedOut,
  // Its deadline would have passed before the work queued ahead was done.
  kDeadline,
  // Planning it exceeded the time limit.
  kTooLong,
  // Callers do not read their answers, so that this one or another was dropped.
  kUnread,
};

// The joins that wait on this replica for other workers, and their steps.
struct JoinsRecord {
  uint64_t waiting = 0;
  uint64_t steps = 0;
};

// The content of the store in memory.
struct StoreRecord {
  uint64_t steps = 0;
  uint64_t parts = 0;
  uint64_t bytes = 0;
};

// The calls of the rendezvous store.
enum class StoreOperation {
  kPutPart,
  kProgress,
  kLeave,
  kParts,
  kPutOutcome,
  kPlan,
  kMarkServed,
  kRestore,
  kGetFit,
  kReplaceFit
};

class Metrics {
 public:
  // `version` is a label of batchplan_build_info.
  explicit Metrics(const std::string& version, const JobLabelOptions& job_labels = {});

  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // A call of an RPC such as "PlanBatch" begins; it is answered after `seconds`.
  void BeginCall(std::string_view method);
  void EndCall(std::string_view method, absl::StatusCode code, double seconds);
  // A call was refused before it could begin.
  void RecordTurnedAway(std::string_view method, absl::StatusCode code);

  // A plan was made and its answer sent at `now`.
  void RecordPlan(const PlanRecord& plan, absl::Time now);

  // A job's call got an error at `now`; the current fit of a job's reports; a measured step of a
  // job.
  void RecordJobError(std::string_view job_id, absl::Time now);
  void RecordJobFit(std::string_view job_id, const FitRecord& fit, absl::Time now);
  void RecordJobStep(std::string_view job_id, const StepRecord& step, absl::Time now);

  // The plan checker refused a plan.
  void RecordCheckFailure();

  // The current number of requests that wait for a planning thread, and of sequences that wait or
  // are being planned.
  void RecordQueue(uint64_t waiting, uint64_t sequences);

  // How long a request waited for its planning thread.
  void RecordQueueSeconds(double seconds);

  // A call was refused; EndCall counts it too.
  void RecordRefusal(Refusal reason);

  // The current memory of answers that callers have not read yet.
  void RecordUnsent(uint64_t bytes);

  // A look-up in the plan cache, and its current content.
  void RecordCacheLookup(bool hit);
  void RecordCacheSize(size_t plans, size_t bytes);

  // The current joins and store; how a worker's part was answered, and after how long.
  void RecordJoins(const JoinsRecord& joins);
  void RecordJoin(const absl::Status& answer, double seconds);
  void RecordStore(const StoreRecord& store);
  // A call of the store and its duration. NotFound counts as an answer, not as a failure.
  void RecordStoreCall(StoreOperation operation, absl::StatusCode code, double seconds);

  // The expiry of the server's certificate. Without a certificate there is no such series.
  void SetCertificateExpiry(absl::Time time);

  // Whether the server accepts new connections; true at the start.
  void SetAccepting(bool accepting);

  // The series for an endpoint; may outlive this object.
  std::shared_ptr<prometheus::Collectable> collectable() const;

 private:
  static constexpr size_t kMethods = 4;
  static constexpr size_t kCodes = 17;
  static constexpr size_t kPresets = 13;
  static constexpr size_t kSizes = 4;
  static constexpr size_t kRefusals = 5;
  static constexpr size_t kJoinOutcomes = 6;
  static constexpr size_t kStoreOperations = 10;

  struct MethodSeries {
    // Indexed by the code's number.
    std::array<prometheus::Counter*, kCodes> requests{};
    prometheus::Histogram* seconds = nullptr;
    prometheus::Gauge* in_flight = nullptr;
  };
  struct StoreSeries {
    prometheus::Histogram* seconds = nullptr;
    prometheus::Counter* errors = nullptr;
  };

  prometheus::Histogram& PlanningSeconds(size_t preset, uint64_t sequences);
  void RecordGroups(const PassRecord& pass);

  const std::shared_ptr<prometheus::Registry> registry_;
  std::array<MethodSeries, kMethods> methods_;
  std::array<prometheus::Counter*, kRefusals> refusals_{};
  prometheus::Gauge* const queue_depth_;
  prometheus::Gauge* const queue_sequences_;
  prometheus::Histogram* const queue_seconds_;
  std::array<prometheus::Counter*, kPresets> plans_{};
  // Each is made when first needed, since most never are.
  prometheus::Family<prometheus::Histogram>* const planning_seconds_;
  std::array<std::array<std::atomic<prometheus::Histogram*>, kSizes>, kPresets>
      planning_seconds_of_{};
  prometheus::Histogram* const sequences_;
  prometheus::Counter* const microbatches_;
  prometheus::Counter* const lower_bound_microbatches_;
  prometheus::Counter* const true_tokens_;
  prometheus::Counter* const laid_tokens_;
  prometheus::Counter* const unique_tokens_;
  prometheus::Counter* const scheduled_tokens_;
  prometheus::Counter* const naive_tokens_;
  prometheus::Counter* const budget_tokens_;
  prometheus::Histogram* const bin_utilization_;
  prometheus::Histogram* const bin_spread_;
  prometheus::Histogram* const packing_efficiency_;
  prometheus::Histogram* const padding_removed_;
  prometheus::Histogram* const rank_cost_imbalance_;
  prometheus::Histogram* const step_efficiency_;
  prometheus::Histogram* const step_time_over_bound_;
  prometheus::Histogram* const pipeline_bubble_;
  // Series are made when first needed, since few jobs have groups that differ in size.
  prometheus::Family<prometheus::Counter>* const context_groups_;
  prometheus::Family<prometheus::Counter>* const context_group_tokens_;
  prometheus::Histogram* const mean_age_;
  prometheus::Counter* const deferred_;
  prometheus::Counter* const expired_;
  prometheus::Counter* const check_failures_;
  prometheus::Counter* const cache_hits_;
  prometheus::Counter* const cache_misses_;
  prometheus::Gauge* const cache_plans_;
  prometheus::Gauge* const cache_bytes_;
  prometheus::Gauge* const unsent_bytes_;
  JobMetrics jobs_;
  prometheus::Gauge* const joins_waiting_;
  prometheus::Gauge* const joined_steps_;
  std::array<prometheus::Counter*, kJoinOutcomes> joins_{};
  prometheus::Histogram* const join_seconds_;
  std::array<StoreSeries, kStoreOperations> store_calls_{};
  prometheus::Gauge* const store_up_;
  prometheus::Gauge* const accepting_;
  prometheus::Gauge* const memory_steps_;
  prometheus::Gauge* const memory_parts_;
  prometheus::Gauge* const memory_bytes_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_TELEMETRY_METRICS_H_
