#include "server/planner/request/presets.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace batchplan {
namespace {

PassOptions Balanced(const Topology& topology) {
  PassOptions pass;
  if (topology.pipeline_parallel > 1) pass.order = MicrobatchOrder::kPipeline;
  return pass;
}

// NeMo-RL packs a mini-batch with MFFD and deals the bins over the ranks. Dealing them in the order
// of packing gives rank 0 the largest; here they are dealt by cost. Pipeline stages exchange
// buffers of one size, so there rows are as long as the longest.
PassOptions NemoRlPacking(const Topology& topology) {
  PassOptions pass;
  pass.packer = Packer::kModifiedFirstFitDecreasing;
  pass.rows = topology.pipeline_parallel > 1 ? RowPadding::kLongest : RowPadding::kNone;
  pass.sharding = Sharding::kDealBins;
  return pass;
}

// The dynamic batching of NeMo-RL and of ROLL: ranks take turns in the sorted order and have
// the same widths.
PassOptions SortedAndStrided(const Topology&) {
  PassOptions pass;
  pass.layout = Layout::kPadded;
  pass.scan = Scan::kSorted;
  pass.sharding = Sharding::kStrideSorted;
  return pass;
}

// ROLL evens out the tokens of the ranks before dispatch, then the cost of a rank's micro-batches.
PassOptions RollPacking(const Topology&) {
  PassOptions pass;
  pass.packer = Packer::kKarmarkarKarp;
  pass.sharding = Sharding::kKarmarkarKarp;
  pass.balance_on = BalanceOn::kTokens;
  pass.sequence_counts = EqualCounts::kExact;
  pass.order = MicrobatchOrder::kSmallAtBothEnds;
  return pass;
}

// MindSpeed-RL's DP batch balance and dynamic batch size, both on tokens; micro-batches are evened
// out by cost here.
PassOptions MindSpeedRl(const Topology&) {
  PassOptions pass;
  pass.packer = Packer::kKarmarkarKarp;
  pass.sharding = Sharding::kLpt;
  pass.balance_on = BalanceOn::kTokens;
  pass.sequence_counts = EqualCounts::kExact;
  return pass;
}

// verl evens out the workload at both levels.
PassOptions Verl(const Topology&) {
  PassOptions pass;
  pass.packer = Packer::kKarmarkarKarp;
  pass.sharding = Sharding::kKarmarkarKarp;
  pass.balance_on = BalanceOn::kCost;
  pass.sequence_counts = EqualCounts::kExact;
  pass.order = MicrobatchOrder::kSmallAtBothEnds;
  return pass;
}

// Megatron-LM's scheduler of groups that differ in size, which verl calls too.
PassOptions MegatronDynamicCp(const Topology&) {
  PassOptions pass;
  pass.sharding = Sharding::kMegatronDynamicCp;
  return pass;
}

// Rows of shared prefixes, as AReaL's, TRL's and ART's tree training form them. AReaL's rows are as
// long as the budget.
PassOptions ArealTree(const Topology&) {
  PassOptions pass;
  pass.sharding = Sharding::kArealTree;
  pass.rows = RowPadding::kCapacity;
  return pass;
}

PassOptions TrlTree(const Topology&) {
  PassOptions pass;
  pass.sharding = Sharding::kTrlTree;
  return pass;
}

PassOptions ArtPrefixTree(const Topology&) {
  PassOptions pass;
  pass.sharding = Sharding::kArtPrefixTree;
  pass.order = MicrobatchOrder::kLargestFirst;
  return pass;
}

// By place in kPresetNames.
constexpr PassOptions (*kPresetPasses[])(const Topology&) = {
    Balanced, NemoRlPacking,     SortedAndStrided, RollPacking, SortedAndStrided, MindSpeedRl,
    Verl,     MegatronDynamicCp, ArealTree,        TrlTree,     ArtPrefixTree};
static_assert(std::size(kPresetPasses) == std::size(kPresetNames));

}  // namespace

absl::StatusOr<PassOptions> PresetPass(absl::string_view preset, const Topology& topology) {
  const auto known =
      preset.empty() ? kPresetNames.begin() : std::ranges::find(kPresetNames, preset);
  if (known != kPresetNames.end()) {
    PassOptions pass = kPresetPasses[known - kPresetNames.begin()](topology);
    pass.preset = std::string(*known);
    return pass;
  }
  return absl::InvalidArgumentError(absl::StrCat("preset is \"", absl::Utf8SafeCEscape(preset),
                                                 "\", which is none of ",
                                                 absl::StrJoin(kPresetNames, ", ")));
}

}  // namespace batchplan
