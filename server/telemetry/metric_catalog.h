// All metrics that the server exports: names, types, labels, meanings and buckets, and how to make
// their series. deploy/metrics.md is the output of MetricTable().
//
// Base units everywhere. No label has values that clients can multiply: `job_id` is one of
// --max_job_labels, "other" or "unset" (job_labels.h), and all other labels have fixed values.

#ifndef BATCHPLAN_SERVER_TELEMETRY_METRIC_CATALOG_H_
#define BATCHPLAN_SERVER_TELEMETRY_METRIC_CATALOG_H_

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <span>
#include <string>

namespace batchplan {

enum class MetricType { kCounter, kGauge, kHistogram };

struct MetricDefinition {
  const char* name;
  MetricType type;
  // Names separated by commas; empty if there are none.
  const char* labels;
  const char* help;
  // Upper bounds of a histogram's buckets. Without them, it has only sum and count.
  std::span<const double> buckets = {};
};

namespace metric {

inline constexpr auto kCounter = MetricType::kCounter;
inline constexpr auto kGauge = MetricType::kGauge;
inline constexpr auto kHistogram = MetricType::kHistogram;

inline constexpr double kSecondsBuckets[] = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005,
                                             0.01,   0.025,   0.05,   0.1,   0.25,   0.5,
                                             1,      2.5,     5,      10};
// For calls, which may wait for other workers.
inline constexpr double kLongSecondsBuckets[] = {0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                                                 0.05,    0.1,    0.25,  0.5,    1,     2.5,  5,
                                                 10,      30,     60,    300,    600};
inline constexpr double kSequencesBuckets[] = {16,    64,    256,    1024,    4096,
                                               16384, 65536, 262144, 1048576, 4194304};
// For ratios whose best value is 1.
inline constexpr double kShareBuckets[] = {0.1, 0.2,  0.3, 0.4,  0.5,  0.6,  0.7,
                                           0.8, 0.85, 0.9, 0.95, 0.98, 0.99, 1};
// For ratios whose best value is 0.
inline constexpr double kSpreadBuckets[] = {0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1, 2};
// For ratios of at least 1, which is best.
inline constexpr double kExcessBuckets[] = {1, 1.001, 1.005, 1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2, 4};
inline constexpr double kAgeBuckets[] = {0, 0.5, 1, 2, 3, 4, 6, 8, 12, 16, 32};

inline constexpr MetricDefinition kBuildInfo = {"batchplan_build_info", kGauge, "version",
                                                "Always 1; the label tells the version."};

// Calls.
inline constexpr MetricDefinition kRequests = {
    "batchplan_requests_total", kCounter, "method, code",
    "Calls answered, by gRPC status code. Calls without a valid token count here alone."};
inline constexpr MetricDefinition kRequestSeconds = {
    "batchplan_request_seconds", kHistogram, "method",
    "From a call's message to its answer, queues included; JoinBatch waits for other workers.",
    kLongSecondsBuckets};
inline constexpr MetricDefinition kRequestsInFlight = {"batchplan_requests_in_flight", kGauge,
                                                       "method", "Calls that have no answer yet."};
inline constexpr MetricDefinition kRefusals = {
    "batchplan_refusals_total", kCounter, "reason",
    "Calls that were refused for what they take: the planning queue was full (queue_full), another "
    "job had the better claim (pushed_out), the work ahead would have outlasted the call "
    "(deadline), planning took too long (too_long), or answers are not read (unread)."};
inline constexpr MetricDefinition kUnsentBytes = {
    "batchplan_unsent_bytes", kGauge, "", "Bytes of answers that their callers have not read yet."};
inline constexpr MetricDefinition kQueueDepth = {"batchplan_queue_depth", kGauge, "",
                                                 "Requests waiting for a planning thread."};
inline constexpr MetricDefinition kQueueSequences = {
    "batchplan_queue_sequences", kGauge, "", "Sequences of the requests that wait or are planned."};
inline constexpr MetricDefinition kQueueSeconds = {"batchplan_queue_seconds", kHistogram, "",
                                                   "Time spent waiting for a planning thread.",
                                                   kSecondsBuckets};

// Plans.
inline constexpr MetricDefinition kPlans = {
    "batchplan_plans_total", kCounter, "preset",
    "Plans answered, from the plan cache too. A joined step counts once, here as in what follows: "
    "by the replica that recorded its outcome."};
inline constexpr MetricDefinition kPlanningSeconds = {
    "batchplan_planning_seconds", kHistogram, "preset, size",
    "Time spent planning, without queue and transfer; by preset and number of sequences: up to "
    "256, 4096 or 65536, or more.",
    kSecondsBuckets};
inline constexpr MetricDefinition kSequences = {"batchplan_sequences_per_plan", kHistogram, "",
                                                "Sequences of a plan.", kSequencesBuckets};
inline constexpr MetricDefinition kMicrobatches = {"batchplan_microbatches_total", kCounter, "",
                                                   "Micro-batches planned."};
inline constexpr MetricDefinition kLowerBoundMicrobatches = {
    "batchplan_lower_bound_microbatches_total", kCounter, "",
    "Micro-batches that no plan of the same batches could do without."};
inline constexpr MetricDefinition kTrueTokens = {
    "batchplan_true_tokens_total", kCounter, "",
    "Tokens planned, as the callers' sequences have them."};
inline constexpr MetricDefinition kLaidTokens = {
    "batchplan_laid_tokens_total", kCounter, "",
    "Tokens that micro-batches compute, without padding: true tokens, but what sequences of a row "
    "share (Manifest.shared_prefixes) once."};
inline constexpr MetricDefinition kUniqueTokens = {
    "batchplan_unique_tokens_total", kCounter, "",
    "The least that any plan of the same batches lays, with each mini-batch in one row."};
inline constexpr MetricDefinition kScheduledTokens = {"batchplan_scheduled_tokens_total", kCounter,
                                                      "", "Tokens planned, with all padding."};
inline constexpr MetricDefinition kNaiveTokens = {
    "batchplan_naive_tokens_total", kCounter, "",
    "Tokens that each batch would have taken padded to its longest, or to Manifest.pad_to."};
inline constexpr MetricDefinition kBudgetTokens = {
    "batchplan_budget_tokens_total", kCounter, "",
    "Tokens that the micro-batches planned would have had room for."};
inline constexpr MetricDefinition kBinUtilization = {
    "batchplan_bin_utilization", kHistogram, "",
    "Tokens laid over the token budget of all micro-batches, of each pass.", kShareBuckets};
inline constexpr MetricDefinition kBinSpread = {
    "batchplan_bin_spread", kHistogram, "",
    "Standard deviation of the micro-batches' utilization over its mean, of each pass: 1 less the "
    "plan's bin_balance.",
    kSpreadBuckets};
inline constexpr MetricDefinition kPackingEfficiency = {
    "batchplan_packing_efficiency", kHistogram, "",
    "Micro-batches that the tokens alone would need over those planned, of each pass.",
    kShareBuckets};
inline constexpr MetricDefinition kPaddingRemoved = {
    "batchplan_padding_removed", kHistogram, "",
    "The part of the padded batch's tokens that is not scheduled, of each pass; 0 if there are "
    "more.",
    kShareBuckets};
inline constexpr MetricDefinition kRankCostImbalance = {
    "batchplan_rank_cost_imbalance", kHistogram, "",
    "Predicted cost of the most loaded data-parallel rank over the mean, of each pass.",
    kExcessBuckets};
inline constexpr MetricDefinition kStepEfficiency = {
    "batchplan_step_efficiency", kHistogram, "",
    "Ideal step time over the predicted one, of each pass.", kShareBuckets};
inline constexpr MetricDefinition kStepTimeOverBound = {
    "batchplan_step_time_over_bound", kHistogram, "",
    "Predicted step time over a bound that no plan goes below, of each pass.", kExcessBuckets};
inline constexpr MetricDefinition kPipelineBubble = {
    "batchplan_pipeline_bubble", kHistogram, "",
    "The part of the predicted step time in which the busiest stage of the slowest rank's pipeline "
    "waits, in lockstep that of the slots' costliest micro-batches, of each pass on pipelines.",
    kSpreadBuckets};
inline constexpr MetricDefinition kContextGroups = {
    "batchplan_context_groups_total", kCounter, "context_parallel",
    "Context-parallel groups planned where they differ in size, one a micro-batch; by size, a "
    "power "
    "of two, or other: pools that are none."};
inline constexpr MetricDefinition kContextGroupTokens = {
    "batchplan_context_group_tokens_total", kCounter, "context_parallel",
    "Tokens planned on such groups, with all padding, by size."};
inline constexpr MetricDefinition kMeanAge = {
    "batchplan_mean_age_steps", kHistogram, "",
    "Training steps since the weights that made a sequence, the mean of what is trained; of each "
    "plan with max_age, or with ages above 0.",
    kAgeBuckets};
inline constexpr MetricDefinition kDeferred = {
    "batchplan_deferred_sequences_total", kCounter, "",
    "Sequences that a selection puts off, again at every plan."};
inline constexpr MetricDefinition kExpired = {
    "batchplan_expired_sequences_total", kCounter, "",
    "Sequences that were not trained, as older than a selection's max_age."};
inline constexpr MetricDefinition kCheckFailures = {
    "batchplan_plan_check_failures_total", kCounter, "",
    "Plans that the plan checker refused (--verify_plans): defects."};

// The plan cache.
inline constexpr MetricDefinition kCacheHits = {
    "batchplan_plan_cache_hits_total", kCounter, "",
    "Plans answered from the plan cache; plans_total counts them too."};
inline constexpr MetricDefinition kCacheMisses = {
    "batchplan_plan_cache_misses_total", kCounter, "",
    "Requests whose plan the plan cache did not have."};
inline constexpr MetricDefinition kCachePlans = {"batchplan_plan_cache_plans", kGauge, "",
                                                 "Plans in the plan cache."};
inline constexpr MetricDefinition kCacheBytes = {"batchplan_plan_cache_bytes", kGauge, "",
                                                 "Bytes of the plan cache."};

// Jobs.
inline constexpr MetricDefinition kJobPlans = {"batchplan_job_plans_total", kCounter, "job_id",
                                               "Plans made, or answered from the plan cache."};
inline constexpr MetricDefinition kJobErrors = {"batchplan_job_errors_total", kCounter, "job_id",
                                                "Calls answered with an error."};
inline constexpr MetricDefinition kJobSequences = {"batchplan_job_sequences_total", kCounter,
                                                   "job_id", "Sequences planned."};
inline constexpr MetricDefinition kJobTrueTokens = {
    "batchplan_job_true_tokens_total", kCounter, "job_id",
    "Tokens planned, as the job's sequences have them."};
inline constexpr MetricDefinition kJobLaidTokens = {"batchplan_job_laid_tokens_total", kCounter,
                                                    "job_id", "As batchplan_laid_tokens_total."};
inline constexpr MetricDefinition kJobUniqueTokens = {
    "batchplan_job_unique_tokens_total", kCounter, "job_id", "As batchplan_unique_tokens_total."};
inline constexpr MetricDefinition kJobScheduledTokens = {"batchplan_job_scheduled_tokens_total",
                                                         kCounter, "job_id",
                                                         "Tokens planned, with all padding."};
inline constexpr MetricDefinition kJobNaiveTokens = {
    "batchplan_job_naive_tokens_total", kCounter, "job_id",
    "Tokens that each batch would have taken padded to its longest, or to Manifest.pad_to."};
inline constexpr MetricDefinition kJobBudgetTokens = {
    "batchplan_job_budget_tokens_total", kCounter, "job_id",
    "Tokens that the micro-batches planned would have had room for."};
inline constexpr MetricDefinition kJobMicrobatches = {"batchplan_job_microbatches_total", kCounter,
                                                      "job_id", "Micro-batches planned."};
inline constexpr MetricDefinition kJobLowerBoundMicrobatches = {
    "batchplan_job_lower_bound_microbatches_total", kCounter, "job_id",
    "Micro-batches that no plan of the same batches could do without."};
inline constexpr MetricDefinition kJobBinSpread = {
    "batchplan_job_bin_spread", kHistogram, "job_id",
    "As batchplan_bin_spread; sum over count is the mean."};
inline constexpr MetricDefinition kJobPackingEfficiency = {
    "batchplan_job_packing_efficiency", kHistogram, "job_id",
    "As batchplan_packing_efficiency; sum over count is the mean."};
inline constexpr MetricDefinition kJobRankCostImbalance = {
    "batchplan_job_rank_cost_imbalance", kHistogram, "job_id",
    "As batchplan_rank_cost_imbalance; sum over count is the mean."};
inline constexpr MetricDefinition kJobStepEfficiency = {
    "batchplan_job_step_efficiency", kHistogram, "job_id",
    "As batchplan_step_efficiency; sum over count is the mean."};
inline constexpr MetricDefinition kJobStepTimeOverBound = {
    "batchplan_job_step_time_over_bound", kHistogram, "job_id",
    "As batchplan_step_time_over_bound; sum over count is the mean."};
inline constexpr MetricDefinition kJobPipelineBubble = {
    "batchplan_job_pipeline_bubble", kHistogram, "job_id",
    "As batchplan_pipeline_bubble; sum over count is the mean. Absent without a pipeline."};
inline constexpr MetricDefinition kJobLoadImbalance = {
    "batchplan_job_load_imbalance", kHistogram, "job_id",
    "What the most loaded data-parallel rank has over the mean, of the load (Manifest.loads) whose "
    "ranks differ most, of each pass; sum over count is the mean. Absent without loads."};
inline constexpr MetricDefinition kJobLoadLimitUse = {
    "batchplan_job_load_limit_use", kHistogram, "job_id",
    "The largest of a load over its limit (Pass.limits), of the load that comes closest to it, of "
    "each pass; sum over count is the mean. Absent without limits."};
inline constexpr MetricDefinition kJobContextGroups = {
    "batchplan_job_context_groups_total", kCounter, "job_id, context_parallel",
    "As batchplan_context_groups_total. Absent where all groups have one size."};
inline constexpr MetricDefinition kJobContextGroupTokens = {
    "batchplan_job_context_group_tokens_total", kCounter, "job_id, context_parallel",
    "As batchplan_context_group_tokens_total. Absent where all groups have one size."};
inline constexpr MetricDefinition kJobMeanAge = {
    "batchplan_job_mean_age_steps", kHistogram, "job_id",
    "As batchplan_mean_age_steps; sum over count is the mean. Absent without ages."};
inline constexpr MetricDefinition kJobDeferred = {
    "batchplan_job_deferred_sequences_total", kCounter, "job_id",
    "As batchplan_deferred_sequences_total. Absent where nothing waited, expired or had an age."};
inline constexpr MetricDefinition kJobExpired = {
    "batchplan_job_expired_sequences_total", kCounter, "job_id",
    "As batchplan_expired_sequences_total. Absent where nothing waited, expired or had an age."};
inline constexpr MetricDefinition kJobFittedCost = {
    "batchplan_job_fitted_cost_seconds", kGauge, "job_id, coefficient",
    "What was last fitted here to the job's reports: seconds a token (per_token), a squared token "
    "(per_token_squared), a micro-batch (per_microbatch) and a sequence (per_sequence)."};
inline constexpr MetricDefinition kJobFittedExchange = {
    "batchplan_job_fitted_exchange_seconds", kGauge, "job_id, context_parallel",
    "What context-parallel ranks were last fitted here to exchange: seconds a token "
    "(CostModel.exchange), by size of their group as above. Absent where timings of one size alone "
    "were reported, or nothing shows that is exchanged."};
inline constexpr MetricDefinition kJobFittedLoad = {
    "batchplan_job_fitted_load_seconds", kGauge, "job_id, load",
    "What was last fitted here for a unit of each load that the job's reports name: seconds; 0 "
    "where "
    "timings do not tell. Absent where they name none."};
inline constexpr MetricDefinition kJobFitError = {
    "batchplan_job_fit_error_ratio", kGauge, "job_id",
    "How far the fit is typically from what was reported."};
inline constexpr MetricDefinition kJobFitSamples = {"batchplan_job_fit_samples", kGauge, "job_id",
                                                    "Micro-batches that the fit has seen."};

inline constexpr MetricDefinition kJobMeasuredStep = {
    "batchplan_job_measured_step_seconds", kHistogram, "job_id",
    "What a step took, ranks waiting for each other included, of reports that hold all of its "
    "micro-batches with their places; sum over count is the mean."};
inline constexpr MetricDefinition kJobPredictedStep = {
    "batchplan_job_predicted_step_seconds", kHistogram, "job_id",
    "What was predicted of these steps, where the report says it; sum over count is the mean."};
inline constexpr MetricDefinition kJobPredictionError = {
    "batchplan_job_prediction_error_ratio", kHistogram, "job_id",
    "How far the prediction was off, over what the step took, either way; sum over count is the "
    "mean."};
inline constexpr MetricDefinition kJobWaited = {
    "batchplan_job_waited_ratio", kHistogram, "job_id",
    "The part of a measured step in which ranks waited for slower ones, on average over them; sum "
    "over count is the mean."};

// Collective plans.
inline constexpr MetricDefinition kJoinsWaiting = {
    "batchplan_joins_waiting", kGauge, "", "Workers' parts that wait here for other workers."};
inline constexpr MetricDefinition kJoinedSteps = {"batchplan_joined_steps", kGauge, "",
                                                  "Steps whose workers wait here."};
inline constexpr MetricDefinition kJoins = {
    "batchplan_joins_total", kCounter, "outcome",
    "Workers' parts that came to the rendezvous, by what became of them: the step's plan (joined), "
    "the time was over (expired), "
    "the worker went away (cancelled), no room (refused), no store or a shutdown (unavailable), "
    "or another error (failed)."};
inline constexpr MetricDefinition kJoinSeconds = {
    "batchplan_join_seconds", kHistogram, "", "How long a worker that got the plan waited for it.",
    kLongSecondsBuckets};
inline constexpr MetricDefinition kStoreSeconds = {
    "batchplan_store_seconds", kHistogram, "operation",
    "Time of calls of the rendezvous store, failed ones too.", kSecondsBuckets};
inline constexpr MetricDefinition kStoreErrors = {"batchplan_store_errors_total", kCounter,
                                                  "operation",
                                                  "Calls of the rendezvous store that failed."};
inline constexpr MetricDefinition kStoreUp = {
    "batchplan_store_up", kGauge, "",
    "Whether the last call of the rendezvous store reached it, however long ago; 1 before the "
    "first."};
inline constexpr MetricDefinition kMemorySteps = {"batchplan_rendezvous_memory_steps", kGauge, "",
                                                  "Steps held by --rendezvous_store=memory."};
inline constexpr MetricDefinition kMemoryParts = {
    "batchplan_rendezvous_memory_parts", kGauge, "",
    "Workers' parts held by --rendezvous_store=memory."};
inline constexpr MetricDefinition kMemoryBytes = {
    "batchplan_rendezvous_memory_bytes", kGauge, "",
    "What the steps held by --rendezvous_store=memory take."};

// The process.
inline constexpr MetricDefinition kCertificateExpiry = {
    "batchplan_tls_certificate_expiry_timestamp_seconds", kGauge, "",
    "When the certificate of --tls_certificate ends; absent without one."};
inline constexpr MetricDefinition kAccepting = {
    "batchplan_accepting", kGauge, "",
    "Whether new connections are taken; 0 once some have waited for 5 seconds and none was."};
inline constexpr MetricDefinition kLogLinesDropped = {
    "batchplan_log_lines_dropped_total", kCounter, "",
    "Log lines that were not written because nobody read those before them."};
inline constexpr MetricDefinition kCpuSeconds = {"process_cpu_seconds_total", kCounter, "",
                                                 "User and system time."};
inline constexpr MetricDefinition kResidentMemory = {"process_resident_memory_bytes", kGauge, "",
                                                     "Memory in use."};
inline constexpr MetricDefinition kVirtualMemory = {"process_virtual_memory_bytes", kGauge, "",
                                                    "Address space in use."};
inline constexpr MetricDefinition kOpenDescriptors = {"process_open_fds", kGauge, "",
                                                      "Open file descriptors."};
inline constexpr MetricDefinition kMaxDescriptors = {
    "process_max_fds", kGauge, "", "As many descriptors as the process may have open."};
inline constexpr MetricDefinition kThreads = {"process_threads", kGauge, "", "Threads."};
inline constexpr MetricDefinition kStartTime = {"process_start_time_seconds", kGauge, "",
                                                "When the process started."};

}  // namespace metric

// All metrics, in the order of the table.
std::span<const MetricDefinition* const> MetricCatalog();

// The table in Markdown.
std::string MetricTable();

// The families of a registry for these definitions.
prometheus::Family<prometheus::Counter>* CounterFamily(const MetricDefinition& definition,
                                                       prometheus::Registry& registry);
prometheus::Family<prometheus::Gauge>* GaugeFamily(const MetricDefinition& definition,
                                                   prometheus::Registry& registry);
prometheus::Family<prometheus::Histogram>* HistogramFamily(const MetricDefinition& definition,
                                                           prometheus::Registry& registry);

prometheus::Histogram::BucketBoundaries BucketsOf(const MetricDefinition& definition);

// Series of definitions without labels.
prometheus::Counter* AddCounter(const MetricDefinition& definition, prometheus::Registry& registry);
prometheus::Gauge* AddGauge(const MetricDefinition& definition, prometheus::Registry& registry);
prometheus::Histogram* AddHistogram(const MetricDefinition& definition,
                                    prometheus::Registry& registry);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_TELEMETRY_METRIC_CATALOG_H_
