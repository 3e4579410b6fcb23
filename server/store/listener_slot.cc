#include "server/store/listener_slot.h"

#include <utility>

#include "absl/cleanup/cleanup.h"

namespace batchplan {

void ListenerSlot::Set(StepStore::Listener listener) {
  std::shared_ptr<Counted> next;
  if (listener) next = std::make_shared<Counted>(Counted{.listener = std::move(listener)});
  std::unique_lock lock(mutex_);
  const std::shared_ptr<Counted> last = std::exchange(current_, std::move(next));
  if (last) idle_.wait(lock, [&last] { return last->calls == 0; });
}

void ListenerSlot::Call(const StepKey& key, StepEvent event) {
  std::shared_ptr<Counted> counted;
  {
    std::lock_guard lock(mutex_);
    if (current_ == nullptr) return;
    counted = current_;
    ++counted->calls;
  }
  // Also where the listener throws: Set waits for it.
  const absl::Cleanup ended = [this, &counted] {
    std::lock_guard lock(mutex_);
    if (--counted->calls == 0) idle_.notify_all();
  };
  counted->listener(key, event);
}

}  // namespace batchplan
