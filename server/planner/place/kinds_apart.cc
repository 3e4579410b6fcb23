#include "server/planner/place/kinds_apart.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "server/planner/pass/order.h"
#include "server/planner/request/cost.h"

namespace batchplan {
namespace {

// The kind of a sequence for the pass: if other kinds may run together, they are all one.
uint32_t SeenKind(const Pass& pass, SequenceIndex sequence) {
  const uint32_t kind = pass.kinds()[sequence.value()];
  return pass.options().kinds_per_slot == KindsPerSlot::kTogether ? std::min(kind, 1u) : kind;
}

// The cost of each rank's micro-batches.
std::vector<Cost> RankCosts(const Pass& pass, const Placement& placement) {
  const std::vector<Cost> costs = RowCosts(pass, placement, MicrobatchCosts(pass, placement));
  std::vector<Cost> of_ranks(placement.ranks(), 0);
  for (size_t m = 0; m < costs.size(); ++m) of_ranks[m / placement.slots] += costs[m];
  return of_ranks;
}

std::string NameOf(const Pass& pass, const KindClass& own) {
  return pass.options().kinds_per_slot == KindsPerSlot::kTogether && own.kind != 0
             ? "kinds other than 0"
             : absl::StrCat("kind ", own.kind);
}

// For kTogether: moves the shortest sequences of kind 0 to the other class, as many as complete its
// multiple.
void FillWithText(const Pass& pass, std::map<uint32_t, KindClass, std::greater<>>& classes) {
  const auto text = classes.find(0);
  if (pass.options().kinds_per_slot != KindsPerSlot::kTogether || classes.size() != 2 ||
      text == classes.end() || pass.groups_keep_microbatch()) {
    return;
  }
  std::vector<SequenceIndex>& others = classes.begin()->second.sequences;
  std::vector<SequenceIndex>& riders = text->second.sequences;
  const size_t rest = others.size() % pass.rank_multiple();
  const size_t missing = rest == 0 ? 0 : pass.rank_multiple() - rest;
  if (missing > riders.size()) return;
  std::vector<SequenceIndex> shortest = riders;
  std::ranges::stable_sort(
      shortest, {}, [&](SequenceIndex sequence) { return pass.aligned()[sequence.value()]; });
  shortest.resize(missing);
  std::ranges::sort(shortest);
  others.insert(others.end(), shortest.begin(), shortest.end());
  std::ranges::sort(others);
  std::erase_if(riders, [&](SequenceIndex sequence) {
    return std::ranges::binary_search(shortest, sequence);
  });
  if (riders.empty()) classes.erase(text);
}

std::vector<uint32_t> InOrder(size_t ranks) {
  std::vector<uint32_t> order(ranks);
  std::iota(order.begin(), order.end(), 0u);
  return order;
}

}  // namespace

namespace {

std::vector<KindClass> ClassesBy(const Pass& pass, std::span<const SequenceIndex> sequences,
                                 absl::FunctionRef<uint32_t(SequenceIndex)> kind_of) {
  // A group that stays in one micro-batch counts as the greatest of its kinds.
  std::map<uint32_t, uint32_t> of_groups;
  for (const SequenceIndex sequence : sequences) {
    if (!pass.groups_keep_microbatch()) break;
    uint32_t& kind = of_groups[pass.groups()[sequence]];
    kind = std::max(kind, kind_of(sequence));
  }
  // Kind 0 comes last.
  std::map<uint32_t, KindClass, std::greater<>> classes;
  for (const SequenceIndex sequence : sequences) {
    const uint32_t kind =
        of_groups.empty() ? kind_of(sequence) : of_groups.at(pass.groups()[sequence]);
    KindClass& own = classes[kind];
    own.kind = kind;
    own.sequences.push_back(sequence);
  }
  FillWithText(pass, classes);
  std::vector<KindClass> all;
  all.reserve(classes.size());
  for (auto& [kind, own] : classes) all.push_back(std::move(own));
  return all;
}

}  // namespace

std::vector<KindClass> ClassesOf(const Pass& pass, std::span<const SequenceIndex> sequences) {
  return ClassesBy(pass, sequences,
                   [&](SequenceIndex sequence) { return SeenKind(pass, sequence); });
}

std::vector<KindClass> ClassesByPhases(const Pass& pass, std::span<const SequenceIndex> sequences) {
  return ClassesBy(pass, sequences, [&](SequenceIndex sequence) {
    return std::ranges::any_of(pass.loads().phases(), [&](const LoadPhase& phase) {
      return pass.loads().given().Of(phase.load, sequence) > 0;
    });
  });
}

bool KeepsKinds(const Pass& pass, const SequenceLists& microbatches, size_t slots) {
  if (!pass.keeps_kinds()) return true;
  const bool together = pass.options().kinds_per_slot == KindsPerSlot::kTogether;
  for (size_t slot = 0; slot < slots; ++slot) {
    uint32_t greatest = 0;
    for (size_t m = slot; m < microbatches.size(); m += slots) {
      for (const SequenceIndex sequence : microbatches[m]) {
        greatest = std::max(greatest, SeenKind(pass, sequence));
      }
    }
    if (greatest == 0) continue;
    for (size_t m = slot; m < microbatches.size(); m += slots) {
      const auto is_of_it = [&](SequenceIndex sequence) {
        return SeenKind(pass, sequence) == greatest;
      };
      const std::span<const SequenceIndex> own = microbatches[m];
      const bool fits = together ? std::ranges::any_of(own, is_of_it)
                                 : !own.empty() && std::ranges::all_of(own, is_of_it);
      if (!fits) return false;
    }
  }
  return true;
}

absl::Status CheckClasses(const Pass& pass, std::span<const KindClass> classes,
                          absl::string_view where) {
  for (const KindClass& own : classes) {
    if (own.sequences.size() % pass.rank_multiple() != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, " has ", own.sequences.size(), " sequences of ", NameOf(pass, own),
                       ", which kinds_per_slot keeps apart and sequence_count_multiple ",
                       pass.rank_multiple(), " does not divide"));
    }
    if (own.sequences.size() >= size_t{pass.ranks()} * pass.rank_multiple() ||
        (own.kind == 0 && pass.allow_empty()))
      continue;
    return absl::InvalidArgumentError(absl::StrCat(
        where, " has ", own.sequences.size(), " sequences of ", NameOf(pass, own),
        ", but kinds_per_slot asks for ", pass.rank_multiple(), " on each rank of data_parallel ",
        pass.ranks(),
        " in every slot that has any; give more, such as a dummy for each rank that has none"));
  }
  return absl::OkStatus();
}

