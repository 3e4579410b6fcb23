// Random requests. A seed gives the same request on every machine and compiler.
//
//   for (uint64_t seed = 0; seed < 1000; ++seed) {
//     const GeneratedRequest request = GenerateRequest(seed);
//     SCOPED_TRACE(request.Describe());
//     absl::StatusOr<Plan> plan = MakePlan(request.manifest(), request.options);
//     if (plan.ok()) EXPECT_OK(CheckPlan(request.manifest(), request.options, *plan));
//   }

#ifndef BATCHPLAN_TESTS_SUPPORT_GENERATED_REQUEST_H_
#define BATCHPLAN_TESTS_SUPPORT_GENERATED_REQUEST_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/planner/request/manifest.h"
#include "server/planner/request/options.h"
#include "tests/support/owned_loads.h"

namespace batchplan::testing {

// The manifest's arrays, and the options.
struct GeneratedRequest {
  std::vector<uint32_t> lengths;
  std::vector<uint32_t> group_ids;
  uint32_t pad_to = 0;
  std::vector<uint32_t> ranks;
  std::vector<uint32_t> ages = {};
  PlanOptions options;
  std::vector<uint32_t> shared_prefixes = {};
  std::vector<uint32_t> shared_with = {};
  std::vector<OwnedLoad> loads = {};
  std::vector<uint32_t> kinds = {};

  // Views this request, and must not outlive it.
  Manifest manifest() const {
    Manifest view = {lengths, group_ids, pad_to, ranks, ages, shared_prefixes, shared_with};
    ViewLoads(loads, &view);
    view.kinds = kinds;
    return view;
  }
  // Everything that the plan depends on, in one line.
  std::string Describe() const;

 private:
  std::string DescribeLoads() const;
};

// A request of up to about 100 sequences of up to about 1000 tokens, over all options: layouts,
// packers and scans; shardings or given ranks; groups of every policy; up to three passes, with
// mini-batches ignored or not. Its options are valid. Most can be planned. The planner must answer
// InvalidArgument to the others: too few sequences for the ranks and minimums, an overlong one
// under kReject, counts that don't divide, groups that close no mini-batch or fit no micro-batch,
// or a mini-batch whose sequences are all dropped.
GeneratedRequest GenerateRequest(uint64_t seed);

// GenerateRequest with at most kMaxSmallSequences sequences, at most three ranks and no shuffle.
// Satisfiable decides these in a fraction of a millisecond.
inline constexpr size_t kMaxSmallSequences = 7;
GeneratedRequest GenerateSmallRequest(uint64_t seed);

// GenerateRequest with dynamic_context: pools of 1 to 24 ranks, not only powers of two, with all
// kinds of limits on groups, with or without exchange. Options that exclude such groups are left
// out.
GeneratedRequest GenerateDynamicRequest(uint64_t seed);

// May add ages to a generated request; adds a selection of any kind, in one mini-batch or in
// several that may exchange sequences. Some selections ask for more than there is, or than the ages
// allow.
void AddSelection(uint64_t seed, GeneratedRequest* request);

// Adds shared prefixes to a generated request, unless it has dynamic_context: groups around their
// first member, or forests with chains, copies and prefixes of others. Padded passes then ignore
// them or become packed, and some packed ones ignore them too. Some requests get a sharding of
// trees. In some forests, sequences are related through ones that are dropped, truncated, alone or
// deferred.
void AddSharedPrefixes(uint64_t seed, GeneratedRequest* request);

// Adds one to three loads to a generated request, of sequences or of their items. Its passes limit
// some of them. Unless a pass is padded, some have costs: as a part of rows, in phases or dealt; or
// one load is the only cost. With dynamic_context the loads are not used. Small requests limit no
// dealt load, which Satisfiable could not decide. Call this after the other functions.
void AddLoads(uint64_t seed, GeneratedRequest* request);

// Gives the sequences of a generated request without kinds up to three kinds, and its passes a rule
// for them, unless it has dynamic_context.
void AddKinds(uint64_t seed, GeneratedRequest* request);

// Most passes then want numbers of sequences that are a multiple. Many such requests are refused.
void AddMultiples(uint64_t seed, GeneratedRequest* request);

// A request whose passes are those of a preset on a random topology, with random budgets,
// mini-batches, groups, counts, sometimes given ranks, and one to three passes. `preset` must be
// known to PresetPass. The preset of dynamic groups gets dynamic_context; those of trees get shared
// prefixes.
GeneratedRequest GeneratePresetRequest(absl::string_view preset, uint64_t seed);

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SUPPORT_GENERATED_REQUEST_H_
