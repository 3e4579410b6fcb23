#include "server/store/step_store.h"

#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

namespace batchplan {

std::string DescribeStep(const StepKey& key) {
  std::string description = absl::StrCat("step ", key.step, " of job \"", key.job_id, "\"");
  if (!key.run_id.empty()) absl::StrAppend(&description, ", run \"", key.run_id, "\"");
  return description;
}

absl::Status NotCompleteError(const StepKey& key) {
  return absl::NotFoundError(absl::StrCat(DescribeStep(key), " is not complete"));
}

void ListenerSlot::Set(StepStore::Listener listener) {
  std::shared_ptr<Counted> next;
  if (listener) next = std::make_shared<Counted>(Counted{.listener = std::move(listener)});
  MutexLock lock(mutex_);
  const std::shared_ptr<Counted> last = std::exchange(current_, std::move(next));
  while (last && last->calls > 0) idle_.wait(lock);
}

void ListenerSlot::Call(const StepKey& key, StepEvent event) {
  std::shared_ptr<Counted> counted;
  {
    MutexLock lock(mutex_);
    if (current_ == nullptr) return;
    counted = current_;
    ++counted->calls;
  }
  // Runs even if the listener throws, since Set waits for it.
  const absl::Cleanup ended = [this, &counted] {
    MutexLock lock(mutex_);
    if (--counted->calls == 0) idle_.notify_all();
  };
  counted->listener(key, event);
}

}  // namespace batchplan
