#include "server/planner/assign/assign.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/planner/assign/balanced.h"
#include "server/planner/assign/conflicts.h"
#include "server/planner/assign/deal.h"
#include "server/planner/assign/fewest_microbatches.h"
#include "server/planner/assign/fill.h"
#include "server/planner/assign/place.h"
#include "server/planner/assign/search_ranks.h"
#include "server/planner/assign/shard.h"
#include "server/planner/assign/shares.h"
#include "server/planner/seeds.h"

namespace batchplan {
namespace {

// The passes' micro-batches over one mini-batch, and the shares of the ranks that they all keep to.
struct Placed {
  SequenceLists shares;
  std::vector<Assignment> assignments;  // one for each pass that has this mini-batch
};

// The most empty micro-batches that one rank has in some pass, then all of them.
std::pair<size_t, size_t> EmptyMicrobatches(const Placed& placed) {
  size_t most = 0;
  size_t all = 0;
  for (const Assignment& assignment : placed.assignments) {
    for (size_t rank = 0; rank < assignment.ranks(); ++rank) {
      const size_t begin = rank * assignment.slots;
      size_t empty = 0;
      for (size_t slot = 0; slot < assignment.slots; ++slot) {
        empty += assignment.microbatches[begin + slot].empty();
      }
      most = std::max(most, empty);
      all += empty;
    }
  }
  return {most, all};
}

// As many sequences are packed within every effort in microseconds.
constexpr uint64_t kMostForSearches = 32;

class Assigner {
 public:
  Assigner(std::span<const PassInstance> passes, const Topology& topology,
           const SequenceLists& mini_batches, uint64_t seed, const std::stop_token& stop)
      : passes_(passes),
        first_(passes.front()),
        sequences_(mini_batches.all().size()),
        seed_(seed),
        stop_(stop) {
    const auto respects = [](const PassInstance& pass) {
      return !pass.options().ignore_mini_batches;
    };
    has_mini_batches_ = std::any_of(passes.begin(), passes.end(), respects);
    if (has_mini_batches_) {
      mini_batches_ = &mini_batches;
    } else {
      whole_.Push(mini_batches.all());
      whole_.Close();
      mini_batches_ = &whole_;
    }
    for (const PassInstance& pass : passes) {
      (has_mini_batches_ && !respects(pass) ? over_all_ : within_).push_back(&pass);
    }
    if (within_.front() != &first_) {
      lead_options_ = within_.front()->options();
      lead_options_.sharding = first_.options().sharding;
      lead_options_.balance_on = first_.options().balance_on;
      lead_options_.equal_sequence_counts = first_.options().equal_sequence_counts;
      stand_in_.emplace(within_.front()->With(lead_options_));
      lead_ = &*stand_in_;
    }
    if (IsBalanced() && lead_->effort() != Effort::kFast) {
      methods_ = ReferenceMethods(lead_->options(), topology);
      for (const PassOptions& method : methods_) references_.push_back(lead_->With(method));
    }
  }

  absl::StatusOr<std::vector<std::vector<Assignment>>> Run() {
    std::vector<Placed> placed;
    placed.reserve(mini_batches_->size());
    for (size_t k = 0; k < mini_batches_->size(); ++k) {
      absl::StatusOr<Placed> mini_batch = PlaceMiniBatch(k);
      if (!mini_batch.ok()) return mini_batch.status();
      for (const Assignment& assignment : mini_batch->assignments) {
        microbatches_ += assignment.microbatches.size();
      }
      if (absl::Status status = CheckTotal(microbatches_); !status.ok()) return status;
      placed.push_back(*std::move(mini_batch));
    }
    absl::StatusOr<std::vector<Assignment>> over_all = FillOverAll(placed);
    if (absl::IsInvalidArgument(over_all.status())) {
      over_all = PlaceAllAnew(placed, over_all.status());
    }
    if (!over_all.ok()) return over_all.status();
    return Collect(std::move(placed), *std::move(over_all));
  }

 private:
  std::string Where(const PassInstance& pass, size_t k) const {
    if (pass.options().ignore_mini_batches) return pass.where();
    return absl::StrCat(pass.where(), ": mini-batch ", k);
  }
  uint64_t Seed(size_t k) const { return MiniBatchSeed(seed_, k); }

  // That empty micro-batches, of all passes and mini-batches, keep to their limit.
  absl::Status CheckTotal(uint64_t microbatches) const {
    if (microbatches <= passes_.size() * sequences_ + kMaxEmptyMicrobatches) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "the plan needs more than ", kMaxEmptyMicrobatches,
        " micro-batches beyond one a sequence, the limit where allow_empty_microbatches is set "
        "(data_parallel ",
        first_.ranks(), ", ", mini_batches_->size(), " mini-batches, ", passes_.size(),
        " passes)"));
  }

