// Every metric that the server exports: names, labels, buckets, in this one place.
//
//   Metrics metrics("0.1.0");
//   metrics.RecordPlan({.preset = request.preset(), .sequences = 4096, ...});
//   metrics.registry();  // for an HttpEndpoint
//
// All label values but `job` come from fixed sets, so that no client can grow the number of time
// series; a preset this version does not know is counted as "other". Jobs are bounded by JobLabels.
// Thread-safe; a record is a few atomic additions and short locks inside the histograms, and
// allocates nothing; what is recorded of a job takes a lock of its own, and allocates for new jobs.

#ifndef BATCHPLAN_SERVER_TELEMETRY_METRICS_H_
#define BATCHPLAN_SERVER_TELEMETRY_METRICS_H_

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/telemetry/job_labels.h"

namespace batchplan {

// What is recorded of one plan; of several passes, the token counts and micro-batches are sums.
struct PlanRecord {
  std::string_view preset;
  uint64_t sequences = 0;
  double planning_seconds = 0;
  uint64_t microbatches = 0;
  uint64_t true_tokens = 0;
  uint64_t scheduled_tokens = 0;
  uint64_t naive_tokens = 0;
};

// What is recorded of each pass of a plan.
struct PassRecord {
  double bin_utilization = 0;
  double rank_cost_imbalance = 0;
  double step_efficiency = 0;
};

class Metrics {
 public:
  // `version` is the label of batchplan_build_info.
  explicit Metrics(const std::string& version, const JobLabelOptions& job_labels = {});

  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // A plan that was made and answered.
  void RecordPlan(const PlanRecord& plan);
  void RecordPass(const PassRecord& pass);

  // A call that was answered with `code`, which is not OK.
  void RecordError(absl::StatusCode code);

  // The same by job, for a client's job id: a plan of so many sequences that was answered at `now`,
  // and a call that was answered with an error.
  void RecordJobPlan(std::string_view job_id, uint64_t sequences, absl::Time now);
  void RecordJobError(std::string_view job_id, absl::Time now);

  // A plan that the plan checker refused.
  void RecordCheckFailure();

  // A request entered the queue; it left the queue, for planning or because its caller is gone.
  void RecordEnqueued();
  void RecordDequeued();

  // When the server's certificate ends. Without a certificate there is no such series.
  void SetCertificateExpiry(absl::Time time);

  // What an endpoint serves. The series live as long as the registry.
  std::shared_ptr<prometheus::Registry> registry() const { return registry_; }

 private:
  // The series of one value of the label `job`.
  struct JobSeries {
    prometheus::Counter* plans;
    prometheus::Counter* sequences;
    prometheus::Counter* errors;
  };

  // Those of `job_id`, made if they are new. Under jobs_mutex_, as is their use: another job may
  // take their place.
  JobSeries& SeriesOf(std::string_view job_id, absl::Time now);
  void RemoveSeries(const std::string& job);

  std::shared_ptr<prometheus::Registry> registry_;
  // By preset name, and "unset" and "other"; fixed after construction.
  std::map<std::string, prometheus::Counter*, std::less<>> plans_;
  // By the code's number, 0 (OK) unused.
  std::array<prometheus::Counter*, 17> errors_{};
  prometheus::Counter* microbatches_;
  prometheus::Counter* true_tokens_;
  prometheus::Counter* scheduled_tokens_;
  prometheus::Counter* naive_tokens_;
  prometheus::Counter* check_failures_;
  prometheus::Gauge* queue_depth_;
  prometheus::Histogram* planning_seconds_;
  prometheus::Histogram* sequences_;
  prometheus::Histogram* bin_utilization_;
  prometheus::Histogram* rank_cost_imbalance_;
  prometheus::Histogram* step_efficiency_;

  prometheus::Family<prometheus::Counter>* job_plans_;
  prometheus::Family<prometheus::Counter>* job_sequences_;
  prometheus::Family<prometheus::Counter>* job_errors_;
  std::mutex jobs_mutex_;
  // Guarded by jobs_mutex_.
  JobLabels job_labels_;
  std::map<std::string, JobSeries, std::less<>> jobs_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_TELEMETRY_METRICS_H_
