// The waiting sequences before a choice is made: which are too old, which must be taken now, and
// which may get the other seats.

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
#include "server/planner/request/loads.h"
#include "server/planner/request/manifest.h"
#include "server/planner/request/options.h"

namespace batchplan {

// The field of the target and its value, for errors: "selection.groups is 64".
std::string TargetOf(const Selection& selection);

// A unit is a group if the manifest has groups, else a sequence. It stands where its first member
// does, and is as old as its oldest member.
//
// At most max_overtaking of the units behind a waiting one are taken before it. Some units must be
// taken for their age. If n of the others are taken, their first n - max_overtaking must be among
// these, so that at most max_overtaking are taken behind the first unit that waits on. All other
// seats are free, since fewer units are taken behind units that wait further back.
class WaitingPool {
 public:
  // The manifest's arrays have one entry a sequence, and the options a selection. `limit` is the
  // longest sequence that the passes hold.
  //
  // InvalidArgument, naming field and values, if max_age is set and ages are missing, if groups are
  // asked for and group_ids are missing, if the target can't be met, or if the units that must be
  // taken exceed it; and as by ApplyOverlongPolicy and CheckPadTo, for sequences that are not too
  // old. Cancelled if a stop is requested while sums are searched.
  static absl::StatusOr<WaitingPool> Create(const Manifest& manifest, const PlanOptions& options,
                                            const Loads& loads, const LengthLimit& limit,
                                            const Allowance& allowance);

  // The units that may be taken, in order, without expired and dropped sequences.
  const SequenceLists& units() const { return units_; }
  // The units that must be taken, ascending: for their age, or because too many would pass them.
  std::span<const uint32_t> certain() const { return certain_; }
  // The other units, ascending, which are taken or wait on.
  std::span<const uint32_t> open() const { return open_; }
  // The choice of first in, first out for the free seats, as ascending positions in open(). If
  // groups have to add up, the nearest choice to it.
  std::span<const uint32_t> first_choice() const { return first_choice_; }
  // Whether the units taken have to add up to a number of sequences: a unit may then be exchanged
  // only for one with as many.
  bool adds_up() const { return adds_up_; }
  // The most true tokens of the chosen open units together.
  uint64_t max_open_tokens() const { return max_open_tokens_; }
  uint64_t TokensOf(uint32_t unit) const { return tokens_[unit]; }

  // The sequences, ascending, of the certain units and of `chosen`, positions in open().
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
