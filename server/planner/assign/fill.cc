#include "server/planner/assign/fill.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "server/planner/assign/conflicts.h"
#include "server/planner/assign/objective.h"
#include "server/planner/assign/packed_fill.h"
#include "server/planner/assign/padded_fill.h"
#include "server/planner/balance/lockstep.h"
#include "server/planner/balance/step_time_bound.h"
#include "server/planner/cancellation.h"
#include "server/planner/padded/splits.h"
#include "server/planner/seeds.h"

namespace batchplan {
namespace {

// What one rank has, and the micro-batches it becomes.
struct Share {
  SequenceLists blocks;
  Items items;
  std::optional<SortedItems> sorted;  // in the padded layout
  Bins draft;                         // in the packed layout
  size_t drafted = 0;
  Bins bins;
};

// Of an allowance: of a call, for each rank and for each sequence.
constexpr uint64_t kUnitsToFill = 1000;
constexpr uint64_t kUnitsARank = 2500;
constexpr uint64_t kUnitsAFilledSequence = 50;

class RankFiller {
 public:
  RankFiller(const PassInstance& pass, const SequenceLists& shards, uint64_t seed,
             absl::string_view where, PackingWork work, const Allowance& allowance)
      : pass_(pass),
        shards_(shards),
        seed_(seed),
        where_(where),
        work_(work),
        allowance_(allowance),
        padded_(pass.options().layout == Layout::kPadded) {}

  absl::StatusOr<Assignment> Run() {
    allowance_.Spend(kUnitsToFill + kUnitsARank * shards_.size() +
                     kUnitsAFilledSequence * shards_.all().size());
    if (absl::Status status = DraftShares(); !status.ok()) return status;
    if (pass_.share_widths()) {
      if (std::optional<Assignment> shared = FillShared()) return *std::move(shared);
    }
    const size_t poorest = PoorestRank();
    absl::StatusOr<Assignment> filled = FillWithoutEmpty(poorest);
    if (!pass_.allow_empty() || !absl::IsInvalidArgument(filled.status())) return filled;
    const uint64_t wanted = WantedSlots();
    if (wanted > kMaxEmptyMicrobatches / shares_.size()) {
      return TooManyEmpty(pass_, wanted, where_);
    }
    return Fill(wanted, poorest);
  }

 private:
  absl::Status DraftShares() {
    shares_.reserve(shards_.size());
    for (size_t rank = 0; rank < shards_.size(); ++rank) {
      if (absl::Status status = CheckStop(allowance_); !status.ok()) return status;
      const Allowance::Part part(allowance_, shards_.size() - rank + 1);
      Share& share = shares_.emplace_back();
      share.blocks = pass_.MicrobatchBlocks(shards_[rank]);
      share.items = pass_.ItemsOf(share.blocks);
      if (padded_) {
        share.sorted.emplace(share.items);
        share.drafted = DraftPadded(pass_, *share.sorted);
      } else {
        share.draft = DraftPacked(pass_, share.items, RankSeed(seed_, static_cast<uint32_t>(rank)),
                                  work_, allowance_);
        share.drafted = share.draft.size();
      }
    }
    return absl::OkStatus();
  }

  size_t PoorestRank() const {
    const auto fewer = [](const Share& a, const Share& b) {
      return a.items.size() < b.items.size();
    };
    return std::min_element(shares_.begin(), shares_.end(), fewer) - shares_.begin();
  }

  // The number of micro-batches of every rank, as the drafts have them.
  uint64_t WantedSlots() const {
    size_t most = 1;
    for (const Share& share : shares_) most = std::max(most, share.drafted);
    return pass_.counts().RoundUp(most);
  }

  absl::StatusOr<Assignment> FillWithoutEmpty(size_t poorest) {
    const uint64_t wanted = WantedSlots();
    const size_t available = shares_[poorest].items.size();
    if (wanted <= available) return Fill(wanted, poorest);
    const uint64_t fewer = pass_.counts().RoundDown(available);
    if (fewer == 0) return TooFewItemsOnRank(pass_, poorest, available, wanted, where_);
    return Fill(fewer, poorest);
  }

  // `slots` micro-batches on every rank, or fewer where it has fewer items.
  absl::StatusOr<Assignment> Fill(uint64_t slots, size_t poorest) {
    if (!padded_ && work_ != PackingWork::kGreedy && pass_.options().packer == Packer::kBalanced &&
        slots <= shares_[poorest].items.size() && FillBalanced(static_cast<uint32_t>(slots))) {
      if (absl::Status status = CheckStop(allowance_); !status.ok()) return status;
      return Collect(slots);
    }
    for (size_t rank = 0; rank < shares_.size(); ++rank) {
      if (absl::Status status = CheckStop(allowance_); !status.ok()) return status;
      const Allowance::Part part(allowance_, shares_.size() - rank);
      Share& share = shares_[rank];
      const size_t count = std::min<size_t>(slots, share.items.size());
      std::optional<Bins> settled =
          padded_ ? SettlePadded(pass_, share.items, *share.sorted, count, allowance_)
                  : SettlePacked(pass_, share.items, share.draft, count, 1, work_, allowance_);
      if (!settled) {
        if (absl::Status status = CheckStop(allowance_); !status.ok()) return status;
        return TooFewSlots(pass_, rank, share.drafted, poorest, shares_[poorest].items.size(),
                           slots, where_);
      }
      share.bins = *std::move(settled);
    }
    return Collect(slots);
  }

