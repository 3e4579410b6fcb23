// The one listener of a step store, replaced while it may be running.
//
//   slot.Set(listener);     // returns once the one before is not running any more
//   slot.Call(key, event);
//
// Thread-safe. No lock is held while the listener runs, and any number of threads may run it.

#ifndef BATCHPLAN_SERVER_STORE_LISTENER_SLOT_H_
#define BATCHPLAN_SERVER_STORE_LISTENER_SLOT_H_

#include <condition_variable>
#include <memory>
#include <mutex>

#include "server/store/step_store.h"

namespace batchplan {

class ListenerSlot {
 public:
  // Null: nobody. Not from within the listener that is replaced.
  void Set(StepStore::Listener listener);

  // What the listener throws goes on to the caller.
  void Call(const StepKey& key, StepEvent event);

 private:
  struct Counted {
    StepStore::Listener listener;
    // Calls under way. Guarded by mutex_.
    int calls = 0;
  };

  std::mutex mutex_;
  std::condition_variable idle_;
  // Guarded by mutex_. Null: nobody listens.
  std::shared_ptr<Counted> current_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_STORE_LISTENER_SLOT_H_