  bool IsBalanced() const { return first_.options().sharding == Sharding::kBalanced; }
  bool IsContiguous() const { return first_.options().sharding == Sharding::kContiguous; }
  // Whether the request names the rank of each sequence.
  bool IsFixed() const { return first_.options().sharding == Sharding::kStrideSorted; }

  absl::StatusOr<Placed> FillWithin(size_t k, SequenceLists shares,
                                    PackingWork work = PackingWork::kAsAsked) const {
    return FillRest(k, {.shares = std::move(shares), .assignments = {}}, work);
  }
  // With the leading pass as it was dealt.
  absl::StatusOr<Placed> FillWithin(size_t k, Dealt dealt) const {
    Placed placed{.shares = std::move(dealt.shares), .assignments = {}};
    placed.assignments.push_back(std::move(dealt.assignment));
    return FillRest(k, std::move(placed), PackingWork::kAsAsked);
  }
  absl::StatusOr<Placed> FillRest(size_t k, Placed placed, PackingWork work) const {
    while (placed.assignments.size() < within_.size()) {
      const PassInstance& pass = *within_[placed.assignments.size()];
      absl::StatusOr<Assignment> filled =
          FillRanks(pass, placed.shares, Seed(k), Where(pass, k), work, stop_);
      if (!filled.ok()) return filled.status();
      placed.assignments.push_back(*std::move(filled));
    }
    return placed;
  }

  // As the first pass's sharding has it.
  absl::StatusOr<Placed> PlaceAsAsked(size_t k) const {
    const std::string where = Where(*lead_, k);
    if (IsBalanced()) return PlaceBest(k, where);
    absl::StatusOr<Dealt> dealt = Place(*lead_, (*mini_batches_)[k], Seed(k), where, stop_);
    if (!dealt.ok()) return dealt.status();
    return FillWithin(k, *std::move(dealt));
  }

  // The best of the balanced placements that the other passes can use; of those that leave a rank
  // with no more empty micro-batches than the even placement, if there are any.
  absl::StatusOr<Placed> PlaceBest(size_t k, absl::string_view where) const {
    absl::StatusOr<std::vector<Dealt>> placements =
        PlaceBalanced(*lead_, references_, (*mini_batches_)[k], Seed(k), where, stop_);
    if (!placements.ok()) return placements.status();
    absl::StatusOr<Placed> best;
    std::optional<absl::StatusOr<Placed>> even;
    for (Dealt& dealt : *placements) {
      absl::StatusOr<Placed> placed = FillWithin(k, std::move(dealt));
      if (absl::IsInvalidArgument(placed.status())) {
        if (!best.ok()) best = std::move(placed);
        continue;
      }
      if (!placed.ok() || !SpreadsEmpty()) return placed;
      const std::pair<size_t, size_t> empty = EmptyMicrobatches(*placed);
      if (empty.second == 0) return placed;
      if (!even) even = PlaceEvenly(k);
      if (!even->ok() || EmptyMicrobatches(**even) >= empty) return placed;
      if (!best.ok()) best = std::move(placed);
    }
    return best;
  }

  // Whether empty micro-batches are as few on each rank as an even placement has them.
  bool SpreadsEmpty() const {
    return first_.allow_empty() && !first_.options().equal_sequence_counts;
  }

  absl::StatusOr<Placed> PlaceEvenly(size_t k) const {
    const RankUnits units(first_, (*mini_batches_)[k]);
    return FillWithin(k, SharesOf(units.blocks, ShardEvenly(first_, units), first_.ranks()));
  }

  // The even placement where a rank of `asked` has more empty micro-batches than it would have
  // then.
  absl::StatusOr<Placed> SpreadEmpty(size_t k, Placed asked) const {
    const std::pair<size_t, size_t> empty = EmptyMicrobatches(asked);
    if (empty.second == 0 || first_.options().equal_sequence_counts) return asked;
    absl::StatusOr<Placed> even = PlaceEvenly(k);
    if (absl::IsInvalidArgument(even.status())) return asked;
    if (even.ok() && EmptyMicrobatches(*even) >= empty) return asked;
    if (even.ok()) even->assignments.front().proven = asked.assignments.front().proven;
    return even;
  }

