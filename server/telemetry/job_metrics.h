// Metrics by job. There are at most as many series as labels for jobs (job_labels.h), whatever
// names clients invent.
//
//   JobMetrics jobs({.max_labels = 100}, registry);
//   jobs.CountPlan({.job_id = "grpo-7b", ...}, absl::Now());
//
// Thread-safe: everything happens under one lock, since a job may lose its series to another.
// Allocates only for new jobs.

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

  // Counts an answered plan or error; shows the current fit; counts a measured step.
  void CountPlan(const PlanRecord& plan, absl::Time now);
  void CountError(std::string_view job_id, absl::Time now);
  void ShowFit(std::string_view job_id, const FitRecord& fit, absl::Time now);
  void CountStep(std::string_view job_id, const StepRecord& step, absl::Time now);

 private:
  // Indexes of a job's series in the arrays below.
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
    // Indexed by ContextSizePlace; null for sizes that the fit does not have.
    std::array<prometheus::Gauge*, kContextSizes> exchange;
    // Keyed by the load's name.
    std::map<std::string, prometheus::Gauge*, std::less<>> loads;
    prometheus::Gauge* error;
    prometheus::Gauge* samples;
  };
  enum StepPlace { kMeasured, kPredicted, kPredictionError, kWaited, kStepMeans };
  using StepSeries = std::array<prometheus::Histogram*, kStepMeans>;
  // The series for one value of the label `job_id`.
  struct Series {
    std::array<prometheus::Counter*, kCounters> counters{};
    std::array<prometheus::Histogram*, kMeans> means{};
    // Null until a pass on pipelines is planned.
    prometheus::Histogram* bubble = nullptr;
    // Null until a pass with loads is planned; the second, until one with limits is.
    prometheus::Histogram* load_imbalance = nullptr;
    prometheus::Histogram* load_limit_use = nullptr;
    // Null until a sequence is deferred or expired, or has an age.
    prometheus::Counter* deferred = nullptr;
    prometheus::Counter* expired = nullptr;
    // Null until a sequence has an age.
    prometheus::Histogram* age = nullptr;
    // Indexed by ContextSizePlace; null until there are such groups in a plan whose groups differ
    // in size.
    std::array<GroupSeries, kContextSizes> groups{};
    // None until something is fitted.
    std::optional<FitSeries> fit;
    // None until a step is measured.
    std::optional<StepSeries> steps;
  };

  // The series of `job_id`, made if new. To be used under mutex_ too, since another job may replace
  // them.
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
