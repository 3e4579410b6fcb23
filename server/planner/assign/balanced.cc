#include "server/planner/assign/balanced.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "server/planner/assign/fewest_microbatches.h"
#include "server/planner/assign/objective.h"
#include "server/planner/assign/place.h"
#include "server/planner/assign/shares.h"
#include "server/planner/assign/step_time.h"
#include "server/planner/balance/lockstep.h"
#include "server/planner/balance/step_time_bound.h"
#include "server/planner/cancellation.h"
#include "server/planner/order.h"
#include "server/planner/presets.h"

namespace batchplan {
namespace {

// One more slot is worth a part of the step time, and a gap to the bound of such a part is worth
// a look at one more.
constexpr uint64_t kWorthASlot = 1000;
// Larger mini-batches are left to the solver alone, except where the effort is thorough: the
// references take longer than it there.
constexpr size_t kMostForReferences = 65536;

struct Candidate {
  Dealt dealt;
  Cost step_time = 0;
};

// Slots that are looked at beyond the fewest, once one is found.
int MoreSlots(Effort effort) {
  switch (effort) {
    case Effort::kFast:
      return 0;
    case Effort::kThorough:
      return 4;
    default:
      return 1;
  }
}

Dealt DealtOf(const SequenceLists& blocks, const Items& items, const Bins& bins, uint32_t ranks) {
  Dealt dealt;
  const size_t slots = bins.size() / ranks;
  dealt.assignment.slots = static_cast<uint32_t>(slots);
  dealt.assignment.microbatches.Reserve(bins.size(), blocks.all().size());
  dealt.assignment.widths.reserve(bins.size());
  std::vector<uint32_t> rank_of(items.size());
  for (size_t m = 0; m < bins.size(); ++m) {
    uint32_t width = 0;
    for (uint32_t item : bins[m]) {
      dealt.assignment.microbatches.Push(blocks[item]);
      width += items.lengths[item];
      rank_of[item] = static_cast<uint32_t>(m / slots);
    }
    dealt.assignment.microbatches.Close();
    dealt.assignment.widths.push_back(width);
  }
  dealt.shares = SharesOf(blocks, rank_of, ranks);
  return dealt;
}

// The solver's own, where bins may go to any rank.
std::optional<Dealt> Solve(const PassInstance& pass, std::span<const SequenceIndex> mini_batch,
                           const CountRule& counts, const std::stop_token& stop) {
  const uint32_t ranks = pass.ranks();
  const SequenceLists blocks = pass.MicrobatchBlocks(mini_batch);
  const Items items = pass.ItemsOf(blocks);
  const Objective objective = ObjectiveOf(pass, items);
  const PackItems packing{
      .lengths = items.lengths, .counts = items.counts, .loads = objective.loads};
  const uint64_t available = items.size() / ranks;
  const uint64_t bound = LockstepBound(packing, pass.bin_limits(), ranks);

  std::optional<BalancedBins> best;
  uint64_t best_time = 0;
  uint64_t slots = counts.RoundUp(FewestMicrobatchesPerRank(pass, mini_batch));
  for (int more = MoreSlots(pass.effort()); slots <= available; slots = counts.RoundUp(slots + 1)) {
    if (stop.stop_requested()) return std::nullopt;
    std::optional<BalancedBins> found =
        BalanceLockstep({.items = packing,
                         .limits = pass.bin_limits(),
                         .ranks = ranks,
                         .slots = static_cast<uint32_t>(slots),
                         .rank_of = {},
                         .equal_counts = pass.options().equal_sequence_counts,
                         .enough = bound,
                         .effort = pass.effort()});
    if (!found) continue;
    const uint64_t time = found->step_time + slots * objective.per_microbatch;
    const bool first = !best;
    if (!first && time >= best_time - best_time / kWorthASlot) break;
    best = std::move(found);
    best_time = time;
    if (best->step_time <= bound + bound / kWorthASlot || more-- == 0) break;
  }
  if (!best) return std::nullopt;
  return DealtOf(blocks, items, best->bins, ranks);
}

// Whether any item may go to any rank, or to any that leaves equal counts.
bool SolvesFreely(const PassInstance& pass, size_t sequences) {
  if (pass.options().layout != Layout::kPacked) return false;
  if (!pass.options().equal_sequence_counts) return CanDeal(pass);
  return !pass.groups_share_rank() && sequences % pass.ranks() == 0;
}

bool SameMethod(const PassOptions& a, const PassOptions& b) {
  const auto method = [](const PassOptions& pass) {
    return std::tuple(pass.sharding, pass.packer, pass.scan, pass.balance_on,
                      pass.equal_sequence_counts);
  };
  return method(a) == method(b);
}

}  // namespace

std::vector<PassOptions> ReferenceMethods(const PassOptions& pass, const Topology& topology) {
  std::vector<PassOptions> methods;
  for (const absl::string_view name : PresetNames()) {
    const PassOptions preset = *PresetPass(name, topology);
    const bool deals = preset.sharding == Sharding::kDealBins;
    if (preset.sharding == Sharding::kBalanced || preset.layout != pass.layout ||
        (deals && pass.equal_sequence_counts)) {
      continue;
    }
    PassOptions method = pass;
    method.sharding = preset.sharding;
    method.packer = preset.packer;
    method.scan = preset.scan;
    method.balance_on = preset.balance_on;
    method.equal_sequence_counts = pass.equal_sequence_counts || preset.equal_sequence_counts;
    const auto same = [&](const PassOptions& other) { return SameMethod(method, other); };
    if (std::none_of(methods.begin(), methods.end(), same)) methods.push_back(std::move(method));
  }
  return methods;
}

absl::StatusOr<std::vector<Dealt>> PlaceBalanced(const PassInstance& pass,
                                                 std::span<const PassInstance> references,
                                                 std::span<const SequenceIndex> mini_batch,
                                                 const CountRule& counts, uint64_t seed,
                                                 absl::string_view where,
                                                 const std::stop_token& stop) {
  std::vector<Candidate> candidates;
  const auto add = [&](Dealt dealt) {
    OrderMicrobatches(pass, MicrobatchOrder::kLargestFirst, dealt.assignment);
    const Cost time = StepTime(pass, dealt.assignment);
    candidates.push_back({.dealt = std::move(dealt), .step_time = time});
  };

  if (SolvesFreely(pass, mini_batch.size())) {
    std::optional<Dealt> solved = Solve(pass, mini_batch, counts, stop);
    if (solved) add(*std::move(solved));
  }
  absl::Status refused;
  if (candidates.empty()) {
    absl::StatusOr<Dealt> divided = Place(pass, mini_batch, counts, seed, where, stop);
    if (divided.ok()) {
      add(*std::move(divided));
    } else {
      refused = divided.status();
    }
  }
  if (pass.effort() != Effort::kFast &&
      (pass.effort() == Effort::kThorough || mini_batch.size() <= kMostForReferences)) {
    for (const PassInstance& reference : references) {
      if (absl::Status status = CheckStop(stop); !status.ok()) return status;
      absl::StatusOr<Dealt> dealt = Place(reference, mini_batch, counts, seed, where, stop);
      if (dealt.ok()) add(*std::move(dealt));
    }
  }
  if (absl::Status status = CheckStop(stop); !status.ok()) return status;
  if (candidates.empty()) return refused;
  std::stable_sort(
      candidates.begin(), candidates.end(),
      [](const Candidate& a, const Candidate& b) { return a.step_time < b.step_time; });
  std::vector<Dealt> placements;
  for (Candidate& candidate : candidates) placements.push_back(std::move(candidate.dealt));
  return placements;
}

}  // namespace batchplan
