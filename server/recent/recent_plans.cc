#include "server/recent/recent_plans.h"

#include <algorithm>
#include <utility>

namespace batchplan {
namespace {

RecentPlan FiguresOf(const PlanRecord& plan, uint64_t step, absl::Time now) {
  RecentPlan figures = {.time = now,
                        .step = step,
                        .preset = std::string(plan.preset),
                        .sequences = plan.sequences,
                        .planning_seconds = plan.planning_seconds,
                        .step_efficiency = plan.passes.empty() ? 0.0 : 1.0};
  double laid_tokens = 0;
  double budget_tokens = 0;
  double scheduled_tokens = 0;
  double naive_tokens = 0;
  for (const PassRecord& pass : plan.passes) {
    figures.microbatches += pass.metrics.microbatches;
    figures.lower_bound_microbatches += pass.metrics.lower_bound_microbatches;
    figures.step_efficiency = std::min(figures.step_efficiency, pass.metrics.step_efficiency);
    laid_tokens += static_cast<double>(pass.laid_tokens());
    budget_tokens += static_cast<double>(pass.budget_tokens);
    scheduled_tokens += static_cast<double>(pass.metrics.scheduled_tokens);
    naive_tokens += static_cast<double>(pass.metrics.naive_tokens);
  }
  if (budget_tokens > 0) figures.bin_utilization = laid_tokens / budget_tokens;
  if (naive_tokens > 0) {
    figures.padding_removed = std::max(0.0, 1 - scheduled_tokens / naive_tokens);
  }
  return figures;
}

}  // namespace

void RecentPlans::Record(const PlanRecord& plan, uint64_t step, absl::Time now,
                         absl::FunctionRef<WholePlan()> whole) {
  RecentPlan figures = FiguresOf(plan, step, now);
  {
    std::optional<WholePlan> dropped;
    MutexLock lock(mutex_);
    auto job = jobs_.find(plan.job_id);
    if (job == jobs_.end()) {
      dropped = MakeRoomForJob();
      Kept first;
      first.plans.push_back(std::move(figures));
      job = jobs_.try_emplace(std::string(plan.job_id), std::move(first)).first;
    } else {
      job->second.plans.push_back(std::move(figures));
    }
    Kept& kept = job->second;
    if (kept.plans.size() > options_.plans_a_job) kept.plans.pop_front();
    // If the clock was set back, the plan is renewed too.
    if (kept.renewed <= now && now < kept.renewed + options_.renewal) return;
    kept.renewed = now;
  }
  WholePlan renewed = whole();
  std::vector<WholePlan> dropped;
  MutexLock lock(mutex_);
  dropped = Keep(plan.job_id, std::move(renewed), now);
}

void RecentPlans::RecordStep(std::string_view job_id, uint64_t step, const StepRecord& measured) {
  MutexLock lock(mutex_);
  const auto job = jobs_.find(job_id);
  if (job == jobs_.end()) return;
  std::deque<RecentPlan>& plans = job->second.plans;
  const auto plan =
      std::find_if(plans.rbegin(), plans.rend(), [&](const auto& one) { return one.step == step; });
  if (plan != plans.rend()) plan->measured = measured;
}

std::optional<WholePlan> RecentPlans::MakeRoomForJob() {
  if (jobs_.size() < options_.max_jobs) return std::nullopt;
  const auto idle = std::min_element(jobs_.begin(), jobs_.end(), [](const auto& a, const auto& b) {
    return a.second.last() < b.second.last();
  });
  std::optional<WholePlan> dropped = std::move(idle->second.whole);
  if (dropped) bytes_ -= dropped->bytes;
  jobs_.erase(idle);
  return dropped;
}

std::vector<WholePlan> RecentPlans::Keep(std::string_view job_id, WholePlan whole, absl::Time now) {
  // From here on nothing throws.
  std::vector<WholePlan> dropped;
  dropped.reserve(jobs_.size() + 1);
  const auto drop = [&](Kept& kept) {
    mutex_.AssertHeld();
    if (!kept.whole) return;
    bytes_ -= kept.whole->bytes;
    dropped.push_back(*std::move(kept.whole));
    kept.whole.reset();
  };
  const auto job = jobs_.find(job_id);
  // Meanwhile the job may have been dropped, or a later plan may have been kept.
  const bool late = job == jobs_.end() || job->second.renewed != now;
  if (!late) drop(job->second);
  if (late || whole.bytes > std::min(options_.max_plan_bytes, options_.max_bytes)) {
    dropped.push_back(std::move(whole));
    return dropped;
  }
  while (bytes_ + whole.bytes > options_.max_bytes) {
    Kept* oldest = nullptr;
    for (auto& [id, kept] : jobs_) {
      if (kept.whole && (oldest == nullptr || kept.renewed < oldest->renewed)) oldest = &kept;
    }
    drop(*oldest);
  }
  bytes_ += whole.bytes;
  job->second.whole = std::move(whole);
  return dropped;
}

std::vector<RecentPlans::Job> RecentPlans::Jobs() const {
  std::vector<Job> jobs;
  {
    MutexLock lock(mutex_);
    jobs.reserve(jobs_.size());
    for (const auto& [id, kept] : jobs_)
      jobs.push_back({id, {kept.plans.begin(), kept.plans.end()}});
  }
  std::stable_sort(jobs.begin(), jobs.end(), [](const Job& a, const Job& b) {
    return a.plans.back().time > b.plans.back().time;
  });
  return jobs;
}

std::optional<WholePlan> RecentPlans::Whole(std::string_view job_id) const {
  MutexLock lock(mutex_);
  const auto job = jobs_.find(job_id);
  return job == jobs_.end() ? std::nullopt : job->second.whole;
}

}  // namespace batchplan
