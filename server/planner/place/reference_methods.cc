#include "server/planner/place/reference_methods.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/string_view.h"
#include "server/planner/request/presets.h"

namespace batchplan {
namespace {

// Larger mini-batches are left to the solver alone.
constexpr size_t kMostForReferences = 65536;

bool SameMethod(const PassOptions& a, const PassOptions& b) {
  const auto method = [](const PassOptions& pass) {
    return std::tuple(pass.sharding, pass.packer, pass.scan, pass.balance_on,
                      pass.equal_sequence_counts);
  };
  return method(a) == method(b);
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

}  // namespace batchplan
