// Presets: named bundles of options. "balanced" is batchplan's own; the others reproduce one
// planning system each.

#ifndef BATCHPLAN_SERVER_PLANNER_REQUEST_PRESETS_H_
#define BATCHPLAN_SERVER_PLANNER_REQUEST_PRESETS_H_

#include <array>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/planner/request/options.h"

namespace batchplan {

// Every preset of the contract.
inline constexpr std::array<absl::string_view, 11> kPresetNames = {
    "balanced",     "nemo_rl_packing",     "nemo_rl_dynamic",
    "roll_packing", "roll_dynamic",        "mindspeed_rl",
    "verl",         "megatron_dynamic_cp", "areal_tree",
    "trl_tree",     "art_prefix_tree"};

// What the preset sets for a pass on this topology; the caller's own settings then override it. An
// empty name is "balanced".
//
// InvalidArgument for an unknown name, listing the known ones.
absl::StatusOr<PassOptions> PresetPass(absl::string_view preset, const Topology& topology);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_REQUEST_PRESETS_H_
