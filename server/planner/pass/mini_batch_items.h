// The items of a mini-batch, made once.

#ifndef BATCHPLAN_SERVER_PLANNER_PASS_MINI_BATCH_ITEMS_H_
#define BATCHPLAN_SERVER_PLANNER_PASS_MINI_BATCH_ITEMS_H_

#include <optional>
#include <span>

#include "server/planner/pass/items.h"
#include "server/planner/pass/pass.h"
#include "server/planner/request/manifest.h"

namespace batchplan {

// Pass::ItemsOf a mini-batch, made when first asked for. They also serve all passes that Pass::With
// makes of this one. Views its arguments. For one thread.
class MiniBatchItems {
 public:
  MiniBatchItems(const Pass& pass, std::span<const SequenceIndex> sequences)
      : pass_(pass), sequences_(sequences) {}

  std::span<const SequenceIndex> sequences() const { return sequences_; }
  const Items& get() const {
    if (!items_) items_ = pass_.ItemsOf(sequences_);
    return *items_;
  }

 private:
  const Pass& pass_;
  std::span<const SequenceIndex> sequences_;
  mutable std::optional<Items> items_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PASS_MINI_BATCH_ITEMS_H_
