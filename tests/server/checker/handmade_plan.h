// Plans written down by hand, so that the checker is tested without the planner.

#ifndef BATCHPLAN_TESTS_SERVER_CHECKER_HANDMADE_PLAN_H_
#define BATCHPLAN_TESTS_SERVER_CHECKER_HANDMADE_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/planner/plan.h"
#include "server/planner/request/manifest.h"
#include "server/planner/request/options.h"
#include "tests/support/owned_loads.h"

namespace batchplan::testing {

// A micro-batch: the sequences, the width of their row, and in passes that share their
// shared_tokens.
struct HandmadeMicrobatch {
  std::vector<uint32_t> sequences;
  uint32_t width = 0;
  std::vector<uint32_t> shared = {};
};

// By mini-batch, rank and slot.
using HandmadePass = std::vector<std::vector<std::vector<HandmadeMicrobatch>>>;

// A request and a plan for it. Fill lengths and options, then call AddPass for each pass.
struct HandmadePlan {
  std::vector<uint32_t> lengths;
  std::vector<uint32_t> group_ids;
  uint32_t pad_to = 0;
  std::vector<uint32_t> ranks;
  std::vector<uint32_t> ages;
  PlanOptions options;
  Plan plan;
  std::vector<uint32_t> shared_prefixes = {};
  std::vector<uint32_t> shared_with = {};
  std::vector<OwnedLoad> loads = {};
  std::vector<uint32_t> kinds = {};

  // Views this plan, and lives no longer.
  Manifest manifest() const {
    Manifest view = {lengths, group_ids, pad_to, ranks, ages, shared_prefixes, shared_with};
    ViewLoads(loads, &view);
    view.kinds = kinds;
    return view;
  }

  // Appends the next pass, with the metrics that its layout and plan.deferred have. Planned lengths
  // are cut to `limit`; the lower bound on micro-batches is the pass's own count. It shares if any
  // of its micro-batches has shared tokens. Items of loads are dealt as the rule says.
  void AddPass(const HandmadePass& layout, uint32_t length_multiple, uint32_t limit = UINT32_MAX);

  absl::Status Check() const;
};

// Of its first pass.
inline PassPlan& PassOf(HandmadePlan& handmade) { return handmade.plan.passes[0]; }
inline PassOptions& OptionsOf(HandmadePlan& handmade) { return handmade.options.passes[0]; }
inline PlanMetrics& MetricsOf(HandmadePlan& handmade) { return PassOf(handmade).metrics; }

// A pass of the packed layout, everything else as it is by default.
PassOptions PackedPass(const std::string& name, uint32_t budget);

// Two mini-batches of six on two ranks, CP = 2 and so a length multiple of 4, PP = VPP = 2 and so
// an even number of micro-batches: the plan that the mutations start from.
HandmadePlan TwoMiniBatches();

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SERVER_CHECKER_HANDMADE_PLAN_H_
