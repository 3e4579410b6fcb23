#include "server/telemetry/job_labels.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "server/base/utf8.h"

namespace batchplan {

namespace {

// Half-lives after which counts are decayed to a new epoch, long before weights overflow.
constexpr double kEpoch = 256;

// Prometheus refuses all series of a server whose label is not UTF-8.
bool IsPlain(std::string_view text) {
  while (!text.empty()) {
    const size_t bytes = Utf8CharacterBytes(text);
    if (bytes == 0 || (bytes == 1 && (text[0] < ' ' || text[0] == '\x7f'))) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

}  // namespace

std::string_view JobLabels::LabelOf(std::string_view job_id, absl::Time now) {
  if (job_id.empty() || job_id == kUnsetJob) return kUnsetJob;
  if (options_.max_labels == 0) return kOtherJobs;
  const auto found = jobs_.find(job_id);
  if (found == jobs_.end() &&
      (job_id == kOtherJobs || job_id.size() > kMaxJobLabelBytes || !IsPlain(job_id))) {
    return kOtherJobs;
  }
  latest_ = std::max(latest_, now);
  const double weight = Weight();
  Job* job = nullptr;
  if (found != jobs_.end()) {
    job = found->second.get();
    Count(*job, weight);
  } else {
    job = &Watch(job_id, weight);
  }
  if (job->use) return job->name;
  if (labelled_.size() == options_.max_labels) {
    Job* const other = GivesWayTo(*job, weight);
    if (other == nullptr) return kOtherJobs;
    retire_(other->name);
    TakeLabel(*other);
  }
  Label(*job);
  return job->name;
}

double JobLabels::Weight() {
  if (epoch_ == absl::InfinitePast()) epoch_ = latest_;
  const double half_lives = absl::FDivDuration(latest_ - epoch_, options_.half_life);
  if (half_lives <= kEpoch) return std::exp2(half_lives);
  epoch_ = latest_;
  const double decay = std::exp2(-half_lives);
  for (ByBusyness* jobs : {&labelled_, &watched_}) {
    // Anew, because some may have become as busy as each other: not at all.
    ByBusyness decayed;
    while (!jobs->empty()) {
      auto node = jobs->extract(jobs->begin());
      node.value()->calls *= decay;
      node.value()->inherited *= decay;
      decayed.insert(std::move(node));
    }
    jobs->swap(decayed);
  }
  return 1;
}

void JobLabels::Count(Job& job, double weight) {
  ByBusyness& jobs = job.use ? labelled_ : watched_;
  auto node = jobs.extract(&job);
  job.calls += weight;
  job.number = ++calls_;
  job.last = latest_;
  jobs.insert(std::move(node));
  if (job.use) uses_.splice(uses_.end(), uses_, *job.use);
}

JobLabels::Job& JobLabels::Watch(std::string_view name, double weight) {
  double inherited = 0;
  if (watched_.size() >= std::max<size_t>(options_.max_watched, 1)) {
    const Job* const least = *watched_.begin();
    inherited = least->calls;
    watched_.erase(watched_.begin());
    jobs_.erase(jobs_.find(least->name));
  }
  auto owned = std::make_unique<Job>(Job{.name = std::string(name),
                                         .calls = inherited + weight,
                                         .inherited = inherited,
                                         .number = ++calls_,
                                         .last = latest_});
  Job& job = *owned;
  jobs_.emplace(job.name, std::move(owned));
  watched_.insert(&job);
  return job;
}

JobLabels::Job* JobLabels::GivesWayTo(const Job& job, double weight) const {
  Job* const longest_idle = uses_.front();
  if (latest_ - longest_idle->last >= options_.idle) return longest_idle;
  Job* const least_busy = *labelled_.begin();
  const double own = job.calls - job.inherited;
  const bool clearly_busier = own >= kClearlyBusier * least_busy->calls + kClearlyMore * weight;
  return clearly_busier ? least_busy : nullptr;
}

void JobLabels::Label(Job& job) {
  job.use = uses_.insert(uses_.end(), &job);
  labelled_.insert(watched_.extract(&job));
}

void JobLabels::TakeLabel(Job& job) {
  watched_.insert(labelled_.extract(&job));
  uses_.erase(*job.use);
  job.use = std::nullopt;
}

}  // namespace batchplan
