// Rows made alike: items moved and exchanged between them, as the step gets shorter. Rows may share
// prefixes, be limited in loads, and have phases.

#ifndef BATCHPLAN_SERVER_PLANNER_TREES_TREE_SEARCH_H_
#define BATCHPLAN_SERVER_PLANNER_TREES_TREE_SEARCH_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "server/planner/packing/even_counts.h"
#include "server/planner/request/allowance.h"
#include "server/planner/request/options.h"
#include "server/planner/trees/tree_items.h"

namespace batchplan {

// What rows may be, and what is to be short.
struct TreeTerms {
  // Under kLockstep the sum over slots of their costliest rows, else the costliest rank's sum.
  Synchronization synchronization = Synchronization::kLockstep;
  uint32_t ranks = 1;
  uint32_t slots = 1;
  uint64_t capacity = 0;
  uint32_t max_sequences = 0;
  // Items stay on their ranks; or ranks keep their numbers of sequences, within one of each other
  // where ranks do not divide these.
  bool keeps_ranks = false;
  bool keeps_counts = false;
  // Whether bins may be empty.
  bool may_empty = false;
  // Of dealt loads: what each rank may have of a slot. Null if there are no such limits.
  const Pass* dealt_limits_of = nullptr;

  // Whether a bin stays in its slot unless it is exchanged: where slots are not told apart by the
  // costs of their bins alone.
  bool fixed_slots = false;
};

// Whether what the bins of a slot, and `added` to it, have of dealt loads is within limits once it
// is dealt.
bool DealsWithin(const TreeItems& items, const TreeTerms& terms, std::span<const TreeBin> bins,
                 uint32_t slot, std::span<const uint32_t> added);

// Slot s of rank r is bin r * slots + s. Bins beyond the capacity, of sequences that run alone,
// stay as they are. Bins may be above limits of loads at first; what is less so is always better.
class TreeSearch {
 public:
  // Views `items`. Every item is in one bin.
  TreeSearch(const TreeItems& items, const TreeTerms& terms, std::vector<TreeBin> bins,
             uint64_t seed);

  // Looks at this many pairs of bins, fewer once the allowance is spent or a stop requested. What
  // is worse is accepted at first, by less and less. Keeps the best bins.
  void Improve(uint64_t pairs, const Allowance& allowance);

  // Trades items until no bin is above a limit of loads, or until that does not go on.
  void KeepLimits(const Allowance& allowance);

  // Whether all limits of loads hold.
  bool keeps_limits() const;
  // What is to be short. Above limits it is far longer.
  double time() const { return time_; }
  const std::vector<TreeBin>& bins() const { return bins_; }
  const TreeTerms& terms() const { return terms_; }

 private:
  // Consecutive items of a bin: what the bin has less without them, what they have alone, and what
  // another bin has more with them.
  struct Chunk {
    uint32_t begin = 0;
    uint32_t end = 0;
    uint32_t sequences = 0;
    TreeChange out;
    TreeChange in;
  };
  // Numbers of chunks of the two bins; kNothing: none.
  struct Trade {
    size_t a = 0;
    size_t b = 0;
    double value = 0;
  };

  bool movable(uint32_t bin) const { return bins_[bin].tokens <= terms_.capacity; }
  uint32_t RankOf(uint32_t bin) const { return bin / terms_.slots; }
  uint64_t Random(uint64_t below);
  double Time() const;
  void Regroup();
  struct Outlook;
  // Of two bins by what `cost_of` says of each bin, and of all its rank's.
  template <typename CostOf>
  Outlook OutlookBy(uint32_t a, uint32_t b, CostOf cost_of) const;
  Outlook OutlookOf(uint32_t a, uint32_t b) const;
  uint32_t PickCostliest();
  uint32_t PickOther(uint32_t a);
  void ChunksOf(const TreeBin& from, const TreeBin& into, uint64_t offset,
                std::vector<Chunk>& chunks) const;
  void Try(uint32_t a, uint32_t b, double slack);
  struct Loads;
  bool TryWhole(uint32_t a, uint32_t b, double limit, const Outlook& outlook, const Loads& loads);
  void LoadsOf(const TreeBin& bin, std::span<const Chunk> chunks, std::vector<double>& loads) const;
  bool DealsWithin(uint32_t slot) const;
  bool Take(uint32_t a, uint32_t b, TreeBin new_a, TreeBin new_b);
  bool Fits(const TreeBin& bin) const {
    return bin.tokens <= terms_.capacity && bin.sequences <= terms_.max_sequences;
  }
  void Put(uint32_t bin, TreeBin content);
  void CountSequences();
  // Takes back what was put since there were so many puts since the best.
  void TakeBack(size_t puts);
  // Back to the best bins so far.
  void Undo();

  const TreeItems* items_;
  TreeTerms terms_;
  std::vector<TreeBin> bins_;
  std::vector<uint32_t> bin_of_;  // of items
  // Under kLockstep: bins in an order of which each next `ranks` are a slot, and each one's place.
  std::vector<uint32_t> order_;
  std::vector<uint32_t> place_;
  std::vector<double> sums_;  // of ranks, else
  KeptCounts counts_;         // of the ranks' sequences, where these are to be equal
  double time_ = 0;
  // By how much all bins are above limits, and what a unit of that counts.
  double excess_ = 0;
  double excess_weight_ = 0;
  uint64_t random_;
  uint64_t puts_ = 0;
  double best_time_ = 0;
  // What bins had when they were changed, since the best of all was reached.
  struct Former {
    uint32_t bin;
    TreeBin content;
  };
  std::vector<Former> since_best_;
  // Of one Try.
  std::vector<Chunk> chunks_a_;
  std::vector<Chunk> chunks_b_;
  std::vector<double> loads_a_;
  std::vector<double> loads_b_;
  std::vector<double> added_;
  std::vector<double> removed_;
  std::vector<double> values_;
  mutable std::vector<double> sums_of_costs_;
  mutable std::vector<uint64_t> sums_of_tokens_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_TREES_TREE_SEARCH_H_
