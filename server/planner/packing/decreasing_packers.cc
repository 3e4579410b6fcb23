#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "server/planner/packing/bins.h"
#include "server/planner/packing/index_set.h"
#include "server/planner/packing/kinds.h"
#include "server/planner/packing/packer.h"

namespace batchplan {
namespace {

// Whether items of one length are interchangeable.
bool AreAlike(const PackItems& items) { return items.counts.empty() && items.limited.empty(); }

// Bins being filled by a packer that places single sequences in decreasing order, each into the
// bin that its rule prefers, the lowest-numbered of equals. Such a packer places the items of one
// length by filling one bin after the other, so bins that were alike stay alike. Neighbouring bins
// with the same lengths are a *run*, named by its first bin; the last run is of all bins that are
// not open. A length opens, extends or splits runs. The work grows with these changes, not with the
// items.
class BinRuns {
 public:
  struct Run {
    uint32_t bins;
    // The room and the sequences of each of its bins.
    uint32_t room;
    uint32_t size;
  };

  // For `items` items, in at most `most_bins` bins.
  BinRuns(const BinLimits& limits, size_t items, size_t most_bins)
      : max_sequences_(limits.max_sequences),
        runs_(std::make_unique_for_overwrite<Run[]>(most_bins + 1)),
        steps_(std::make_unique_for_overwrite<Step[]>(items)) {
    runs_[0] = {.bins = static_cast<uint32_t>(most_bins + 1), .room = limits.capacity, .size = 0};
  }

  const Run& operator[](uint32_t run) const { return runs_[run]; }

  // Whether the run's bins may have another sequence.
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
  // The next bins * each items in order: `each` to a bin, from place `at` of each bin.
  struct Step {
    uint32_t bin;
    uint32_t bins;
    uint32_t at;
    uint32_t each;
  };

  void AddStep(const Step& step) { steps_[step_count_++] = step; }

  uint32_t max_sequences_;
  // Valid at every run's first bin; the rest is not initialised.
  std::unique_ptr<Run[]> runs_;
  // Each step places an item or more, so there are no more steps than items.
  std::unique_ptr<Step[]> steps_;
  size_t step_count_ = 0;
};

// Packs by a rule. Rule is made of (runs, index, number of lengths, most_bins), index being that of
// the lengths, and has
//   void Open(size_t length)  the length of that number is next;
//   void Add(uint32_t run)    a run that may have sequences, and has room for one that is left;
//   uint32_t Take()           removes the run that is to be filled next.
template <typename Rule>
Bins PackByRuns(const DecreasingItems& items, const BinLimits& limits, size_t most_bins) {
  if (items.order.empty()) return Bins();
  // A word of the bitmap for every two items: a larger one would cost more than it saves.
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

Bins BinRuns::Build(const std::vector<uint32_t>& order) const {
  uint32_t bins = 0;
  while (runs_[bins].size > 0) bins += runs_[bins].bins;
  std::vector<uint32_t> offsets(size_t{bins} + 1);
  uint32_t end = 0;
  for (uint32_t run = 0; run < bins; run += runs_[run].bins) {
    for (uint32_t bin = run; bin < run + runs_[run].bins; ++bin) {
      offsets[bin] = end;
      end += runs_[run].size;
    }
  }
  offsets[bins] = end;
  std::vector<uint32_t> items(order.size());
  const uint32_t* next = order.data();
  for (const Step& step : std::span(steps_.get(), step_count_)) {
    for (uint32_t bin = step.bin; bin < step.bin + step.bins; ++bin) {
      uint32_t* place = items.data() + offsets[bin] + step.at;
      for (uint32_t i = 0; i < step.each; ++i) place[i] = next[i];
      next += step.each;
    }
  }
  return Bins(std::move(items), std::move(offsets));
}

// First fit: the lowest run that holds the length. A run that does not hold it waits for the first
// length that it holds, in that length's list.
class LowestRun {
 public:
  LowestRun(const BinRuns& runs, const LengthIndex& index, size_t lengths, size_t most_bins)
      : runs_(runs),
        index_(index),
        waiting_(lengths, kNone),
        next_(std::make_unique_for_overwrite<uint32_t[]>(most_bins + 1)),
        holds_(most_bins + 1) {}

  void Open(size_t length) {
    length_ = index_.length(length);
    for (uint32_t run = waiting_[length]; run != kNone; run = next_[run]) Hold(run);
  }

  void Add(uint32_t run) {
    if (runs_[run].room >= length_) {
      // The rest of the lowest run comes before all others.
      if (lowest_ == kNone) {
        lowest_ = run;
      } else {
        Hold(run);
      }
      return;
    }
    const size_t length = index_.UpTo(runs_[run].room);
    if (length == waiting_.size()) return;
    next_[run] = waiting_[length];
    waiting_[length] = run;
  }

  uint32_t Take() {
    if (lowest_ != kNone) return std::exchange(lowest_, kNone);
    const size_t run = holds_.AtLeast(0);
    holds_.Erase(run);
    return static_cast<uint32_t>(run);
  }

 private:
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

  void Hold(uint32_t run) {
    if (run < lowest_ && lowest_ != kNone) std::swap(run, lowest_);
    holds_.Insert(run);
  }

  const BinRuns& runs_;
  const LengthIndex& index_;
  uint32_t length_ = 0;
  std::vector<uint32_t> waiting_;
  // Links of waiting runs.
  std::unique_ptr<uint32_t[]> next_;
  // The runs that hold the length: the lowest of all, if known, and the others.
  uint32_t lowest_ = kNone;
  IndexSet holds_;
};

}  // namespace

Bins PackFirstFitDecreasing(const PackItems& items, const BinLimits& limits) {
  if (!AreAlike(items)) return PackFirstFit(DecreasingOrder(items.lengths), items, limits);
  return PackFirstFitDecreasing(SortDecreasing(items.lengths), limits, MostBins(items, limits));
}

Bins PackFirstFitDecreasing(const DecreasingItems& items, const BinLimits& limits,
                            size_t most_bins) {
  return PackByRuns<LowestRun>(items, limits, most_bins);
}

namespace {

// Best fit: the fullest run that holds the length, the lowest of equally full ones. Runs are
// grouped by the longest length that they hold. A run of a later group, which is of a shorter
// length, is fuller than any of an earlier group. So among the groups whose runs hold the current
// length, the last has the fullest run. Each group is a pairing heap (M. L. Fredman, R. Sedgewick,
// D. D. Sleator, R. E. Tarjan, 1986) by (room, first bin).
class FullestRun {
 public:
  FullestRun(const BinRuns& runs, const LengthIndex& index, size_t lengths, size_t most_bins)
      : runs_(runs),
        index_(index),
        root_(lengths, kNone),
        links_(std::make_unique_for_overwrite<Links[]>(most_bins + 1)),
        groups_(lengths) {}

