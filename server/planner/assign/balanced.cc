#include "server/planner/assign/balanced.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "server/planner/assign/place.h"
#include "server/planner/assign/solve_packed.h"
#include "server/planner/assign/solve_padded.h"
#include "server/planner/assign/step_time.h"
#include "server/planner/cancellation.h"
#include "server/planner/order.h"
#include "server/planner/presets.h"

namespace batchplan {
namespace {

// Larger mini-batches are left to the solver alone, except where the effort is thorough: the
// references take longer than it there.
constexpr size_t kMostForReferences = 65536;

struct Candidate {
  Dealt dealt;
  Cost step_time = 0;
};

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
                                                 uint64_t seed, absl::string_view where,
                                                 const std::stop_token& stop) {
  std::vector<Candidate> candidates;
  const auto add = [&](Dealt dealt) {
    OrderMicrobatches(pass, MicrobatchOrder::kLargestFirst, dealt.assignment);
    const Cost time = StepTime(pass, dealt.assignment);
    candidates.push_back({.dealt = std::move(dealt), .step_time = time});
  };

  std::optional<Dealt> solved = pass.options().layout == Layout::kPacked
                                    ? SolvePacked(pass, mini_batch, stop)
                                    : SolvePadded(pass, mini_batch, stop);
  Proven proven;
  if (solved) {
    proven = solved->assignment.proven;
    add(*std::move(solved));
  }
  absl::Status refused;
  if (candidates.empty()) {
    absl::StatusOr<Dealt> divided = Place(pass, mini_batch, seed, where, stop);
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
      absl::StatusOr<Dealt> dealt = Place(reference, mini_batch, seed, where, stop);
      if (dealt.ok()) add(*std::move(dealt));
    }
  }
  if (absl::Status status = CheckStop(stop); !status.ok()) return status;
  if (candidates.empty()) return refused;
  std::stable_sort(
      candidates.begin(), candidates.end(),
      [](const Candidate& a, const Candidate& b) { return a.step_time < b.step_time; });
  std::vector<Dealt> placements;
  for (Candidate& candidate : candidates) {
    candidate.dealt.assignment.proven = proven;
    placements.push_back(std::move(candidate.dealt));
  }
  return placements;
}

}  // namespace batchplan
