#include "server/telemetry/job_labels.h"

#include <algorithm>

#include "server/telemetry/utf8.h"

namespace batchplan {

namespace {

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
  if (job_id == kOtherJobs || job_id.size() > kMaxJobLabelBytes || !IsPlain(job_id)) {
    return kOtherJobs;
  }
  latest_ = std::max(latest_, now);
  const LastUse use = {.time = latest_, .number = ++calls_};

  auto found = last_use_.find(job_id);
  if (found != last_use_.end()) {
    by_use_.erase(found->second);
    found->second = use;
  } else {
    if (options_.max_labels == 0) return kOtherJobs;
    if (last_use_.size() == options_.max_labels) {
      const auto longest_idle = by_use_.begin();
      if (latest_ - longest_idle->first.time < options_.idle) return kOtherJobs;
      retire_(longest_idle->second);
      last_use_.erase(longest_idle->second);
      by_use_.erase(longest_idle);
    }
    found = last_use_.emplace(std::string(job_id), use).first;
  }
  by_use_.emplace(use, found->first);
  return found->first;
}

}  // namespace batchplan
