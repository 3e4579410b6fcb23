#include "server/store/job_runs.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "server/store/step_store.h"

namespace batchplan {
namespace {

bool IsBefore(const SeenRun& a, const SeenRun& b) {
  return std::tie(a.time, a.run) < std::tie(b.time, b.run);
}

template <typename Runs>
auto FindRun(Runs& runs, const std::string& run) {
  return std::find_if(runs.begin(), runs.end(),
                      [&run](const SeenRun& seen) { return seen.run == run; });
}

}  // namespace

std::string JobRuns::See(const std::string& job, const std::string& run, Instant now) {
  uint64_t time = 0;
  if (const auto found = Find(job, now); found != jobs_.end()) {
    const std::vector<SeenRun>& runs = found->second.runs;
    if (FindRun(runs, run) != runs.end()) {
      std::string current = runs.back().run;
      Use(jobs_.find(job), now);
      return current;
    }
    time = runs.back().time + 1;
  }
  Learn(job, {{.run = run, .time = time}}, now);
  return run;
}

std::optional<std::string> JobRuns::Superseding(const std::string& job, const std::string& run,
                                                Instant now) const {
  const auto found = Find(job, now);
  if (found == jobs_.end()) return std::nullopt;
  const std::vector<SeenRun>& runs = found->second.runs;
  const bool is_seen = FindRun(runs, run) != runs.end();
  return is_seen && runs.back().run != run ? std::optional(runs.back().run) : std::nullopt;
}

void JobRuns::Learn(const std::string& job, const std::vector<SeenRun>& seen, Instant now) {
  const auto found = jobs_.find(job);
  std::vector<SeenRun> runs;
  if (found != jobs_.end() && found->second.expiry > now) runs = found->second.runs;
  for (const SeenRun& run : seen) {
    const auto known = FindRun(runs, run.run);
    if (known == runs.end()) {
      runs.push_back(run);
    } else {
      known->time = std::min(known->time, run.time);
    }
  }
  if (runs.empty()) return;
  std::sort(runs.begin(), runs.end(), IsBefore);
  if (runs.size() > kMaxRunsOfAJob) {
    runs.erase(runs.begin(), runs.end() - static_cast<std::ptrdiff_t>(kMaxRunsOfAJob));
  }
  if (found != jobs_.end()) {
    found->second.runs = std::move(runs);
    Use(found, now);
    return;
  }
  std::list<std::string> use = {job};
  Job begun = {.runs = std::move(runs), .expiry = now + lifetime_, .use = use.begin()};
  jobs_.emplace(job, std::move(begun));
  uses_.splice(uses_.end(), use);
  if (jobs_.size() > max_jobs_) {
    jobs_.erase(uses_.front());
    uses_.pop_front();
  }
}

std::vector<SeenRun> JobRuns::Known(const std::string& job, Instant now) {
  if (Find(job, now) == jobs_.end()) return {};
  const auto found = jobs_.find(job);
  std::vector<SeenRun> runs = found->second.runs;
  Use(found, now);
  return runs;
}

std::vector<std::string> JobRuns::JobsWithOrder(Instant now) const {
  std::vector<std::string> jobs;
  for (const auto& [name, job] : jobs_) {
    if (job.expiry > now && job.runs.size() > 1) jobs.push_back(name);
  }
  return jobs;
}

JobRuns::Jobs::const_iterator JobRuns::Find(const std::string& job, Instant now) const {
  const auto found = jobs_.find(job);
  return found == jobs_.end() || found->second.expiry <= now ? jobs_.end() : found;
}

void JobRuns::Use(Jobs::iterator job, Instant now) {
  job->second.expiry = now + lifetime_;
  uses_.splice(uses_.end(), uses_, job->second.use);
}

}  // namespace batchplan