  void Open(size_t length) { length_ = length; }

  void Add(uint32_t run) {
    if (runs_[run].size == 0) {
      unopened_ = run;
      return;
    }
    const size_t held = index_.UpTo(runs_[run].room);
    if (held == root_.size()) return;
    links_[run] = {.child = kNone, .sibling = kNone};
    if (root_[held] == kNone) groups_.Insert(held);
    root_[held] = Meld(root_[held], run);
  }

  uint32_t Take() {
    const size_t held = groups_.AtMost(length_);
    if (held == IndexSet::kNone) return unopened_;
    const uint32_t run = root_[held];
    root_[held] = MeldSiblings(links_[run].child);
    if (root_[held] == kNone) groups_.Erase(held);
    return run;
  }

 private:
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

  struct Links {
    uint32_t child;
    uint32_t sibling;
  };

  uint32_t Meld(uint32_t a, uint32_t b) {
    if (a == kNone) return b;
    if (b == kNone) return a;
    if (std::pair(runs_[b].room, b) < std::pair(runs_[a].room, a)) std::swap(a, b);
    links_[b].sibling = links_[a].child;
    links_[a].child = b;
    return a;
  }

  // Melds a list of heaps into one: two and two, then the pairs from the last to the first.
  uint32_t MeldSiblings(uint32_t first) {
    uint32_t pairs = kNone;
    while (first != kNone) {
      const uint32_t second = links_[first].sibling;
      const uint32_t others = second == kNone ? kNone : links_[second].sibling;
      const uint32_t pair = Meld(first, second);
      links_[pair].sibling = pairs;
      pairs = pair;
      first = others;
    }
    uint32_t all = kNone;
    while (pairs != kNone) {
      const uint32_t others = links_[pairs].sibling;
      all = Meld(all, pairs);
      pairs = others;
    }
    return all;
  }

  const BinRuns& runs_;
  const LengthIndex& index_;
  size_t length_ = 0;
  // The run of unopened bins: it holds every length and comes after the others, so it is in no
  // heap.
  uint32_t unopened_ = kNone;
  std::vector<uint32_t> root_;
  // Links of runs in a heap.
  std::unique_ptr<Links[]> links_;
  // The groups that have a run.
  IndexSet groups_;
};

}  // namespace

Bins PackBestFitDecreasing(const PackItems& items, const BinLimits& limits) {
  if (!AreAlike(items)) return PackBestFit(DecreasingOrder(items.lengths), items, limits);
  return PackByRuns<FullestRun>(SortDecreasing(items.lengths), limits, MostBins(items, limits));
}

}  // namespace batchplan
