// Packing many items of equal lengths at once.

#ifndef BATCHPLAN_SERVER_PLANNER_PACKING_BIN_RUNS_H_
#define BATCHPLAN_SERVER_PLANNER_PACKING_BIN_RUNS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "server/planner/packing/bins.h"
#include "server/planner/packing/decreasing.h"
#include "server/planner/packing/length_index.h"

namespace batchplan {

// Bins being filled by a packer that places single sequences in decreasing order, each into the
// bin that its rule prefers, the lowest-numbered of equals. Such a packer goes through items of one
// length by filling one bin after the other, and bins that were alike stay alike: neighbours with
// the same lengths in them are a *run*, named by its first bin. All the bins that nobody has opened
// are the last run. A length opens, extends or splits runs, so that work goes by the changes and
// not by the items.
class BinRuns {
 public:
  struct Run {
    uint32_t bins;
    // Of each of its bins.
    uint32_t room;
    uint32_t size;
  };

  // For so many items, in at most `most_bins`.
  BinRuns(const BinLimits& limits, size_t items, size_t most_bins)
      : max_sequences_(limits.max_sequences),
        runs_(std::make_unique_for_overwrite<Run[]>(most_bins + 1)),
        steps_(std::make_unique_for_overwrite<Step[]>(items)) {
    runs_[0] = {.bins = static_cast<uint32_t>(most_bins + 1), .room = limits.capacity, .size = 0};
  }

  const Run& operator[](uint32_t run) const { return runs_[run]; }

  // Whether the run takes sequences at all.
  bool takes_more(uint32_t run) const { return runs_[run].size < max_sequences_; }

  // Fills the run's bins, one after the other, with up to `count` items of a length that it holds.
  // Calls changed(run) for every run that this leaves of it, at most three. Returns how many items
  // were placed.
  template <typename Changed>
  uint32_t Fill(uint32_t run, uint32_t length, uint32_t count, Changed changed) {
    const Run before = runs_[run];
    if (count == 1) {
      AddStep({.bin = run, .bins = 1, .at = before.size, .each = 1});
      runs_[run] = {.bins = 1, .room = before.room - length, .size = before.size + 1};
      changed(run);
      if (before.bins > 1) {
        runs_[run + 1] = {.bins = before.bins - 1, .room = before.room, .size = before.size};
        changed(run + 1);
      }
      return 1;
    }
    const uint32_t each = std::min({before.room / length, max_sequences_ - before.size, count});
    const uint32_t full = std::min(count / each, before.bins);
    const uint32_t placed = full < before.bins ? count : full * each;
    uint32_t bin = run;
    const auto cut = [&](uint32_t bins, uint32_t items) {
      if (bins == 0) return;
      if (items > 0) AddStep({.bin = bin, .bins = bins, .at = before.size, .each = items});
      runs_[bin] = {
          .bins = bins, .room = before.room - items * length, .size = before.size + items};
      changed(bin);
      bin += bins;
    };
    const uint32_t rest = placed - full * each;
    cut(full, each);
    cut(rest > 0 ? 1 : 0, rest);
    cut(run + before.bins - bin, 0);
    return placed;
  }

  // The bins, once all items of `order` are placed.
  Bins Build(const std::vector<uint32_t>& order) const;

 private:
  // The next bins * each items in order, `each` to a bin, from place `at` in each.
  struct Step {
    uint32_t bin;
    uint32_t bins;
    uint32_t at;
    uint32_t each;
  };

  void AddStep(const Step& step) { steps_[step_count_++] = step; }

  uint32_t max_sequences_;
  // At every run's first bin; the others are not initialised.
  std::unique_ptr<Run[]> runs_;
  // Each places items, so that there are no more steps than these.
  std::unique_ptr<Step[]> steps_;
  size_t step_count_ = 0;
};

// Packs by a rule. Rule is made of (runs, index, most_bins), index being that of the lengths, and
// has
//   void Open(size_t length)  the length of that number is next;
//   void Add(uint32_t run)    a run that takes sequences, and has room for one that is left;
//   uint32_t Take()           removes the run that is to be filled next.
template <typename Rule>
Bins PackByRuns(const DecreasingItems& items, const BinLimits& limits, size_t most_bins) {
  if (items.order.empty()) return Bins();
  // A bitmap of a word for each two items: larger ones take longer to write than to do without.
  constexpr size_t kPlacesPerItem = 32;
  const LengthIndex index(items.lengths, kPlacesPerItem * items.order.size());
  BinRuns runs(limits, items.order.size(), most_bins);
  Rule rule(runs, index, items.lengths.size(), most_bins);
  rule.Add(0);
  for (size_t i = 0; i < items.lengths.size(); ++i) {
    rule.Open(i);
    for (uint32_t left = items.lengths[i].count; left > 0;) {
      left -= runs.Fill(rule.Take(), items.lengths[i].length, left, [&](uint32_t run) {
        if (runs.takes_more(run)) rule.Add(run);
      });
    }
  }
  return runs.Build(items.order);
}

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PACKING_BIN_RUNS_H_
