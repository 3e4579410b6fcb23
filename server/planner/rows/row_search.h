// Local search that moves and exchanges items between rows to shorten the step. Rows may share
// prefixes, have limits on loads, and have phases.

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
// stay as they are. Bins may exceed limits on loads at first; a smaller excess is always better.
class RowSearch {
 public:
  // Views `items`. Every item is in one bin.
  RowSearch(const RowItems& items, const RowTerms& terms, std::vector<Row> bins, uint64_t seed);

  // Looks at this many pairs of bins, fewer once the allowance is spent or a stop requested. At
  // first it accepts worse bins, by less and less. Keeps the best bins.
  void Improve(uint64_t pairs, const Allowance& allowance);

  // Trades items until no bin exceeds a limit on loads, or no trade helps. If it may give up, since
  // other bins keep the limits, it does so where the last trades were too few.
  void KeepLimits(const Allowance& allowance, bool may_give_up);

  // Whether all limits of loads hold.
  bool keeps_limits() const;
  // The step time that the search shortens. Far longer if limits are exceeded.
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
  // The time of a slot: its costliest bin, if ranks wait for it, and its phases.
  double SlotTime(size_t slot) const;
  // The time of a searched load's phase in a slot.
  double PhaseTime(size_t slot, size_t load) const;
  void Regroup();
  void OrderBins();
  // Updates the sums after the content of a bin has changed.
  void Note(uint32_t bin);
  // The outlook of two bins, where cost_of(bin) is the cost of a bin.
  template <typename CostOf>
  RowOutlook OutlookBy(uint32_t a, uint32_t b, CostOf cost_of) const;
  RowOutlook OutlookOf(uint32_t a, uint32_t b) const;
  DealtOutlook DealtOutlookOf(uint32_t a, uint32_t b, size_t load) const;
  LoadsOutlook LoadsOutlookOf(uint32_t a, uint32_t b) const;
  uint64_t TicksAPair() const;
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
  // Undoes puts until there are `puts` of them since the best bins.
  void TakeBack(size_t puts);
  // Back to the best bins so far.
  void Undo();

  const RowItems* items_;
  RowTerms terms_;
  std::vector<Row> bins_;
  std::vector<uint32_t> bin_of_;  // of items
  // Under kLockstep: the bins in an order of which each next `ranks` are a slot, and the place of
  // each.
  std::vector<uint32_t> order_;
  std::vector<uint32_t> place_;
  std::vector<double> sums_;  // otherwise: the costs of ranks
  KeptCounts counts_;         // of the ranks' sequences, if these must be equal
  double time_ = 0;
  SumTree slot_times_;
  // By how much each bin exceeds limits, and the weight of a unit of it.
  SumTree excess_;
  double excess_weight_ = 0;
  uint64_t random_;
  uint64_t puts_ = 0;
  double best_time_ = 0;
  // A lower bound on the step time; 0 if items share prefixes, so that their work depends on their
  // rows.
  double mean_work_ = 0;
  // Former contents of the bins that changed since the best time was reached.
  struct Former {
    uint32_t bin;
    Row content;
  };
  std::vector<Former> since_best_;
  // Scratch of Try.
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
