// What waits to be trained, before it is chosen from: what is too old is out, what must be taken
// now is known, and how much else.

#ifndef BATCHPLAN_SERVER_PLANNER_SPLIT_WAITING_POOL_H_
#define BATCHPLAN_SERVER_PLANNER_SPLIT_WAITING_POOL_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/planner/request/allowance.h"
#include "server/planner/request/lengths.h"
#include "server/planner/request/manifest.h"
#include "server/planner/request/options.h"

namespace batchplan {

// The field of the target and its value, for errors: "selection.groups is 64".
std::string TargetOf(const Selection& selection);

// What waits is counted in units: groups where the manifest has any, else sequences. A unit stands
// where its first member does, and is as old as its oldest.
//
// A unit that waits is passed by at most max_overtaking others that stand behind it. So of n units
// that are taken, not for their age, the first n - max_overtaking in order are: whatever waits
// first of all, no more than max_overtaking are taken behind it. All other seats are free, since
// what waits later has fewer behind it. That is the whole constraint.
class WaitingPool {
 public:
  // Of a manifest whose arrays have one entry a sequence, with options.selection. `limit` is the
  // longest sequence that the passes hold.
  //
  // InvalidArgument, naming field and values: ages that max_age needs and that are not there,
  // groups that are not there, a target that can't be met, or what must be taken now and is more
  // than the target; and what ApplyOverlongPolicy and CheckPadTo refuse of those that are not too
  // old. Cancelled if a stop is requested while sums are looked for.
  static absl::StatusOr<WaitingPool> Create(const Manifest& manifest, const PlanOptions& options,
                                            const LengthLimit& limit, const Allowance& allowance);

  // The units that may be taken, in order; no expired ones, and of dropped sequences none.
  const SequenceLists& units() const { return units_; }
  // Of them, those that are taken in any case, ascending: for their age, or since too many would
  // pass them.
  std::span<const uint32_t> certain() const { return certain_; }
  // The others, ascending.
  std::span<const uint32_t> open() const { return open_; }
  // Of open(), positions in it, ascending: who gets the seats that are left by first in, first out;
  // where groups have to add up, by what comes near to it.
  std::span<const uint32_t> first_choice() const { return first_choice_; }
  // Whether what is taken has to add up to a number of sequences, so that units are exchanged for
  // units of as many.
  bool adds_up() const { return adds_up_; }
  // True tokens of the open units that are chosen, at most.
  uint64_t max_open_tokens() const { return max_open_tokens_; }
  uint64_t TokensOf(uint32_t unit) const { return tokens_[unit]; }

  // The sequences of what is taken, certain units and `chosen`, positions in open(), ascending.
  std::vector<SequenceIndex> Sequences(std::span<const uint32_t> chosen) const;
  // Expired and dropped sequences, ascending.
  const std::vector<ExcludedSequence>& excluded() const { return excluded_; }

 private:
  absl::Status SeatUnits(const Manifest& manifest, const Selection& selection,
                         const std::vector<bool>& forced, const Allowance& allowance);

  SequenceLists units_;
  std::vector<uint64_t> tokens_;
  std::vector<uint32_t> certain_;
  std::vector<uint32_t> open_;
  std::vector<uint32_t> first_choice_;
  bool adds_up_ = false;
  uint64_t max_open_tokens_ = 0;
  std::vector<ExcludedSequence> excluded_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_SPLIT_WAITING_POOL_H_
