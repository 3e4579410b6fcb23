#include "server/planner/presets.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace batchplan {
namespace {

constexpr absl::string_view kPresetNames[] = {"balanced",     "nemo_rl_packing", "nemo_rl_dynamic",
                                              "roll_packing", "roll_dynamic",    "mindspeed_rl",
                                              "verl"};

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

}  // namespace

std::span<const absl::string_view> PresetNames() { return kPresetNames; }

absl::StatusOr<PassOptions> PresetPass(absl::string_view preset, const Topology& topology) {
  if (preset.empty() || preset == "balanced") return PassOptions();
  if (preset == "nemo_rl_packing") return NemoRlPacking(topology);
  const std::string quoted = absl::StrCat("preset is \"", preset, "\"");
  if (std::find(std::begin(kPresetNames), std::end(kPresetNames), preset) ==
      std::end(kPresetNames)) {
    return absl::InvalidArgumentError(
        absl::StrCat(quoted, ", which is none of ", absl::StrJoin(kPresetNames, ", ")));
  }
  return absl::UnimplementedError(absl::StrCat(
      quoted, ", which this version of batchplan does not have; it has nemo_rl_packing"));
}

}  // namespace batchplan
