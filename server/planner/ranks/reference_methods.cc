#include "server/planner/ranks/reference_methods.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "absl/strings/string_view.h"
#include "server/planner/request/decision.h"
#include "server/planner/request/presets.h"

namespace batchplan {
namespace {

// Larger mini-batches are left to the solver alone.
constexpr size_t kMostForReferences = 65536;

bool SameMethod(const PassOptions& a, const PassOptions& b) {
  const auto method = [](const PassOptions& pass) {
    return std::tuple(pass.sharding, pass.packer, pass.scan, pass.balance_on, pass.sequence_counts);
  };
  return method(a) == method(b);
}

// Whether `pass` assigns as the preset does, whatever it sets of options that the preset leaves
// open.
bool AssignsAs(const PassOptions& preset, const PassOptions& pass) {
  const bool same_bins =
      pass.layout == Layout::kPacked ? pass.packer == preset.packer : pass.scan == preset.scan;
  return pass.layout == preset.layout && pass.sharding == preset.sharding && same_bins &&
         pass.balance_on == preset.balance_on && (pass.keeps_counts() || !preset.keeps_counts());
}

using PresetPasses = std::array<PassOptions, kPresetNames.size()>;

const PresetPasses& AllPresets() {
  static const PresetPasses& presets = *new PresetPasses([] {
    PresetPasses passes;
    for (size_t i = 0; i < passes.size(); ++i) passes[i] = *PresetPass(kPresetNames[i], Topology());
    return passes;
  }());
  return presets;
}

absl::string_view ShardingMethod(Sharding sharding) {
  switch (sharding) {
    case Sharding::kBalanced:
      return kBalancedMethod;
    case Sharding::kDealBins:
      return kDealtMethod;
    case Sharding::kStrideSorted:
      return "stride_sorted";
    case Sharding::kKarmarkarKarp:
      return "karmarkar_karp";
    case Sharding::kLpt:
      return "lpt";
    case Sharding::kContiguous:
      return "contiguous";
    case Sharding::kMegatronDynamicCp:
      return kMegatronMethod;
    case Sharding::kArealTree:
      return "areal_tree";
    case Sharding::kTrlTree:
      return "trl_tree";
    case Sharding::kArtPrefixTree:
      return "art_prefix_tree";
  }
  return kBalancedMethod;
}

}  // namespace

bool TriesReferences(Effort effort, size_t sequences) {
  return effort == Effort::kThorough ||
         (effort == Effort::kDefault && sequences <= kMostForReferences);
}

std::vector<PassOptions> ReferenceMethods(const PassOptions& pass, const Topology& topology) {
  std::vector<PassOptions> methods;
  for (const absl::string_view name : kPresetNames) {
    const PassOptions preset = *PresetPass(name, topology);
    const bool deals = preset.sharding == Sharding::kDealBins;
    // Groups of several sizes have candidates of their own (place_slots.h).
    if (preset.sharding == Sharding::kMegatronDynamicCp) continue;
    // rows/reference_trees.h makes rows of shared prefixes.
    if (IsOfTrees(preset.sharding)) continue;
    if (preset.sharding == Sharding::kBalanced || preset.layout != pass.layout ||
        (deals && pass.keeps_counts())) {
      continue;
    }
    PassOptions method = pass;
    method.sharding = preset.sharding;
    method.packer = preset.packer;
    method.scan = preset.scan;
    method.balance_on = preset.balance_on;
    if (!pass.keeps_counts()) method.sequence_counts = preset.sequence_counts;
    const auto same = [&](const PassOptions& other) { return SameMethod(method, other); };
    if (std::none_of(methods.begin(), methods.end(), same)) methods.push_back(std::move(method));
  }
  return methods;
}

absl::string_view MethodOf(const PassOptions& pass) {
  if (pass.sharding == Sharding::kBalanced) return kBalancedMethod;
  absl::string_view method;
  for (const PassOptions& preset : AllPresets()) {
    if (!AssignsAs(preset, pass)) continue;
    if (method.empty() || preset.preset == pass.preset) method = preset.preset;
  }
  return method.empty() ? ShardingMethod(pass.sharding) : method;
}

absl::string_view FillingMethodOf(const PassOptions& pass) {
  if (pass.layout == Layout::kPadded) {
    return pass.scan == Scan::kOptimal ? "optimal_scan" : "sorted_scan";
  }
  switch (pass.packer) {
    case Packer::kBalanced:
      return kBalancedMethod;
    case Packer::kConcatenative:
      return "concatenative";
    case Packer::kFirstFitDecreasing:
      return "first_fit_decreasing";
    case Packer::kFirstFitShuffle:
      return "first_fit_shuffle";
    case Packer::kModifiedFirstFitDecreasing:
      return "modified_first_fit_decreasing";
    case Packer::kBestFitDecreasing:
      return "best_fit_decreasing";
    case Packer::kKarmarkarKarp:
      return "karmarkar_karp";
  }
  return kBalancedMethod;
}

}  // namespace batchplan
