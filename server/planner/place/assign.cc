#include "server/planner/place/assign.h"

#include <utility>

#include "server/planner/place/fill_shares.h"
#include "server/planner/place/mini_batch_placer.h"
#include "server/planner/ranks/search_ranks.h"
#include "server/planner/request/cancellation.h"
#include "server/planner/request/seeds.h"

namespace batchplan {
namespace {

class Assigner {
 public:
  Assigner(const BatchPasses& passes, uint64_t seed, const Allowance& allowance,
           PlacementSink& sink, std::span<LockstepFindings> findings)
      : passes_(passes),
        first_(passes.all().front()),
        seed_(seed),
        allowance_(allowance),
        sink_(sink),
        twins_over_all_(TwinsOf(passes.over_all(), 0)),
        placer_({passes.within().begin(), passes.within().end()}, first_, seed,
                passes.sequences().size(), allowance, findings) {}

  absl::Status Run() {
    if (absl::Status status = passes_.CheckFewest(); !status.ok()) return status;
    const size_t within = passes_.within().size();
    for (size_t k = 0; k < passes_.mini_batches(); ++k) {
      // Each pass over each mini-batch may spend as much as the others.
      const Allowance::Part part(
          allowance_, (passes_.mini_batches() - k) * within + passes_.over_all().size(), within);
      absl::StatusOr<MiniBatchPlacement> mini_batch = placer_.Place(k, passes_.MiniBatch(k));
      if (!mini_batch.ok()) return mini_batch.status();
      if (absl::Status status = Add(k, *std::move(mini_batch)); !status.ok()) return status;
    }
    absl::StatusOr<std::vector<Placement>> over_all = FillOverAll();
    if (absl::IsInvalidArgument(over_all.status())) over_all = PlaceAllAnew(over_all.status());
    if (!over_all.ok()) return over_all.status();
    for (size_t i = 0; i < over_all->size(); ++i) {
      sink_.Add(passes_.NumberOf(*passes_.over_all()[i]), 0, std::move((*over_all)[i]));
    }
    return absl::OkStatus();
  }

 private:
  // Hands a mini-batch's placements to the sink and keeps the shares that passes over all
  // mini-batches need.
  absl::Status Add(size_t k, MiniBatchPlacement placed) {
    for (const Placement& placement : placed.passes) total_.Add(placement);
    if (absl::Status status = passes_.CheckTotal(total_); !status.ok()) return status;
    for (size_t i = 0; i < placed.passes.size(); ++i) {
      if (absl::Status status = CheckStop(allowance_); !status.ok()) return status;
      sink_.Add(passes_.NumberOf(*passes_.within()[i]), k, std::move(placed.passes[i]));
    }
    if (passes_.over_all().empty()) return absl::OkStatus();
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
    total_ = {};
  }

  // Fills the passes that ignore mini-batches, with the shares of all mini-batches.
  absl::StatusOr<std::vector<Placement>> FillOverAll(
      PackingWork work = PackingWork::kAsAsked) const {
    std::vector<Placement> placements;
    const std::span<const Pass* const> passes = passes_.over_all();
    if (passes.empty()) return placements;
    PlacedTotal total = total_;
    SequenceLists shares;
    shares.Reserve(first_.ranks(), shares_.all().size());
    for (uint32_t rank = 0; rank < first_.ranks(); ++rank) {
      for (size_t list = rank; list < shares_.size(); list += first_.ranks()) {
        shares.Push(shares_[list]);
      }
      shares.Close();
    }
    for (size_t i = 0; i < passes.size(); ++i) {
      const Pass& pass = *passes[i];
      if (twins_over_all_[i] < i) {
        placements.push_back(placements[twins_over_all_[i]]);
      } else {
        const Allowance::Part part(allowance_, passes.size() - i);
        absl::StatusOr<Placement> filled = FillShares(pass, shares,
                                                      {.seed = MiniBatchSeed(seed_, 0),
                                                       .where = pass.where(),
                                                       .allowance = allowance_,
                                                       .work = work});
        if (!filled.ok()) return filled.status();
        placements.push_back(*std::move(filled));
      }
      total.Add(placements.back());
      if (absl::Status status = passes_.CheckTotal(total); !status.ok()) return status;
    }
    return placements;
  }

  // Finds other shares for all mini-batches, since a pass over all of them refused the present ones
  // for `reason`. InvalidArgument, `reason` or why a pass is impossible, if none are found;
  // Cancelled if a stop is requested.
  absl::StatusOr<std::vector<Placement>> PlaceAllAnew(const absl::Status& reason) {
    // Here the request names the rank of each sequence.
    if (!first_.given_ranks().empty() || first_.options().sharding == Sharding::kStrideSorted) {
      return reason;
    }
    for (const Pass* pass : passes_.over_all()) {
      absl::Status possible = CheckPossible(*pass, passes_.sequences(), pass->where());
      if (!possible.ok()) return possible;
    }
    if (!first_.options().keeps_counts()) {
      absl::StatusOr<std::vector<Placement>> over_all = PlaceAllEvenly();
      if (!absl::IsInvalidArgument(over_all.status())) return over_all;
    }

    std::vector<Units> units;
    uint64_t all_units = 0;
    for (size_t k = 0; k < passes_.mini_batches(); ++k) {
      all_units += units.emplace_back(first_.UnitsOf(passes_.MiniBatch(k))).size();
      if (all_units > kMaxSearchedUnits) return reason;
    }
    std::vector<MiniBatchPlacement> tried(units.size());
    absl::StatusOr<std::vector<Placement>> found = reason;
    RankSearch search = placer_.SearchTerms(units);
    search.accept = [&](size_t k, const std::vector<uint32_t>& rank_of) {
      absl::StatusOr<MiniBatchPlacement> mini_batch =
          placer_.PlaceAt(k, units[k], rank_of, placer_.WorkOfTries());
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
      absl::StatusOr<std::vector<Placement>> over_all = FillOverAll(placer_.WorkOfTries());
      if (absl::IsInvalidArgument(over_all.status())) return false;
      found = std::move(over_all);
      return true;
    };
    SearchRanks(units, search);
    return found;
  }

  absl::StatusOr<std::vector<Placement>> PlaceAllEvenly() {
    Clear();
    for (size_t k = 0; k < passes_.mini_batches(); ++k) {
      absl::StatusOr<MiniBatchPlacement> mini_batch = placer_.PlaceEvenly(k, passes_.MiniBatch(k));
      if (!mini_batch.ok()) return mini_batch.status();
      if (absl::Status status = Add(k, *std::move(mini_batch)); !status.ok()) return status;
    }
    return FillOverAll();
  }

  const BatchPasses& passes_;
  const Pass& first_;
  const uint64_t seed_;
  const Allowance& allowance_;
  PlacementSink& sink_;
  const std::vector<size_t> twins_over_all_;
  const MiniBatchPlacer placer_;
  // The total of what was handed on, all of it within mini-batches.
  PlacedTotal total_;
  // If there are passes over all mini-batches: list k * ranks + r is the share of rank r in
  // mini-batch k.
  SequenceLists shares_;
};

}  // namespace

absl::Status AssignAll(const BatchPasses& passes, uint64_t seed, const Allowance& allowance,
                       PlacementSink& sink, std::span<LockstepFindings> findings) {
  return Assigner(passes, seed, allowance, sink, findings).Run();
}

}  // namespace batchplan
