// Requests of every kind, each with the fingerprint that its plan had when the test was written. A
// request has the same plan across runs, threads, build types and compilers, so these tests compare
// with the same fingerprints in every preset's build.

#ifndef BATCHPLAN_TESTS_SERVER_PLANNER_DETERMINISM_GOLDEN_H_
#define BATCHPLAN_TESTS_SERVER_PLANNER_DETERMINISM_GOLDEN_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "server/planner/make_plan.h"
#include "server/planner/request/options.h"
#include "tests/support/checked_plan.h"
#include "tests/support/generated_request.h"
#include "tests/support/generators.h"

namespace batchplan::testing {

// A change of the suite's basic request.
struct Golden {
  std::string name;
  void (*change)(GeneratedRequest&);
  std::string fingerprint;
};

inline void PrintTo(const Golden& golden, std::ostream* out) { *out << golden.name; }

inline std::string NameOfGolden(const ::testing::TestParamInfo<Golden>& info) {
  return info.param.name;
}

// Makes groups of four sequences, in the order of the manifest.
inline void GroupByFours(GeneratedRequest& request) {
  request.group_ids.clear();
  for (uint32_t i = 0; i < request.lengths.size(); ++i) request.group_ids.push_back(i / 4);
}

// A request of ranks in which every coefficient, seed and rounding matters.
inline GeneratedRequest RanksRequest() {
  GeneratedRequest request;
  request.lengths = ZipfLengths(2048, 11);
  GroupByFours(request);
  PlanOptions& options = request.options;
  options = PackedOptions(8200, Packer::kBalanced, 4, Sharding::kBalanced);
  options.topology.context_parallel = 2;
  options.topology.tensor_parallel = 2;
  options.topology.sequence_parallel = true;
  options.mini_batches = {.size = 1024, .order = Order::kShuffled, .seed = 20};
  options.cost_model = {.per_token = 0.1, .per_token_squared = 1.0 / 30011, .per_microbatch = 3.3};
  options.passes[0].rows = RowPadding::kLongest;
  options.passes[0].order = MicrobatchOrder::kSmallAtBothEnds;
  return request;
}

inline void ExpectFingerprint(GeneratedRequest request, const Golden& golden) {
  golden.change(request);
  // Only policies that use groups get any.
  if (request.options.mini_batches.groups == GroupPolicy::kIgnore) request.group_ids.clear();
  const auto plan = MakeCheckedPlan(request.manifest(), request.options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->fingerprint, golden.fingerprint);
}

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SERVER_PLANNER_DETERMINISM_GOLDEN_H_
