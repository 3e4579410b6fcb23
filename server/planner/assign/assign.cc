#include "server/planner/assign/assign.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/planner/assign/fill_shares.h"
#include "server/planner/assign/mini_batch_placer.h"
#include "server/planner/assign/search_ranks.h"
#include "server/planner/cancellation.h"
#include "server/planner/mini_batches.h"

namespace batchplan {
namespace {

bool IgnoresMiniBatches(const Pass& pass) { return pass.options().ignore_mini_batches; }

// The passes that keep to mini-batches: all of them if none does, over the whole manifest as one.
std::vector<const Pass*> PassesWithin(std::span<const Pass> passes) {
  const bool all = std::all_of(passes.begin(), passes.end(), IgnoresMiniBatches);
  std::vector<const Pass*> within;
  for (const Pass& pass : passes) {
    if (all || !IgnoresMiniBatches(pass)) within.push_back(&pass);
  }
  return within;
}

// The others.
std::vector<const Pass*> PassesOverAll(std::span<const Pass> passes) {
  std::vector<const Pass*> over_all;
  for (const Pass& pass : passes) {
    if (IgnoresMiniBatches(pass)) over_all.push_back(&pass);
  }
  if (over_all.size() == passes.size()) over_all.clear();
  return over_all;
}

class Assigner {
 public:
  Assigner(std::span<const Pass> passes, const Topology& topology,
           const SequenceLists& mini_batches, uint64_t seed, const Allowance& allowance,
           PlacementSink& sink)
      : passes_(passes),
        first_(passes.front()),
        topology_(topology),
        sequences_(mini_batches.all()),
        seed_(seed),
        allowance_(allowance),
        sink_(sink),
        over_all_(PassesOverAll(passes)),
        twins_over_all_(TwinsOf(over_all_, 0)),
        placer_(PassesWithin(passes), first_, topology, seed, sequences_.size(), allowance),
        mini_batches_(mini_batches),
        whole_(IgnoresMiniBatches(*placer_.passes().front())),
        count_(whole_ ? 1 : mini_batches.size()) {}

  absl::Status Run() {
    if (first_.allow_empty()) {
      if (absl::Status status = CheckTotal(FewestMicrobatches()); !status.ok()) return status;
    }
    const size_t within = placer_.passes().size();
    for (size_t k = 0; k < count_; ++k) {
      // Each pass over each mini-batch may spend as much as the others.
      const Allowance::Part part(allowance_, (count_ - k) * within + over_all_.size(), within);
      absl::StatusOr<MiniBatchPlacement> mini_batch = placer_.Place(k, MiniBatch(k));
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
  // Number k of the count_ within which ranks are decided.
  std::span<const SequenceIndex> MiniBatch(size_t k) const {
    return whole_ ? sequences_ : mini_batches_[k];
  }

  // Hands a mini-batch's placements on and keeps what the passes over all of them need.
  absl::Status Add(size_t k, MiniBatchPlacement placed) {
    for (const Placement& placement : placed.passes) {
      microbatches_ += placement.microbatches.size();
    }
    if (absl::Status status = CheckTotal(microbatches_); !status.ok()) return status;
    for (size_t i = 0; i < placed.passes.size(); ++i) {
      if (absl::Status status = CheckStop(allowance_); !status.ok()) return status;
      sink_.Add(placer_.passes()[i] - passes_.data(), k, std::move(placed.passes[i]));
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

  // What the count rules of the passes ask for, whatever the sequences.
  uint64_t FewestMicrobatches() const {
    uint64_t fewest = 0;
    for (const Pass& pass : passes_) {
      fewest += pass.counts().RoundUp(1) * pass.ranks() * pass.mini_batches();
    }
    return fewest;
  }

  // That the micro-batches of all passes and mini-batches keep to the limits of what is simulated,
  // and of empty ones.
  absl::Status CheckTotal(uint64_t microbatches) const {
    if (first_.pipeline() != nullptr) {
      absl::Status status = CheckTotalPipelineWorks(topology_, microbatches, passes_.size());
      if (!status.ok()) return status;
    }
    if (microbatches <= passes_.size() * sequences_.size() + kMaxEmptyMicrobatches) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "the plan needs more than ", kMaxEmptyMicrobatches,
        " micro-batches beyond one a sequence, the limit where allow_empty_microbatches is set "
        "(data_parallel ",
        first_.ranks(), ", ", count_, " mini-batches, ", passes_.size(), " passes)"));
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
      const Pass& pass = *over_all_[i];
      if (twins_over_all_[i] < i) {
        placements.push_back(placements[twins_over_all_[i]]);
      } else {
        const Allowance::Part part(allowance_, over_all_.size() - i);
        absl::StatusOr<Placement> filled =
            FillShares(pass, shares, MiniBatchSeed(seed_, 0), pass.where(), work, allowance_);
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
    // Here the request names the rank of each sequence.
    if (!first_.given_ranks().empty() || first_.options().sharding == Sharding::kStrideSorted) {
      return reason;
    }
    for (const Pass* pass : over_all_) {
      absl::Status possible = CheckPossible(*pass, sequences_, pass->where());
      if (!possible.ok()) return possible;
    }
    if (!first_.options().equal_sequence_counts) {
      absl::StatusOr<std::vector<Placement>> over_all = PlaceAllEvenly();
      if (!absl::IsInvalidArgument(over_all.status())) return over_all;
    }

    std::vector<Units> units;
    uint64_t all_units = 0;
    for (size_t k = 0; k < count_; ++k) {
      all_units += units.emplace_back(first_.UnitsOf(MiniBatch(k))).size();
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
    for (size_t k = 0; k < count_; ++k) {
      absl::StatusOr<MiniBatchPlacement> mini_batch = placer_.PlaceEvenly(k, MiniBatch(k));
      if (!mini_batch.ok()) return mini_batch.status();
      if (absl::Status status = Add(k, *std::move(mini_batch)); !status.ok()) return status;
    }
    return FillOverAll();
  }

  const std::span<const Pass> passes_;
  const Pass& first_;
  const Topology& topology_;
  const std::span<const SequenceIndex> sequences_;
  const uint64_t seed_;
  const Allowance& allowance_;
  PlacementSink& sink_;
  // The passes that ignore mini-batches where others keep to them.
  const std::vector<const Pass*> over_all_;
  const std::vector<size_t> twins_over_all_;
  const MiniBatchPlacer placer_;
  const SequenceLists& mini_batches_;
  // Whether ranks are decided for the whole manifest at once, since every pass ignores
  // mini-batches.
  const bool whole_;
  const size_t count_;
  // Made so far, within mini-batches.
  uint64_t microbatches_ = 0;
  // Where passes go over all mini-batches, the share of rank r of mini-batch k as list k * ranks +
  // r.
  SequenceLists shares_;
};

}  // namespace

absl::Status AssignAll(std::span<const Pass> passes, const Topology& topology,
                       const SequenceLists& mini_batches, uint64_t seed, const Allowance& allowance,
                       PlacementSink& sink) {
  return Assigner(passes, topology, mini_batches, seed, allowance, sink).Run();
}

}  // namespace batchplan
