// Handmade plans, by which the checker is tested without the planner.

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

// A micro-batch: its sequences, the width of their row, and their shared_tokens if the pass shares.
struct HandmadeMicrobatch {
  std::vector<uint32_t> sequences;
  uint32_t width = 0;
  std::vector<uint32_t> shared = {};
};

// Indexed by mini-batch, rank and slot.
using HandmadePass = std::vector<std::vector<std::vector<HandmadeMicrobatch>>>;

// A request and its plan. Fill lengths and options, then call AddPass for each pass.
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

  // Views this plan, and must not outlive it.
  Manifest manifest() const {
    Manifest view = {lengths, group_ids, pad_to, ranks, ages, shared_prefixes, shared_with};
    ViewLoads(loads, &view);
    view.kinds = kinds;
    return view;
  }

  // Appends the next pass, with the metrics of its layout and of plan.deferred. Planned lengths are
  // cut to `limit`; the lower bound on micro-batches is the pass's own number. The pass shares if
  // any of its micro-batches has shared tokens. Items of loads are dealt by the rule.
  void AddPass(const HandmadePass& layout, uint32_t length_multiple, uint32_t limit = UINT32_MAX);

  absl::Status Check() const;
};

// The plan's first pass.
inline PassPlan& PassOf(HandmadePlan& handmade) { return handmade.plan.passes[0]; }
inline PassOptions& OptionsOf(HandmadePlan& handmade) { return handmade.options.passes[0]; }
inline PlanMetrics& MetricsOf(HandmadePlan& handmade) { return PassOf(handmade).metrics; }

// A packed pass, with defaults for everything else.
PassOptions PackedPass(const std::string& name, uint32_t budget);

// The plan from which the mutations start: two mini-batches of six on two ranks. CP = 2 gives a
// length multiple of 4, PP = VPP = 2 an even number of micro-batches.
HandmadePlan TwoMiniBatches();

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SERVER_CHECKER_HANDMADE_PLAN_H_
