// When the ranks of a pool are done with the slots that they have run.

#ifndef BATCHPLAN_SERVER_PLANNER_CONTEXT_FREE_TIMES_H_
#define BATCHPLAN_SERVER_PLANNER_CONTEXT_FREE_TIMES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "server/planner/cost.h"

namespace batchplan {

// Kept by the groups of the last slot, whose ranks all are free at once, so that a slot takes as
// many steps as it and the one before it have groups, however many ranks there are.
class FreeTimes {
 public:
  explicit FreeTimes(uint32_t pool) : pool_(pool), spans_{{.end = pool, .free = 0}} {}

  // The next group of a slot, in the order of their ranks, which add up to the pool: it begins when
  // all of its ranks are free, and takes `cost` then.
  void Add(uint32_t ranks, Cost cost) {
    const uint32_t end = (next_.empty() ? 0 : next_.back().end) + ranks;
    Cost begin = spans_[at_].free;
    while (spans_[at_].end < end) begin = std::max(begin, spans_[++at_].free);
    if (spans_[at_].end == end) ++at_;
    next_.push_back({.end = end, .free = begin + cost});
    if (end < pool_) return;
    spans_.swap(next_);
    next_.clear();
    at_ = 0;
  }

  // When the last of the ranks is free.
  Cost Latest() const {
    Cost latest = 0;
    for (const Span& span : spans_) latest = std::max(latest, span.free);
    return latest;
  }

 private:
  // Ranks from the end of the span before.
  struct Span {
    uint32_t end = 0;
    Cost free = 0;
  };

  uint32_t pool_;
  std::vector<Span> spans_;
  std::vector<Span> next_;  // of the slot whose groups are being added
  size_t at_ = 0;           // the span that the next group begins in
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_CONTEXT_FREE_TIMES_H_
