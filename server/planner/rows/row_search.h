// Rows made alike: items moved and exchanged between them, as the step gets shorter. Rows may share
// prefixes, be limited in loads, and have phases.

#ifndef BATCHPLAN_SERVER_PLANNER_ROWS_ROW_SEARCH_H_
#define BATCHPLAN_SERVER_PLANNER_ROWS_ROW_SEARCH_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "server/planner/packing/even_counts.h"
#include "server/planner/request/allowance.h"
#include "server/planner/request/options.h"
#include "server/planner/rows/row.h"
#include "server/planner/rows/row_chunks.h"
#include "server/planner/rows/row_items.h"
#include "server/planner/rows/row_outlook.h"
#include "server/planner/rows/row_terms.h"
#include "server/planner/rows/sum_tree.h"

namespace batchplan {

// Slot s of rank r is bin r * slots + s. Bins beyond the capacity, of sequences that run alone,
// stay as they are. Bins may be above limits of loads at first; what is less so is always better.
class RowSearch {
 public:
  // Views `items`. Every item is in one bin.
  RowSearch(const RowItems& items, const RowTerms& terms, std::vector<Row> bins, uint64_t seed);

  // Looks at this many pairs of bins, fewer once the allowance is spent or a stop requested. What
  // is worse is accepted at first, by less and less. Keeps the best bins.
  void Improve(uint64_t pairs, const Allowance& allowance);

  // Trades items until no bin is above a limit of loads, or until that does not go on.
  void KeepLimits(const Allowance& allowance);

  // Whether all limits of loads hold.
  bool keeps_limits() const;
  // What is to be short. Above limits it is far longer.
  double time() const { return time_; }
  const std::vector<Row>& bins() const { return bins_; }
  const RowTerms& terms() const { return terms_; }

 private:
  // Numbers of chunks of the two bins; kNoChunk: none.
  struct Trade {
    size_t a = 0;
    size_t b = 0;
    double value = 0;
  };

  bool movable(uint32_t bin) const { return bins_[bin].tokens <= terms_.capacity; }
  uint32_t RankOf(uint32_t bin) const { return bin / terms_.slots; }
  uint64_t Random(uint64_t below);
  double Time() const;
  // What a slot takes: its costliest bin where ranks wait for it, and its phases.
  double SlotTime(size_t slot) const;
  // What the phase of a searched load takes in a slot.
  double PhaseTime(size_t slot, size_t load) const;
  void Regroup();
  void OrderBins();
  // After the content of a bin has changed.
  void Note(uint32_t bin);
  // Of two bins by what `cost_of` says of each bin, and of all its rank's.
  template <typename CostOf>
  RowOutlook OutlookBy(uint32_t a, uint32_t b, CostOf cost_of) const;
  RowOutlook OutlookOf(uint32_t a, uint32_t b) const;
  DealtOutlook DealtOutlookOf(uint32_t a, uint32_t b, size_t load) const;
  LoadsOutlook LoadsOutlookOf(uint32_t a, uint32_t b) const;
  uint32_t PickCostliest();
  uint32_t PickOther(uint32_t a);
  void Try(uint32_t a, uint32_t b, double slack);
  bool TryWhole(uint32_t a, uint32_t b, double limit, const RowOutlook& outlook,
                const LoadsOutlook& loads);
  bool DealsWithin(uint32_t slot) const;
  bool Take(uint32_t a, uint32_t b, Row new_a, Row new_b);
  bool Fits(const Row& bin) const {
    return bin.tokens <= terms_.capacity && bin.sequences <= terms_.max_sequences;
  }
  void Put(uint32_t bin, Row content);
  void CountSequences();
  // Takes back what was put since there were so many puts since the best.
  void TakeBack(size_t puts);
  // Back to the best bins so far.
  void Undo();

  const RowItems* items_;
  RowTerms terms_;
  std::vector<Row> bins_;
  std::vector<uint32_t> bin_of_;  // of items
  // Under kLockstep: bins in an order of which each next `ranks` are a slot, and each one's place.
  std::vector<uint32_t> order_;
  std::vector<uint32_t> place_;
  std::vector<double> sums_;  // of ranks, else
  KeptCounts counts_;         // of the ranks' sequences, where these are to be equal
  double time_ = 0;
  SumTree slot_times_;
  // By how much each bin is above limits, and what a unit of that counts.
  SumTree excess_;
  double excess_weight_ = 0;
  uint64_t random_;
  uint64_t puts_ = 0;
  double best_time_ = 0;
  // What no step is shorter than; 0 where items share, so that rows' work depends on the others in
  // them.
  double mean_work_ = 0;
  // What bins had when they were changed, since the best of all was reached.
  struct Former {
    uint32_t bin;
    Row content;
  };
  std::vector<Former> since_best_;
  // Of one Try.
  ChunkFinder finder_;
  std::vector<RowChunk> chunks_a_;
  std::vector<RowChunk> chunks_b_;
  ChunkLoads loads_a_;
  ChunkLoads loads_b_;
  std::vector<double> added_;
  std::vector<double> removed_;
  std::vector<double> values_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ROWS_ROW_SEARCH_H_
