#include "server/planner/fill.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/planner/packed_fill.h"
#include "server/planner/padded/sorted_scan.h"
#include "server/planner/padded_fill.h"
#include "server/planner/seeds.h"

namespace batchplan {
namespace {

// What one rank has, and the micro-batches it becomes.
struct Share {
  SequenceLists blocks;
  Items items;
  std::optional<SortedItems> sorted;  // in the padded layout
  Bins bins;
  size_t drafted = 0;
};

class RankFiller {
 public:
  RankFiller(const PassInstance& pass, const SequenceLists& shards, uint64_t seed,
             absl::string_view where)
      : pass_(pass), where_(where), padded_(pass.options().layout == Layout::kPadded) {
    shares_.reserve(shards.size());
    for (size_t rank = 0; rank < shards.size(); ++rank) {
      Share& share = shares_.emplace_back();
      share.blocks = pass.MicrobatchBlocks(shards[rank]);
      share.items = pass.ItemsOf(share.blocks);
      if (padded_) {
        share.sorted.emplace(share.items);
        share.drafted = DraftPadded(pass, *share.sorted);
      } else {
        share.bins = DraftPacked(pass, share.items, RankSeed(seed, static_cast<uint32_t>(rank)));
        share.drafted = share.bins.size();
      }
    }
  }

  absl::StatusOr<Assignment> Run() {
    if (pass_.share_widths()) {
      if (std::optional<Assignment> shared = FillShared()) return *std::move(shared);
    }
    const absl::StatusOr<size_t> slots = CountSlots();
    if (!slots.ok()) return slots.status();
    for (size_t rank = 0; rank < shares_.size(); ++rank) {
      Share& share = shares_[rank];
      const size_t count = std::min<size_t>(*slots, share.items.size());
      std::optional<Bins> settled = padded_
                                        ? SettlePadded(pass_, share.items, *share.sorted, count)
                                        : SettlePacked(pass_, share.items, share.bins, count, 1);
      if (!settled) return TooFewMicrobatches(rank, *slots);
      share.bins = *std::move(settled);
    }
    return Collect(*slots);
  }

 private:
  // The number of micro-batches that every rank gets.
  absl::StatusOr<size_t> CountSlots() const {
    size_t most = 1;
    size_t poorest = 0;
    for (size_t rank = 0; rank < shares_.size(); ++rank) {
      most = std::max(most, shares_[rank].drafted);
      if (shares_[rank].items.size() < shares_[poorest].items.size()) poorest = rank;
    }
    const uint64_t wanted = pass_.counts().RoundUp(most);
    if (pass_.allow_empty()) {
      if (wanted <= kMaxEmptyMicrobatches / shares_.size()) return wanted;
      return absl::InvalidArgumentError(
          absl::StrCat(where_, " needs ", wanted, " micro-batches on each of ", shares_.size(),
                       " ranks, more than ", kMaxEmptyMicrobatches,
                       " in all, the limit where allow_empty_microbatches is set"));
    }
    const size_t available = shares_[poorest].items.size();
    if (wanted <= available) return wanted;
    if (const uint64_t fewer = pass_.counts().RoundDown(available)) return fewer;
    return TooFewItems(poorest, wanted);
  }

  absl::Status TooFewItems(size_t rank, uint64_t slots) const {
    const Share& share = shares_[rank];
    return absl::InvalidArgumentError(absl::StrCat(
        where_, ": rank ", rank, " has ", share.items.size(),
        pass_.groups_share_microbatch() ? " groups" : " sequences", ", but needs ", slots,
        " micro-batches of one or more, as every rank of data_parallel ", shares_.size(),
        " (at least ", pass_.counts().minimum, ", a multiple of ", pass_.counts().multiple, ")"));
  }

  absl::Status TooFewMicrobatches(size_t rank, uint64_t slots) const {
    const Share& share = shares_[rank];
    size_t poorest = 0;
    for (size_t other = 0; other < shares_.size(); ++other) {
      if (shares_[other].items.size() < shares_[poorest].items.size()) poorest = other;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        where_, ": rank ", rank, " needs ", share.drafted, " micro-batches to keep ", pass_.where(),
        ".max_tokens_per_microbatch ", pass_.options().max_tokens_per_microbatch,
        ", but every rank of data_parallel ", shares_.size(), " has the same number, and ", slots,
        " are the most that rank ", poorest, " can fill (it has ", shares_[poorest].items.size(),
        pass_.groups_share_microbatch() ? " groups" : " sequences", "; counts are at least ",
        pass_.counts().minimum, ", a multiple of ", pass_.counts().multiple, ")"));
  }

  // The same runs at the same widths on all ranks; nothing if the ranks have different numbers of
  // items or too few.
  std::optional<Assignment> FillShared() {
    std::vector<PaddedItems> ranks;
    for (const Share& share : shares_) {
      ranks.push_back(share.sorted->view());
      if (share.items.size() != shares_.front().items.size()) return std::nullopt;
    }
    const size_t items = ranks.front().size();
    if (items == 0) return std::nullopt;
    Cuts cuts = SharedSortedScan(ranks, pass_.padded_limits());
    uint64_t slots = pass_.counts().RoundUp(cuts.size() - 1);
    if (slots > items && !pass_.allow_empty()) return std::nullopt;
    if (slots > kMaxEmptyMicrobatches / ranks.size() && slots > items) return std::nullopt;
    cuts = HalveRuns(ranks, cuts, std::min<uint64_t>(slots, items));
    for (Share& share : shares_) share.bins = share.sorted->BinsOf(cuts);
    Assignment assignment = Collect(slots);
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

  Assignment Collect(size_t slots) const {
    Assignment assignment;
    assignment.slots = static_cast<uint32_t>(slots);
    assignment.widths.reserve(slots * shares_.size());
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
  const absl::string_view where_;
  const bool padded_;
  std::vector<Share> shares_;
};

}  // namespace

absl::StatusOr<Assignment> FillRanks(const PassInstance& pass, const SequenceLists& shards,
                                     uint64_t seed, absl::string_view where) {
  return RankFiller(pass, shards, seed, where).Run();
}

}  // namespace batchplan