  absl::StatusOr<Placed> PlaceMiniBatch(size_t k) const {
    absl::StatusOr<Placed> asked = PlaceAsAsked(k);
    if (IsFixed()) return asked;
    if (asked.ok() && first_.allow_empty()) return SpreadEmpty(k, *std::move(asked));
    if (!absl::IsInvalidArgument(asked.status())) return asked;
    for (const PassInstance* pass : within_) {
      absl::Status possible = CheckPossible(*pass, (*mini_batches_)[k], Where(*pass, k));
      if (!possible.ok()) return possible;
    }

    if (CanDeal(*lead_) && !Deals(*lead_) && !IsContiguous()) {
      absl::StatusOr<Dealt> dealt =
          PackAndDeal(*lead_, (*mini_batches_)[k], Seed(k), Where(*lead_, k), stop_);
      if (dealt.ok()) {
        absl::StatusOr<Placed> placed = FillWithin(k, *std::move(dealt));
        if (!absl::IsInvalidArgument(placed.status())) return placed;
      }
    }
    if (!first_.options().equal_sequence_counts) {
      absl::StatusOr<Placed> placed = PlaceEvenly(k);
      if (!absl::IsInvalidArgument(placed.status())) return placed;
    }

    const RankUnits units(first_, (*mini_batches_)[k]);
    absl::StatusOr<Placed> found = asked;
    RankSearch search = SearchTerms({&units, 1});
    const PackingWork work = WorkOfTries();
    search.accept = [&](size_t, const std::vector<uint32_t>& rank_of) {
      absl::StatusOr<Placed> placed =
          FillWithin(k, SharesOf(units.blocks, rank_of, first_.ranks()), work);
      if (absl::IsInvalidArgument(placed.status())) return false;
      found = std::move(placed);
      return true;
    };
    SearchRanks({&units, 1}, search);
    if (!found.ok() || work == PackingWork::kAsAsked) return found;
    absl::StatusOr<Placed> better = FillWithin(k, found->shares);
    return absl::IsInvalidArgument(better.status()) ? std::move(found) : std::move(better);
  }

  // So that a search for ranks, which tries many divisions, ends.
  PackingWork WorkOfTries() const {
    return sequences_ <= kMostForSearches ? PackingWork::kAsAsked : PackingWork::kGreedy;
  }

  RankSearch SearchTerms(std::span<const RankUnits> mini_batches) const {
    RankSearch search;
    search.ranks = first_.ranks();
    search.contiguous = IsContiguous();
    search.equal_counts = first_.options().equal_sequence_counts;
    if (first_.allow_empty()) return search;
    uint64_t least_items = 1;
    for (const PassInstance* pass : within_) {
      least_items = std::max(least_items, pass->counts().RoundUp(1));
    }
    // Items that a unit brings at most.
    uint64_t most_items = 1;
    if (!first_.groups_share_microbatch()) {
      for (const RankUnits& units : mini_batches) {
        for (uint32_t count : units.counts) most_items = std::max<uint64_t>(most_items, count);
      }
    }
    search.least_units = (least_items + most_items - 1) / most_items;
    return search;
  }

  // A reason, good for every way of assigning, why a pass can't be planned over these sequences.
  static absl::Status CheckPossible(const PassInstance& pass,
                                    std::span<const SequenceIndex> sequences,
                                    absl::string_view where) {
    if (pass.allow_empty()) return absl::OkStatus();
    const size_t items = pass.MicrobatchBlocks(sequences).size();
    const uint64_t fewest = FewestMicrobatchesPerRank(pass, sequences);
    if (fewest > items / pass.ranks()) return TooFewItems(pass, items, fewest, where);
    const size_t groups = pass.RankBlocks(sequences).size();
    if (groups < pass.ranks()) return TooFewGroups(pass, groups, where);
    return absl::OkStatus();
  }

  // The passes that ignore mini-batches, over the shares of all of them.
  absl::StatusOr<std::vector<Assignment>> FillOverAll(
      const std::vector<Placed>& placed, PackingWork work = PackingWork::kAsAsked) const {
    std::vector<Assignment> assignments;
    if (over_all_.empty()) return assignments;
    uint64_t microbatches = microbatches_;
    SequenceLists shares;
    for (uint32_t rank = 0; rank < first_.ranks(); ++rank) {
      for (const Placed& mini_batch : placed) shares.Push(mini_batch.shares[rank]);
      shares.Close();
    }
    for (const PassInstance* pass : over_all_) {
      absl::StatusOr<Assignment> filled =
          FillRanks(*pass, shares, Seed(0), pass->where(), work, stop_);
      if (!filled.ok()) return filled.status();
      microbatches += filled->microbatches.size();
      if (absl::Status status = CheckTotal(microbatches); !status.ok()) return status;
      assignments.push_back(*std::move(filled));
    }
    return assignments;
  }

