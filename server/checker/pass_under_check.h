// One pass of a plan, what was asked of it, and where it put each sequence.

#ifndef BATCHPLAN_SERVER_CHECKER_PASS_UNDER_CHECK_H_
#define BATCHPLAN_SERVER_CHECKER_PASS_UNDER_CHECK_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/checker/request_demands.h"
#include "server/checker/request_loads.h"
#include "server/checker/shared_paths.h"
#include "server/planner/plan.h"
#include "server/planner/request/manifest.h"
#include "server/planner/request/options.h"

namespace batchplan::checker {

struct PassUnderCheck {
  size_t number;  // in the request and in the plan
  const Manifest& manifest;
  const PlanOptions& request;
  const PassOptions& options;
  const RequestDemands& demands;
  const PassDemands& pass_demands;
  const PassPlan& plan;
  const RequestLoads& loads;
  // The shared prefixes, if rows lay them once; null: every sequence is computed whole.
  const SharedPaths* paths = nullptr;

  // Whether a sequence of that length exceeds what micro-batches hold, so that its row is as wide
  // as itself.
  bool IsOverlong(uint32_t length) const { return length > pass_demands.length_limit; }
  // Whether a planned sequence is overlong or exceeds a limit on a load, so that it is alone in its
  // micro-batch and shares with nobody.
  bool RunsAlone(uint32_t sequence) const {
    return IsOverlong(demands.planned_lengths[sequence]) || loads.ExceedsOne(number, sequence);
  }
};

// A micro-batch, once the arrays are known to be well-formed: the sequences
// plan.sequence_index[begin .. end).
struct Microbatch {
  uint32_t mini_batch = 0;
  // The data-parallel rank; with dynamic_context the first rank of its group in the pool.
  uint32_t rank = 0;
  uint32_t slot = 0;
  size_t begin = 0;
  size_t end = 0;
  // With dynamic_context, the ranks of its group.
  uint32_t ranks = 1;

  bool empty() const { return begin == end; }
  size_t size() const { return end - begin; }
};

// The micro-batch of each sequence, by manifest position.
using Placement = std::vector<uint32_t>;
inline constexpr uint32_t kNowhere = UINT32_MAX;

// "passes[<number>].<name>" and "passes[<number>].<name>[<index>]".
inline std::string Field(const PassUnderCheck& pass, absl::string_view name) {
  return absl::StrCat("passes[", pass.number, "].", name);
}
inline std::string Field(const PassUnderCheck& pass, absl::string_view name, size_t index) {
  return absl::StrCat("passes[", pass.number, "].", name, "[", index, "]");
}

}  // namespace batchplan::checker

#endif  // BATCHPLAN_SERVER_CHECKER_PASS_UNDER_CHECK_H_
