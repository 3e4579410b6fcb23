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
#include "server/planner/assign/step_time.h"
#include "server/planner/cancellation.h"
#include "server/planner/order.h"
#include "server/planner/seeds.h"

namespace batchplan {
namespace {

// The most empty micro-batches that one rank has in some pass, then all of them.
std::pair<size_t, size_t> EmptyMicrobatches(const MiniBatchPlacement& placed) {
  size_t most = 0;
  size_t all = 0;
  for (const Placement& placement : placed.passes) {
    for (size_t rank = 0; rank < placement.ranks(); ++rank) {
      const size_t begin = rank * placement.slots;
      size_t empty = 0;
      for (size_t slot = 0; slot < placement.slots; ++slot) {
        empty += placement.microbatches[begin + slot].empty();
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
           const SequenceLists& mini_batches, uint64_t seed, const Allowance& allowance,
           PlacementSink& sink)
      : passes_(passes),
        first_(passes.front()),
        sequences_(mini_batches.all().size()),
        seed_(seed),
        allowance_(allowance),
        sink_(sink) {
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
    FindTwins(within_, 1, twin_within_);
    FindTwins(over_all_, 0, twin_over_all_);
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

  absl::Status Run() {
    for (size_t k = 0; k < mini_batches_->size(); ++k) {
      // Each pass over each mini-batch may spend as much as the others.
      const Allowance::Part part(allowance_,
                                 (mini_batches_->size() - k) * within_.size() + over_all_.size(),
                                 within_.size());
      absl::StatusOr<MiniBatchPlacement> mini_batch = PlaceMiniBatch(k);
      if (!mini_batch.ok()) return mini_batch.status();
      if (absl::Status status = Add(k, *std::move(mini_batch)); !status.ok()) return status;
    }
    absl::StatusOr<std::vector<Placement>> over_all = FillOverAll();
    if (absl::IsInvalidArgument(over_all.status())) over_all = PlaceAllAnew(over_all.status());
    if (!over_all.ok()) return over_all.status();
    for (size_t i = 0; i < over_all_.size(); ++i) {
      sink_.Add(over_all_[i] - passes_.data(), 0, std::move((*over_all)[i]));
    }
    return absl::OkStatus();
  }

 private:
  std::string Where(const PassInstance& pass, size_t k) const {
    if (pass.options().ignore_mini_batches) return pass.where();
    return absl::StrCat(pass.where(), ": mini-batch ", k);
  }
  uint64_t Seed(size_t k) const { return MiniBatchSeed(seed_, k); }

  // For each of `passes` from `first` on the number of one before it, but not before `first`, that
  // is filled alike; its own where there is none.
  static void FindTwins(std::span<const PassInstance* const> passes, size_t first,
                        std::vector<size_t>& twins) {
    for (size_t i = 0; i < passes.size(); ++i) {
      size_t twin = std::min(i, first);
      while (twin < i && !FilledAlike(passes[i]->options(), passes[twin]->options())) ++twin;
      twins.push_back(twin);
    }
  }
  static bool FilledAlike(PassOptions a, PassOptions b) {
    a.name.clear();
    b.name.clear();
    return a == b;
  }

  // Hands a mini-batch's placements on and keeps what the passes over all of them need.
  absl::Status Add(size_t k, MiniBatchPlacement placed) {
    for (const Placement& placement : placed.passes) {
      microbatches_ += placement.microbatches.size();
    }
    if (absl::Status status = CheckTotal(microbatches_); !status.ok()) return status;
    for (size_t i = 0; i < within_.size(); ++i) {
      if (absl::Status status = CheckStop(allowance_); !status.ok()) return status;
      sink_.Add(within_[i] - passes_.data(), k, std::move(placed.passes[i]));
    }
    if (over_all_.empty()) return absl::OkStatus();
    for (uint32_t rank = 0; rank < first_.ranks(); ++rank) {
      shares_.Push(placed.shares[rank]);
      shares_.Close();
    }
    return absl::OkStatus();
  }

  // Forgets the mini-batches that were handed on.
  void Clear() {
    sink_.Clear();
    shares_ = SequenceLists();
    microbatches_ = 0;
  }

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

  // The passes that have no placement yet inside the shares.
  absl::StatusOr<MiniBatchPlacement> Fill(size_t k, MiniBatchPlacement placed,
                                          PackingWork work = PackingWork::kAsAsked) const {
    while (placed.passes.size() < within_.size()) {
      const size_t i = placed.passes.size();
      if (twin_within_[i] < i) {
        placed.passes.push_back(placed.passes[twin_within_[i]]);
        continue;
      }
      const PassInstance& pass = *within_[i];
      const Allowance::Part part(allowance_, within_.size() - i);
      absl::StatusOr<Placement> filled =
          FillRanks(pass, placed.shares, Seed(k), Where(pass, k), work, allowance_);
      if (!filled.ok()) return filled.status();
      placed.passes.push_back(*std::move(filled));
    }
    return placed;
  }

  // As the first pass's sharding has it.
  absl::StatusOr<MiniBatchPlacement> PlaceAsAsked(size_t k) const {
    const std::string where = Where(*lead_, k);
    if (IsBalanced()) return PlaceBest(k, where);
    absl::StatusOr<MiniBatchPlacement> dealt = [&] {
      const Allowance::Part part(allowance_, within_.size());
      return Place(*lead_, (*mini_batches_)[k], Seed(k), where, allowance_);
    }();
    if (!dealt.ok()) return dealt.status();
    return Fill(k, *std::move(dealt));
  }

  // The best of the balanced placements that the other passes can use; of those that leave a rank
  // with no more empty micro-batches than the even placement, if there are any. The even one where
  // others were left out for it and it is the shortest that stays.
  absl::StatusOr<MiniBatchPlacement> PlaceBest(size_t k, absl::string_view where) const {
    // Others are of use where another pass or its empty micro-batches can decide.
    const bool only_best = within_.size() == 1 && !KeepsEmptyEven();
    absl::StatusOr<std::vector<MiniBatchPlacement>> placements = [&] {
      const Allowance::Part part(allowance_, within_.size());
      return PlaceBalanced(*lead_, references_, (*mini_batches_)[k], Seed(k),
                           only_best ? 1 : references_.size() + 1, where, allowance_);
    }();
    if (!placements.ok()) return placements.status();
    absl::StatusOr<MiniBatchPlacement> best;
    std::optional<absl::StatusOr<MiniBatchPlacement>> even;
    for (MiniBatchPlacement& dealt : *placements) {
      OrderMicrobatches(*lead_, MicrobatchOrder::kLargestFirst, dealt.lead());
      absl::StatusOr<MiniBatchPlacement> placed = Fill(k, std::move(dealt));
      if (absl::IsInvalidArgument(placed.status())) {
        if (!best.ok()) best = std::move(placed);
        continue;
      }
      if (!placed.ok() || !KeepsEmptyEven()) return placed;
      const std::pair<size_t, size_t> empty = EmptyMicrobatches(*placed);
      if (empty.second > 0 && !even) even = PlaceEvenly(k);
      if (even && even->ok()) {
        const std::pair<size_t, size_t> even_empty = EmptyMicrobatches(**even);
        if (even_empty < empty) {
          if (!best.ok()) best = std::move(placed);
          continue;
        }
        Placement& evenly = (*even)->lead();
        const Placement& asked = placed->lead();
        if (even_empty == empty && StepTime(*lead_, evenly) < StepTime(*lead_, asked)) {
          evenly.proven = asked.proven;
          return *std::move(even);
        }
      }
      return placed;
    }
    return best;
  }

  // Whether empty micro-batches are as few on each rank as an even placement has them.
  bool KeepsEmptyEven() const {
    return first_.allow_empty() && !first_.options().equal_sequence_counts;
  }

  absl::StatusOr<MiniBatchPlacement> PlaceEvenly(size_t k) const {
    const Units units = first_.UnitsOf((*mini_batches_)[k]);
    return Fill(k, {.shares = SharesOf(units.sequences, ShardEvenly(first_, units), first_.ranks()),
                    .passes = {}});
  }

  // The even placement where a rank of `asked` has more empty micro-batches than it would have
  // then.
  absl::StatusOr<MiniBatchPlacement> EvenIfFewerEmpty(size_t k, MiniBatchPlacement asked) const {
    const std::pair<size_t, size_t> empty = EmptyMicrobatches(asked);
    if (empty.second == 0 || first_.options().equal_sequence_counts) return asked;
    absl::StatusOr<MiniBatchPlacement> even = PlaceEvenly(k);
    if (absl::IsInvalidArgument(even.status())) return asked;
    if (even.ok() && EmptyMicrobatches(*even) >= empty) return asked;
    if (even.ok()) even->lead().proven = asked.lead().proven;
    return even;
  }

  absl::StatusOr<MiniBatchPlacement> PlaceMiniBatch(size_t k) const {
    absl::StatusOr<MiniBatchPlacement> asked = PlaceAsAsked(k);
    if (IsFixed()) return asked;
    if (asked.ok() && first_.allow_empty()) return EvenIfFewerEmpty(k, *std::move(asked));
    if (!absl::IsInvalidArgument(asked.status())) return asked;
    for (const PassInstance* pass : within_) {
      absl::Status possible = CheckPossible(*pass, (*mini_batches_)[k], Where(*pass, k));
      if (!possible.ok()) return possible;
    }

    if (CanDeal(*lead_) && !Deals(*lead_) && !IsContiguous()) {
      absl::StatusOr<MiniBatchPlacement> dealt =
          PackAndDeal(*lead_, (*mini_batches_)[k], Seed(k), Where(*lead_, k), allowance_);
      if (dealt.ok()) {
        absl::StatusOr<MiniBatchPlacement> placed = Fill(k, *std::move(dealt));
        if (!absl::IsInvalidArgument(placed.status())) return placed;
      }
    }
    if (!first_.options().equal_sequence_counts) {
      absl::StatusOr<MiniBatchPlacement> placed = PlaceEvenly(k);
      if (!absl::IsInvalidArgument(placed.status())) return placed;
    }

    const Units units = first_.UnitsOf((*mini_batches_)[k]);
    absl::StatusOr<MiniBatchPlacement> found = asked;
    RankSearch search = SearchTerms({&units, 1});
    const PackingWork work = WorkOfTries();
    search.accept = [&](size_t, const std::vector<uint32_t>& rank_of) {
      absl::StatusOr<MiniBatchPlacement> placed = Fill(
          k, {.shares = SharesOf(units.sequences, rank_of, first_.ranks()), .passes = {}}, work);
      if (absl::IsInvalidArgument(placed.status())) return false;
      found = std::move(placed);
      return true;
    };
    SearchRanks({&units, 1}, search);
    if (!found.ok() || work == PackingWork::kAsAsked) return found;
    absl::StatusOr<MiniBatchPlacement> better = Fill(k, {.shares = found->shares, .passes = {}});
    return absl::IsInvalidArgument(better.status()) ? std::move(found) : std::move(better);
  }

  // So that a search for ranks, which tries many divisions, ends.
  PackingWork WorkOfTries() const {
    return sequences_ <= kMostForSearches ? PackingWork::kAsAsked : PackingWork::kGreedy;
  }

  RankSearch SearchTerms(std::span<const Units> mini_batches) const {
    RankSearch search;
    search.allowance = allowance_;
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
    if (!first_.groups_keep_microbatch()) {
      for (const Units& units : mini_batches) {
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
    const size_t items = pass.ItemsOf(sequences).size();
    const uint64_t fewest = FewestMicrobatchesPerRank(pass, sequences);
    if (fewest > items / pass.ranks()) return TooFewItems(pass, items, fewest, where);
    const size_t groups = pass.UnitLists(sequences).size();
    if (groups < pass.ranks()) return TooFewGroups(pass, groups, where);
    return absl::OkStatus();
  }

  // The passes that ignore mini-batches, over the shares of all of them.
  absl::StatusOr<std::vector<Placement>> FillOverAll(
      PackingWork work = PackingWork::kAsAsked) const {
    std::vector<Placement> placements;
    if (over_all_.empty()) return placements;
    uint64_t microbatches = microbatches_;
    SequenceLists shares;
    shares.Reserve(first_.ranks(), shares_.all().size());
    for (uint32_t rank = 0; rank < first_.ranks(); ++rank) {
      for (size_t list = rank; list < shares_.size(); list += first_.ranks()) {
        shares.Push(shares_[list]);
      }
      shares.Close();
    }
    for (size_t i = 0; i < over_all_.size(); ++i) {
      const PassInstance& pass = *over_all_[i];
      if (twin_over_all_[i] < i) {
        placements.push_back(placements[twin_over_all_[i]]);
      } else {
        const Allowance::Part part(allowance_, over_all_.size() - i);
        absl::StatusOr<Placement> filled =
            FillRanks(pass, shares, Seed(0), pass.where(), work, allowance_);
        if (!filled.ok()) return filled.status();
        placements.push_back(*std::move(filled));
      }
      microbatches += placements.back().microbatches.size();
      if (absl::Status status = CheckTotal(microbatches); !status.ok()) return status;
    }
    return placements;
  }

  // Other shares for all mini-batches, because a pass over all of them can't use those they have,
  // for the reason given.
  absl::StatusOr<std::vector<Placement>> PlaceAllAnew(const absl::Status& reason) {
    if (IsFixed()) return reason;
    for (const PassInstance* pass : over_all_) {
      absl::Status possible = CheckPossible(*pass, mini_batches_->all(), pass->where());
      if (!possible.ok()) return possible;
    }
    if (!first_.options().equal_sequence_counts) {
      absl::StatusOr<std::vector<Placement>> over_all = PlaceAllEvenly();
      if (!absl::IsInvalidArgument(over_all.status())) return over_all;
    }

    std::vector<Units> units;
    uint64_t all_units = 0;
    for (size_t k = 0; k < mini_batches_->size(); ++k) {
      all_units += units.emplace_back(first_.UnitsOf((*mini_batches_)[k])).size();
      if (all_units > kMaxSearchedUnits) return reason;
    }
    std::vector<MiniBatchPlacement> tried(units.size());
    absl::StatusOr<std::vector<Placement>> found = reason;
    RankSearch search = SearchTerms(units);
    search.accept = [&](size_t k, const std::vector<uint32_t>& rank_of) {
      absl::StatusOr<MiniBatchPlacement> mini_batch =
          Fill(k, {.shares = SharesOf(units[k].sequences, rank_of, first_.ranks()), .passes = {}},
               WorkOfTries());
      if (absl::IsInvalidArgument(mini_batch.status())) return false;
      if (!mini_batch.ok()) {
        found = mini_batch.status();
        return true;
      }
      tried[k] = *std::move(mini_batch);
      if (k + 1 < units.size()) return true;
      Clear();
      for (size_t i = 0; i < tried.size(); ++i) {
        if (absl::Status status = Add(i, tried[i]); !status.ok()) {
          if (absl::IsInvalidArgument(status)) return false;
          found = std::move(status);
          return true;
        }
      }
      absl::StatusOr<std::vector<Placement>> over_all = FillOverAll(WorkOfTries());
      if (absl::IsInvalidArgument(over_all.status())) return false;
      found = std::move(over_all);
      return true;
    };
    SearchRanks(units, search);
    return found;
  }

  absl::StatusOr<std::vector<Placement>> PlaceAllEvenly() {
    Clear();
    for (size_t k = 0; k < mini_batches_->size(); ++k) {
      absl::StatusOr<MiniBatchPlacement> mini_batch = PlaceEvenly(k);
      if (!mini_batch.ok()) return mini_batch.status();
      if (absl::Status status = Add(k, *std::move(mini_batch)); !status.ok()) return status;
    }
    return FillOverAll();
  }

  const std::span<const PassInstance> passes_;
  const PassInstance& first_;
  const uint64_t sequences_;
  const uint64_t seed_;
  const Allowance& allowance_;
  PlacementSink& sink_;
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
  std::vector<size_t> twin_within_;
  std::vector<size_t> twin_over_all_;
  // Made so far, within mini-batches.
  uint64_t microbatches_ = 0;
  // Where passes go over all mini-batches, the share of rank r of mini-batch k as list k * ranks +
  // r.
  SequenceLists shares_;
};

}  // namespace

absl::Status AssignAll(std::span<const PassInstance> passes, const Topology& topology,
                       const SequenceLists& mini_batches, uint64_t seed, const Allowance& allowance,
                       PlacementSink& sink) {
  return Assigner(passes, topology, mini_batches, seed, allowance, sink).Run();
}

}  // namespace batchplan
