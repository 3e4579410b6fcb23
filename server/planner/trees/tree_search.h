// Rows of shared prefixes made alike: items moved and exchanged between them, as the step gets
// shorter.

#ifndef BATCHPLAN_SERVER_PLANNER_TREES_TREE_SEARCH_H_
#define BATCHPLAN_SERVER_PLANNER_TREES_TREE_SEARCH_H_

#include <cstddef>
#include <cstdint>
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
};

// Slot s of rank r is bin r * slots + s. Bins beyond the capacity, of sequences that run alone,
// stay as they are.
class TreeSearch {
 public:
  // Views `items`. Every item is in one bin.
  TreeSearch(const TreeItems& items, const TreeTerms& terms, std::vector<TreeBin> bins,
             uint64_t seed);

  // Looks at this many pairs of bins, fewer once the allowance is spent or a stop requested. What
  // is worse is accepted at first, by less and less. Keeps the best bins.
  void Improve(uint64_t pairs, const Allowance& allowance);

  // What is to be short.
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
  Outlook OutlookOf(uint32_t a, uint32_t b) const;
  uint32_t PickCostliest();
  uint32_t PickOther(uint32_t a);
  void ChunksOf(const TreeBin& from, const TreeBin& into, uint64_t offset,
                std::vector<Chunk>& chunks) const;
  void Try(uint32_t a, uint32_t b, double slack);
  bool Fits(const TreeBin& bin) const {
    return bin.tokens <= terms_.capacity && bin.sequences <= terms_.max_sequences;
  }
  void Put(uint32_t bin, TreeBin content);
  void CountSequences();
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
  std::vector<double> added_;
  std::vector<double> removed_;
  std::vector<double> values_;
  mutable std::vector<double> sums_of_costs_;
  mutable std::vector<uint64_t> sums_of_tokens_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_TREES_TREE_SEARCH_H_
