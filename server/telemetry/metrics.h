// What the server counts and measures, for Prometheus.
//
//   Metrics metrics("0.2.0");
//   metrics.RecordPlan({.job_id = request.job_id(), .preset = request.preset(), ...}, absl::Now());
//   metrics.collectable();  // for an HttpEndpoint
//
// Names and meanings are the catalog's (metric_catalog.h). A method, preset or code that this
// version does not know is counted as "other" or UNKNOWN, so that no client can grow the number of
// time series. Thread-safe; a record is a few atomic additions and short locks inside the
// histograms; what is recorded of a job takes a lock of its own. Allocates for what is new: a job,
// or a preset with a size of batch.

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

// Why a call was refused for its memory or time.
enum class Refusal {
  // No room, and its job may not displace another's call.
  kQueueFull,
  // It waited, and was displaced by a call of a job that holds less.
  kPushedOut,
  // The work queued before it would have outlasted its deadline.
  kDeadline,
  // Its planning exceeded the time limit.
  kTooLong,
  // Its answer, or another, gave way: callers don't read what they have asked for.
  kUnread,
};

// What waits for other workers on this replica.
struct JoinsRecord {
  uint64_t waiting = 0;
  uint64_t steps = 0;
};

// What the store in memory holds.
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
  kMarkServed,
  kRestore,
  kGetFit,
  kReplaceFit
};

class Metrics {
 public:
  // `version` is the label of batchplan_build_info.
  explicit Metrics(const std::string& version, const JobLabelOptions& job_labels = {});

  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // The beginning of a call of an RPC ("PlanBatch"), and its answer with the time it took.
  void BeginCall(std::string_view method);
  void EndCall(std::string_view method, absl::StatusCode code, double seconds);
  // One that was refused before it could begin.
  void RecordTurnedAway(std::string_view method, absl::StatusCode code);

  // A plan that was made and answered at `now`.
  void RecordPlan(const PlanRecord& plan, absl::Time now);

  // A job's call that was answered with an error at `now`, what is fitted to its reports, and what
  // a step of it took.
  void RecordJobError(std::string_view job_id, absl::Time now);
  void RecordJobFit(std::string_view job_id, const FitRecord& fit, absl::Time now);
  void RecordJobStep(std::string_view job_id, const StepRecord& step, absl::Time now);

  // A plan that the plan checker refused.
  void RecordCheckFailure();

  // The requests that wait for a planning thread, and the sequences of those and of the ones that
  // are planned, as they are now.
  void RecordQueue(uint64_t waiting, uint64_t sequences);

  // How long a request waited for its planning thread.
  void RecordQueueSeconds(double seconds);

  // A call that was refused; EndCall counts it too.
  void RecordRefusal(Refusal reason);

  // The memory of answers that their callers have not read yet, as it is now.
  void RecordUnsent(uint64_t bytes);

  // A look-up in the plan cache; and what it holds, as it is now.
  void RecordCacheLookup(bool hit);
  void RecordCacheSize(size_t plans, size_t bytes);

  // Collective plans, as they are now; how a worker's part was answered, and after how long.
  void RecordJoins(const JoinsRecord& joins);
  void RecordJoin(const absl::Status& answer, double seconds);
  void RecordStore(const StoreRecord& store);
  // A call of the store, with the time it took. NotFound is an answer, no failure.
  void RecordStoreCall(StoreOperation operation, absl::StatusCode code, double seconds);

  // When the server's certificate ends. Without a certificate there is no such series.
  void SetCertificateExpiry(absl::Time time);

  // Whether the server takes new connections; true at first.
  void SetAccepting(bool accepting);

  // What an endpoint serves; may outlive this.
  std::shared_ptr<prometheus::Collectable> collectable() const;

 private:
  static constexpr size_t kMethods = 4;
  static constexpr size_t kCodes = 17;
  static constexpr size_t kPresets = 13;
  static constexpr size_t kSizes = 4;
  static constexpr size_t kRefusals = 5;
  static constexpr size_t kJoinOutcomes = 6;
  static constexpr size_t kStoreOperations = 9;

  struct MethodSeries {
    // By the code's number.
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
  // Made when first needed: most never are.
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
  // Of which series are made as they are needed: few jobs have groups that differ in size.
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