absl::Status NoKindOnRank(const Pass& pass, size_t rank, const KindClass& missing,
                          absl::string_view where) {
  return absl::InvalidArgumentError(
      absl::StrCat(where, ": rank ", rank, " of data_parallel ", pass.ranks(),
                   " has no sequence of ", NameOf(pass, missing),
                   ", of which others have some, and kinds_per_slot asks for one on each "
                   "rank of a slot that has any"));
}

absl::Status WrongSlotsOfKinds(const Pass& pass, uint64_t slots, absl::string_view where) {
  return absl::InvalidArgumentError(
      absl::StrCat(where, ": the kinds that kinds_per_slot keeps apart take ", slots,
                   " micro-batches on each rank, but min_microbatches ",
                   pass.options().min_microbatches, " and multiples ask for ",
                   pass.counts().RoundUp(slots), ", for which there are too few sequences"));
}

Placement Joined(const Pass& pass, std::span<const Placement> placements, bool keeps_ranks) {
  const size_t ranks = pass.ranks();
  const bool exchanges = !keeps_ranks && pass.synchronization() == Synchronization::kAccumulated;
  // Rank r gets rank rank_at[c][r] of placement c.
  std::vector<std::vector<uint32_t>> rank_at;
  std::vector<Cost> sums(ranks, 0);
  for (const Placement& part : placements) {
    std::vector<uint32_t>& own = rank_at.emplace_back(InOrder(ranks));
    if (!exchanges) continue;
    const std::vector<Cost> costs = RankCosts(pass, part);
    std::ranges::stable_sort(own, std::greater<>(), [&](uint32_t rank) { return costs[rank]; });
    std::vector<uint32_t> takers = InOrder(ranks);
    std::ranges::stable_sort(takers, {}, [&](uint32_t rank) { return sums[rank]; });
    std::vector<uint32_t> dealt(ranks);
    for (size_t i = 0; i < ranks; ++i) {
      dealt[takers[i]] = own[i];
      sums[takers[i]] += costs[own[i]];
    }
    own = std::move(dealt);
  }
  Placement all;
  for (const Placement& part : placements) all.slots += part.slots;
  all.whole_slots = true;
  all.method = placements.front().method;
  all.widths.reserve(size_t{all.slots} * ranks);
  for (size_t rank = 0; rank < ranks; ++rank) {
    for (size_t c = 0; c < placements.size(); ++c) {
      const Placement& part = placements[c];
      const size_t first = rank_at[c][rank] * size_t{part.slots};
      for (size_t m = first; m < first + part.slots; ++m) {
        all.microbatches.Push(part.microbatches[m]);
        all.microbatches.Close();
        all.widths.push_back(part.widths[m]);
      }
    }
  }
  return all;
}

}  // namespace batchplan
