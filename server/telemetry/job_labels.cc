#include "server/telemetry/job_labels.h"

#include <algorithm>

#include "server/base/ids.h"
#include "server/base/utf8.h"

namespace batchplan {
namespace {

// Prometheus rejects all series of a server if one label is not UTF-8.
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
  latest_ = std::max(latest_, now);
  if (const auto found = places_.find(job_id); found != places_.end()) {
    jobs_.splice(jobs_.end(), jobs_, found->second);
    found->second->last = latest_;
    return found->first;
  }
  if (options_.max_labels == 0 || job_id == kOtherJobs || job_id.size() > kMaxIdBytes ||
      !IsPlain(job_id)) {
    return kOtherJobs;
  }
  if (jobs_.size() == options_.max_labels) {
    const Job& idle = jobs_.front();
    if (latest_ - idle.last < options_.idle) return kOtherJobs;
    retire_(idle.name);
    places_.erase(idle.name);
    jobs_.pop_front();
  }
  // Everything that may run out of memory comes first, so that a failure changes nothing.
  std::list<Job> begun = {{.name = std::string(job_id), .last = latest_}};
  places_.emplace(begun.front().name, begun.begin());
  jobs_.splice(jobs_.end(), begun);
  return jobs_.back().name;
}

}  // namespace batchplan
