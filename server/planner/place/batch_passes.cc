#include "server/planner/place/batch_passes.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace batchplan {
namespace {

// Whether two passes ask for the same micro-batches once the ranks of their sequences are known,
// which is all that sharding and equal counts decide.
bool IsFilledAlike(PassOptions a, const PassOptions& b) {
  a.name = b.name;
  a.preset = b.preset;
  a.sharding = b.sharding;
  a.sequence_counts = b.sequence_counts;
  return a == b;
}

}  // namespace

BatchPasses::BatchPasses(std::span<const Pass> passes, const SequenceLists& mini_batches)
    : all_(passes), lists_(mini_batches) {
  for (const Pass& pass : passes) {
    (pass.options().ignore_mini_batches ? over_all_ : within_).push_back(&pass);
  }
  is_whole_ = within_.empty();
  if (is_whole_) std::swap(within_, over_all_);
}

absl::Status BatchPasses::CheckTotal(const PlacedTotal& total) const {
  const Pass& first = all_.front();
  if (first.pipeline() != nullptr) {
    // Groups that wait for each other are simulated slot by slot.
    const bool by_slot =
        first.sizes_differ() && first.synchronization() == Synchronization::kLockstep;
    absl::Status status = CheckTotalPipelineWorks(
        first.topology(), by_slot ? total.slots : total.microbatches, all_.size());
    if (!status.ok()) return status;
  }
  if (total.microbatches <= all_.size() * sequences().size() + kMaxEmptyMicrobatches) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the plan needs more than ", kMaxEmptyMicrobatches,
      " micro-batches beyond one a sequence, the limit where allow_empty_microbatches is set (",
      first.sizes_differ() ? absl::StrCat(first.pool(), " ranks of topology.dynamic_context")
                           : absl::StrCat("data_parallel ", first.ranks()),
      ", ", mini_batches(), " mini-batches, ", all_.size(), " passes)"));
}

absl::Status BatchPasses::CheckFewest() const {
  if (!all_.front().allow_empty()) return absl::OkStatus();
  PlacedTotal fewest;
  for (const Pass& pass : all_) {
    const uint64_t slots = pass.counts().RoundUp(1) * pass.mini_batches();
    fewest.slots += slots;
    fewest.microbatches += slots * pass.fewest_groups();
  }
  return CheckTotal(fewest);
}

std::vector<size_t> TwinsOf(std::span<const Pass* const> passes, size_t first) {
  std::vector<size_t> twins;
  for (size_t i = 0; i < passes.size(); ++i) {
    size_t twin = std::min(i, first);
    while (twin < i && !IsFilledAlike(passes[i]->options(), passes[twin]->options())) ++twin;
    twins.push_back(twin);
  }
  return twins;
}

}  // namespace batchplan
