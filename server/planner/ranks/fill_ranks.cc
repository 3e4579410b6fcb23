#include "server/planner/ranks/fill_ranks.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/planner/padded/splits.h"
#include "server/planner/pass/bundles.h"
#include "server/planner/pass/pass.h"
#include "server/planner/ranks/conflicts.h"
#include "server/planner/ranks/fill_bins.h"
#include "server/planner/ranks/reference_methods.h"
#include "server/planner/ranks/share_balancer.h"
#include "server/planner/request/cancellation.h"
#include "server/planner/request/seeds.h"
#include "server/planner/split/mini_batches.h"

namespace batchplan {
namespace {

// The items of one rank, and its micro-batches.
struct Rank {
  Items items;
  std::optional<SortedItems> sorted;  // in the padded layout
  Bins draft;                         // in the packed layout
  size_t drafted = 0;
  Bins bins;
};

// Ticks of a call, for each rank and for each sequence.
constexpr uint64_t kTicksToFill = 1000;
constexpr uint64_t kTicksARank = 2500;
constexpr uint64_t kTicksAFilledSequence = 50;

class RankFiller {
 public:
  RankFiller(const Pass& pass, const SequenceLists& shares, const SearchContext& context)
      : pass_(pass),
        shares_(shares),
        context_(context),
        allowance_(context.allowance),
        padded_(pass.options().layout == Layout::kPadded) {}

  absl::StatusOr<Placement> Run() {
    allowance_.Spend(kTicksToFill + kTicksARank * shares_.size() +
                     kTicksAFilledSequence * shares_.all().size());
    if (absl::Status status = DraftRanks(); !status.ok()) return status;
    if (pass_.same_widths()) {
      if (std::optional<Placement> shared = FillAtSameWidths()) return *std::move(shared);
    }
    const size_t poorest = PoorestRank();
    absl::StatusOr<Placement> filled = FillWithoutEmpty(poorest);
    if (!pass_.allow_empty() || !absl::IsInvalidArgument(filled.status())) return filled;
    const uint64_t wanted = WantedSlots();
    if (wanted > pass_.most_with_empty() / ranks_.size()) {
      return TooManyEmpty(pass_, wanted, context_.where);
    }
    return Fill(wanted, poorest);
  }

 private:
  absl::Status DraftRanks() {
    ranks_.reserve(shares_.size());
    for (size_t rank = 0; rank < shares_.size(); ++rank) {
      if (absl::Status status = CheckStop(allowance_); !status.ok()) return status;
      const Allowance::Part part(allowance_, shares_.size() - rank + 1);
      Rank& own = ranks_.emplace_back();
      own.items = pass_.ItemsOf(shares_[rank]);
      if (pass_.rank_multiple() > 1) {
        absl::Status fits =
            CheckBundles(pass_, own.items, absl::StrCat(context_.where, ": rank ", rank));
        if (!fits.ok()) return fits;
      }
      if (padded_) {
        own.sorted.emplace(own.items);
        own.drafted = DraftPadded(pass_, *own.sorted);
      } else {
        SearchContext of_rank = context_;
        of_rank.seed = RankSeed(context_.seed, static_cast<uint32_t>(rank));
        own.draft = DraftPacked(pass_, own.items, of_rank);
        own.drafted = own.draft.size();
      }
    }
    return absl::OkStatus();
  }

  size_t PoorestRank() const {
    const auto fewer = [](const Rank& a, const Rank& b) { return a.items.size() < b.items.size(); };
    return std::min_element(ranks_.begin(), ranks_.end(), fewer) - ranks_.begin();
  }

  // The micro-batches of every rank, by the drafts.
  uint64_t WantedSlots() const {
    size_t most = 1;
    for (const Rank& rank : ranks_) most = std::max(most, rank.drafted);
    return pass_.counts().RoundUp(most);
  }

  absl::StatusOr<Placement> FillWithoutEmpty(size_t poorest) {
    const uint64_t wanted = WantedSlots();
    const size_t available = ranks_[poorest].items.size();
    if (wanted <= available) return Fill(wanted, poorest);
    const uint64_t fewer = pass_.counts().RoundDown(available);
    if (fewer == 0) return TooFewItemsOnRank(pass_, poorest, available, wanted, context_.where);
    return Fill(fewer, poorest);
  }

