// The metrics by job: as many series as there are labels for jobs (job_labels.h), whatever names
// clients make up.
//
//   JobMetrics jobs({.max_labels = 100}, registry);
//   jobs.CountPlan({.job_id = "grpo-7b", ...}, absl::Now());
//
// Thread-safe: all is done under one lock, since a job may lose its series to another's. Allocates
// for new jobs alone.

#ifndef BATCHPLAN_SERVER_TELEMETRY_JOB_METRICS_H_
#define BATCHPLAN_SERVER_TELEMETRY_JOB_METRICS_H_

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "server/base/mutex.h"
#include "server/telemetry/job_labels.h"
#include "server/telemetry/plan_record.h"

namespace batchplan {

class JobMetrics {
 public:
  // `registry` outlives this.
  JobMetrics(const JobLabelOptions& labels, prometheus::Registry& registry);

  JobMetrics(const JobMetrics&) = delete;
  JobMetrics& operator=(const JobMetrics&) = delete;

  // An answered plan, an answered error, what is fitted to the job now, and a measured step.
  void CountPlan(const PlanRecord& plan, absl::Time now);
  void CountError(std::string_view job_id, absl::Time now);
  void ShowFit(std::string_view job_id, const FitRecord& fit, absl::Time now);
  void CountStep(std::string_view job_id, const StepRecord& step, absl::Time now);

 private:
  // The places of a job's series in the arrays below.
  enum CounterPlace {
    kPlans,
    kErrors,
    kSequences,
    kTrueTokens,
    kLaidTokens,
    kUniqueTokens,
    kScheduledTokens,
    kNaiveTokens,
    kBudgetTokens,
    kMicrobatches,
    kLowerBoundMicrobatches,
    kCounters
  };
  enum MeanPlace {
    kBinSpread,
    kPackingEfficiency,
    kRankCostImbalance,
    kStepEfficiency,
    kStepTimeOverBound,
    kMeans
  };
  struct GroupSeries {
    prometheus::Counter* groups = nullptr;
    prometheus::Counter* tokens = nullptr;
  };
  struct FitSeries {
    prometheus::Gauge* per_token;
    prometheus::Gauge* per_token_squared;
    prometheus::Gauge* per_microbatch;
    prometheus::Gauge* per_sequence;
    // By ContextSizePlace; null where the fit has none.
    std::array<prometheus::Gauge*, kContextSizes> exchange;
    // By the name of the load.
    std::map<std::string, prometheus::Gauge*, std::less<>> loads;
    prometheus::Gauge* error;
    prometheus::Gauge* samples;
  };
  enum StepPlace { kMeasured, kPredicted, kPredictionError, kWaited, kStepMeans };
  using StepSeries = std::array<prometheus::Histogram*, kStepMeans>;
  // Of one value of the label `job_id`.
  struct Series {
    std::array<prometheus::Counter*, kCounters> counters{};
    std::array<prometheus::Histogram*, kMeans> means{};
    // Once a pass on pipelines was planned; null before.
    prometheus::Histogram* bubble = nullptr;
    // Once a pass with loads, and one with limits on them, was planned; null before.
    prometheus::Histogram* load_imbalance = nullptr;
    prometheus::Histogram* load_limit_use = nullptr;
    // Once something waited, expired or had an age; null before.
    prometheus::Counter* deferred = nullptr;
    prometheus::Counter* expired = nullptr;
    // Once something had an age; null before.
    prometheus::Histogram* age = nullptr;
    // By ContextSizePlace, once there were groups of that size where they differ; null before.
    std::array<GroupSeries, kContextSizes> groups{};
    // Once something was fitted.
    std::optional<FitSeries> fit;
    // Once a step was measured.
    std::optional<StepSeries> steps;
  };

  // The series of `job_id`, made if they are new. They are used under mutex_ too: another job may
  // replace them.
  std::pair<const std::string, Series>& SeriesOf(std::string_view job_id, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RemoveSeries(const std::string& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountGroups(const std::string& job, const PassRecord& pass, Series& series)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountWaiting(const std::string& job, const WaitingRecord& waiting, Series& series)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ShowExchange(const std::string& job, const FitRecord& fit, FitSeries& series)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ShowLoads(const std::string& job, const FitRecord& fit, FitSeries& series)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::array<prometheus::Family<prometheus::Counter>*, kCounters> counters_;
  std::array<prometheus::Family<prometheus::Histogram>*, kMeans> means_;
  prometheus::Family<prometheus::Histogram>* const bubbles_;
  prometheus::Family<prometheus::Histogram>* const load_imbalances_;
  prometheus::Family<prometheus::Histogram>* const load_limit_uses_;
  prometheus::Family<prometheus::Counter>* const groups_;
  prometheus::Family<prometheus::Counter>* const group_tokens_;
  prometheus::Family<prometheus::Histogram>* const ages_;
  prometheus::Family<prometheus::Counter>* const deferred_;
  prometheus::Family<prometheus::Counter>* const expired_;
  prometheus::Family<prometheus::Gauge>* const fitted_costs_;
  prometheus::Family<prometheus::Gauge>* const fitted_exchange_;
  prometheus::Family<prometheus::Gauge>* const fitted_loads_;
  prometheus::Family<prometheus::Gauge>* const fit_errors_;
  prometheus::Family<prometheus::Gauge>* const fit_samples_;
  std::array<prometheus::Family<prometheus::Histogram>*, kStepMeans> steps_;

  Mutex mutex_;
  JobLabels labels_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Series, std::less<>> jobs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_TELEMETRY_JOB_METRICS_H_