  // All ranks at once, so that what runs at the same time is alike. False if that is not found.
  bool FillBalanced(uint32_t slots) {
    Items items;
    std::vector<uint32_t> rank_of;
    for (uint32_t rank = 0; rank < shares_.size(); ++rank) {
      const Items& own = shares_[rank].items;
      items.lengths.insert(items.lengths.end(), own.lengths.begin(), own.lengths.end());
      items.counts.insert(items.counts.end(), own.counts.begin(), own.counts.end());
      items.costs.insert(items.costs.end(), own.costs.begin(), own.costs.end());
      rank_of.resize(items.size(), rank);
    }
    const Objective objective = ObjectiveOf(pass_, items);
    const PackItems packing{
        .lengths = items.lengths, .counts = items.counts, .loads = objective.loads};
    const auto ranks = static_cast<uint32_t>(shares_.size());
    const std::optional<BalancedBins> balanced =
        BalanceLockstep({.items = packing,
                         .limits = pass_.bin_limits(),
                         .ranks = ranks,
                         .slots = slots,
                         .rank_of = rank_of,
                         .enough = LockstepBound(packing, pass_.bin_limits(), ranks),
                         .effort = pass_.effort(),
                         .allowance = allowance_});
    if (!balanced) return false;
    uint32_t offset = 0;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      Bins bins;
      for (uint32_t slot = 0; slot < slots; ++slot) {
        std::vector<uint32_t> bin;
        for (uint32_t item : balanced->bins[rank * slots + slot]) bin.push_back(item - offset);
        bins.Add(bin);
      }
      offset += shares_[rank].items.size();
      shares_[rank].bins = std::move(bins);
    }
    return true;
  }

  // The same runs at the same widths on all ranks; nothing if the ranks have different numbers of
  // items, too few, or a group for which another rank's width is too much.
  std::optional<Assignment> FillShared() {
    std::vector<PaddedItems> ranks;
    for (const Share& share : shares_) {
      ranks.push_back(share.sorted->view());
      if (share.items.size() != shares_.front().items.size()) return std::nullopt;
    }
    const size_t items = ranks.front().size();
    if (items == 0 || !FitAlone(ranks)) return std::nullopt;
    Cuts cuts = SharedSortedScan(ranks, pass_.padded_limits());
    const uint64_t slots = pass_.counts().RoundUp(cuts.size() - 1);
    if (slots > items) return std::nullopt;
    cuts = HalveRuns(ranks, cuts, slots);
    for (Share& share : shares_) share.bins = share.sorted->BinsOf(cuts);
    Assignment assignment = Collect(slots);
    assignment.shared_widths = true;
    for (size_t slot = 0; slot < slots; ++slot) {
      uint32_t widest = 0;
      for (size_t rank = 0; rank < shares_.size(); ++rank) {
        widest = std::max(widest, assignment.widths[rank * slots + slot]);
      }
      for (size_t rank = 0; rank < shares_.size(); ++rank) {
        assignment.widths[rank * slots + slot] = widest;
      }
    }
    return assignment;
  }

  // Whether each position of the sorted orders is within the limits on all ranks.
  bool FitAlone(const std::vector<PaddedItems>& ranks) const {
    if (!pass_.groups_share_microbatch()) return true;
    for (size_t position = 0; position < ranks.front().size(); ++position) {
      uint32_t width = 0;
      uint32_t count = 0;
      for (const PaddedItems& items : ranks) {
        width = std::max(width, items.widths[position]);
        count = std::max(count, items.count(position));
      }
      if (!pass_.padded_limits().Allow(count, width)) return false;
    }
    return true;
  }

  Assignment Collect(size_t slots) const {
    Assignment assignment;
    assignment.slots = static_cast<uint32_t>(slots);
    assignment.widths.reserve(slots * shares_.size());
    assignment.microbatches.Reserve(slots * shares_.size(), shards_.all().size());
    for (const Share& share : shares_) {
      for (size_t slot = 0; slot < slots; ++slot) {
        uint32_t width = 0;
        if (slot < share.bins.size()) {
          for (uint32_t item : share.bins[slot]) {
            const uint32_t length = share.items.lengths[item];
            width = padded_ ? std::max(width, length) : width + length;
            assignment.microbatches.Push(share.blocks[item]);
          }
        }
        assignment.microbatches.Close();
        assignment.widths.push_back(width);
      }
    }
    return assignment;
  }

  const PassInstance& pass_;
  const SequenceLists& shards_;
  const uint64_t seed_;
  const absl::string_view where_;
  const PackingWork work_;
  const Allowance& allowance_;
  const bool padded_;
  std::vector<Share> shares_;
};

}  // namespace

absl::StatusOr<Assignment> FillRanks(const PassInstance& pass, const SequenceLists& shards,
                                     uint64_t seed, absl::string_view where, PackingWork work,
                                     const Allowance& allowance) {
  return RankFiller(pass, shards, seed, where, work, allowance).Run();
}

}  // namespace batchplan