  // Other shares for all mini-batches, because a pass over all of them can't use `placed`, for the
  // reason given.
  absl::StatusOr<std::vector<Assignment>> PlaceAllAnew(std::vector<Placed>& placed,
                                                       const absl::Status& reason) const {
    if (IsFixed()) return reason;
    for (const PassInstance* pass : over_all_) {
      absl::Status possible = CheckPossible(*pass, mini_batches_->all(), pass->where());
      if (!possible.ok()) return possible;
    }
    if (!first_.options().equal_sequence_counts) {
      std::vector<Placed> even;
      for (size_t k = 0; k < mini_batches_->size(); ++k) {
        absl::StatusOr<Placed> mini_batch = PlaceEvenly(k);
        if (absl::IsInvalidArgument(mini_batch.status())) break;
        if (!mini_batch.ok()) return mini_batch.status();
        even.push_back(*std::move(mini_batch));
      }
      if (even.size() == mini_batches_->size()) {
        absl::StatusOr<std::vector<Assignment>> over_all = FillOverAll(even);
        if (!absl::IsInvalidArgument(over_all.status())) {
          placed = std::move(even);
          return over_all;
        }
      }
    }

    std::vector<RankUnits> units;
    for (size_t k = 0; k < mini_batches_->size(); ++k)
      units.emplace_back(first_, (*mini_batches_)[k]);
    std::vector<Placed> tried(units.size());
    absl::StatusOr<std::vector<Assignment>> found = reason;
    RankSearch search = SearchTerms(units);
    search.accept = [&](size_t k, const std::vector<uint32_t>& rank_of) {
      absl::StatusOr<Placed> mini_batch =
          FillWithin(k, SharesOf(units[k].blocks, rank_of, first_.ranks()), WorkOfTries());
      if (absl::IsInvalidArgument(mini_batch.status())) return false;
      if (!mini_batch.ok()) {
        found = mini_batch.status();
        return true;
      }
      tried[k] = *std::move(mini_batch);
      if (k + 1 < units.size()) return true;
      absl::StatusOr<std::vector<Assignment>> over_all = FillOverAll(tried, WorkOfTries());
      if (absl::IsInvalidArgument(over_all.status())) return false;
      placed = tried;
      found = std::move(over_all);
      return true;
    };
    SearchRanks(units, search);
    return found;
  }

  // By pass, then by mini-batch.
  std::vector<std::vector<Assignment>> Collect(std::vector<Placed> placed,
                                               std::vector<Assignment> over_all) const {
    std::vector<std::vector<Assignment>> assignments(passes_.size());
    for (size_t i = 0; i < within_.size(); ++i) {
      std::vector<Assignment>& of_pass = assignments[within_[i] - passes_.data()];
      of_pass.reserve(placed.size());
      for (Placed& mini_batch : placed) of_pass.push_back(std::move(mini_batch.assignments[i]));
    }
    for (size_t i = 0; i < over_all_.size(); ++i) {
      assignments[over_all_[i] - passes_.data()].push_back(std::move(over_all[i]));
    }
    return assignments;
  }

  const std::span<const PassInstance> passes_;
  const PassInstance& first_;
  const uint64_t sequences_;
  const uint64_t seed_;
  const std::stop_token& stop_;
  // The mini-batches within which ranks are decided; the whole manifest if every pass ignores them.
  const SequenceLists* mini_batches_ = nullptr;
  SequenceLists whole_;
  bool has_mini_batches_ = false;
  // The pass that mini-batches are placed by: the first one within them, sharded as the very first
  // asks.
  const PassInstance* lead_ = &first_;
  PassOptions lead_options_;
  std::optional<PassInstance> stand_in_;
  // Of the reference presets, where the best placement is looked for.
  std::vector<PassOptions> methods_;
  std::vector<PassInstance> references_;
  std::vector<const PassInstance*> within_;
  std::vector<const PassInstance*> over_all_;
  // Made so far, within mini-batches.
  uint64_t microbatches_ = 0;
};

}  // namespace

absl::StatusOr<std::vector<std::vector<Assignment>>> AssignAll(std::span<const PassInstance> passes,
                                                               const Topology& topology,
                                                               const SequenceLists& mini_batches,
                                                               uint64_t seed,
                                                               const std::stop_token& stop) {
  return Assigner(passes, topology, mini_batches, seed, stop).Run();
}

}  // namespace batchplan