  // Fills every rank with `slots` micro-batches, or fewer if it has fewer items.
  absl::StatusOr<Placement> Fill(uint64_t slots, size_t poorest) {
    const bool has_poorer = slots > ranks_[poorest].items.size() && pass_.given_ranks().empty();
    if (!padded_ && context_.work != PackingWork::kGreedy &&
        pass_.options().packer == Packer::kBalanced && !has_poorer &&
        pass_.loads().limits().empty() && FillBalanced(static_cast<uint32_t>(slots))) {
      if (absl::Status status = CheckStop(allowance_); !status.ok()) return status;
      return Collect(std::max<uint64_t>(slots, ranks_.front().bins.size()));
    }
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (absl::Status status = CheckStop(allowance_); !status.ok()) return status;
      const Allowance::Part part(allowance_, ranks_.size() - rank);
      Rank& own = ranks_[rank];
      const size_t count = std::min<size_t>(slots, own.items.size());
      std::optional<Bins> settled =
          padded_ ? SettlePadded(pass_, own.items, *own.sorted, count, allowance_)
                  : SettlePacked(pass_, own.items, own.draft, count, 1, context_);
      if (!settled) {
        if (absl::Status status = CheckStop(allowance_); !status.ok()) return status;
        return TooFewSlots(pass_, rank, own.drafted, poorest, ranks_[poorest].items.size(), slots,
                           context_.where);
      }
      own.bins = *std::move(settled);
    }
    return Collect(slots);
  }

  // Fills all ranks at once, so that the micro-batches of a slot are alike, or pipelines are done
  // soon, if need be with more micro-batches on each rank. False if nothing is found.
  bool FillBalanced(uint32_t slots) {
    std::vector<const Items*> items;
    for (const Rank& rank : ranks_) items.push_back(&rank.items);
    std::optional<BalancedShares> balanced =
        ShareBalancer(pass_, items, allowance_).Balance(slots, allowance_);
    if (!balanced) return false;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      ranks_[rank].bins = std::move(balanced->ranks[rank]);
    }
    tried_ = std::move(balanced->tried);
    return true;
  }

  // Equal runs of equal widths on all ranks. Nothing if the ranks have different numbers of items,
  // too few of them, or a group that does not fit another rank's width.
  std::optional<Placement> FillAtSameWidths() {
    std::vector<PaddedItems> ranks;
    for (const Rank& rank : ranks_) {
      ranks.push_back(rank.sorted->view());
      if (rank.items.size() != ranks_.front().items.size()) return std::nullopt;
    }
    const size_t items = ranks.front().size();
    if (items == 0 || !FitAlone(ranks)) return std::nullopt;
    Cuts cuts = SharedSortedScan(ranks, pass_.padded_limits());
    const uint64_t slots = pass_.counts().RoundUp(cuts.size() - 1);
    if (slots > items) return std::nullopt;
    cuts = HalveRuns(ranks, cuts, slots);
    for (Rank& rank : ranks_) rank.bins = rank.sorted->BinsOf(cuts);
    Placement placement = Collect(slots);
    placement.whole_slots = true;
    for (size_t slot = 0; slot < slots; ++slot) {
      uint32_t widest = 0;
      for (size_t rank = 0; rank < ranks_.size(); ++rank) {
        widest = std::max(widest, placement.widths[rank * slots + slot]);
      }
      for (size_t rank = 0; rank < ranks_.size(); ++rank) {
        placement.widths[rank * slots + slot] = widest;
      }
    }
    return placement;
  }

  // Whether each position of the sorted orders is within the limits on all ranks.
  bool FitAlone(const std::vector<PaddedItems>& ranks) const {
    if (!pass_.items_are_lists()) return true;
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

  Placement Collect(size_t slots) const {
    std::vector<const Items*> items;
    std::vector<const Bins*> bins;
    for (const Rank& rank : ranks_) {
      items.push_back(&rank.items);
      bins.push_back(&rank.bins);
    }
    Placement placement = PlacementOfRanks(pass_, items, bins, slots);
    placement.method = FillingMethodOf(pass_.options());
    placement.tried = tried_;
    return placement;
  }

  const Pass& pass_;
  const SequenceLists& shares_;
  const SearchContext& context_;
  const Allowance& allowance_;
  const bool padded_;
  std::vector<Rank> ranks_;
  TriedSlots tried_;
};

}  // namespace

absl::StatusOr<Placement> FillRanks(const Pass& pass, const SequenceLists& shares,
                                    const SearchContext& context) {
  return RankFiller(pass, shares, context).Run();
}

// Any two bins of a packer hold more than one has room for, or the packer would have made one bin
// of them, except bins with as many sequences as allowed. That is not proven for
// PACKER_KARMARKAR_KARP, which begins with as few bins as the bounds allow.
bool MayRunShort(const Pass& pass, const SequenceLists& shares) {
  if (pass.options().layout == Layout::kPadded || pass.items_are_lists() ||
      !pass.loads().limits().empty()) {
    return true;
  }
  const BinLimits& limits = pass.bin_limits();
  size_t poorest = std::numeric_limits<size_t>::max();
  uint64_t most = 1;
  for (size_t rank = 0; rank < shares.size(); ++rank) {
    const size_t sequences = shares[rank].size();
    uint64_t tokens = 0;
    for (const SequenceIndex sequence : shares[rank]) tokens += pass.RoomOf(sequence);
    poorest = std::min(poorest, sequences);
    most = std::max(most, 2 * (tokens / limits.capacity + 1) + sequences / limits.max_sequences);
  }
  return pass.counts().RoundUp(most) > poorest;
}

}  // namespace batchplan
