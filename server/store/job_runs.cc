#include "server/store/job_runs.h"

#include <algorithm>
#include <utility>

#include "server/store/step_store.h"

namespace batchplan {

std::string JobRuns::See(const std::string& job, const std::string& run, Instant now) {
  std::string current = run;
  auto found = jobs_.find(job);
  if (found == jobs_.end()) {
    std::list<std::string> use = {job};
    Job begun = {.runs = {run}, .expiry = now, .use = use.begin()};
    found = jobs_.emplace(job, std::move(begun)).first;
    uses_.splice(uses_.end(), use);
    if (jobs_.size() > max_jobs_) {
      jobs_.erase(uses_.front());
      uses_.pop_front();
    }
  } else {
    std::vector<std::string>& runs = found->second.runs;
    if (found->second.expiry <= now) {
      runs = std::vector<std::string>{run};
    } else if (std::find(runs.begin(), runs.end(), run) != runs.end()) {
      current = runs.back();
    } else {
      runs.push_back(run);
      if (runs.size() > kMaxRunsOfAJob) runs.erase(runs.begin());
    }
    uses_.splice(uses_.end(), uses_, found->second.use);
  }
  found->second.expiry = now + lifetime_;
  return current;
}

std::optional<std::string> JobRuns::Superseding(const std::string& job, const std::string& run,
                                                Instant now) const {
  const auto found = jobs_.find(job);
  if (found == jobs_.end() || found->second.expiry <= now) return std::nullopt;
  const std::vector<std::string>& runs = found->second.runs;
  const bool is_seen = std::find(runs.begin(), runs.end(), run) != runs.end();
  return is_seen && runs.back() != run ? std::optional(runs.back()) : std::nullopt;
}

}  // namespace batchplan
