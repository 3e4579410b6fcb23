// Random requests, the same for one seed on every machine and compiler.
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

// The manifest's arrays, and what is asked of them.
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

  // Views this request, and lives no longer.
  Manifest manifest() const {
    Manifest view = {lengths, group_ids, pad_to, ranks, ages, shared_prefixes, shared_with};
    ViewLoads(loads, &view);
    view.kinds = kinds;
    return view;
  }
  // In one line, everything that the plan depends on.
  std::string Describe() const;

 private:
  std::string DescribeLoads() const;
};

// A request of some 100 sequences at most and some 1000 tokens each, over all that can be asked:
// layouts, packers and scans, shardings or ranks that are given, groups of every policy, up to
// three passes, mini-batches ignored or not. Its options are valid. Most can be planned; for the
// others (too few sequences for the ranks and minimums, an overlong one under kReject, counts that
// don't divide, groups that close no mini-batch or fit no micro-batch, every sequence of a
// mini-batch dropped) the planner's answer is InvalidArgument and nothing else.
GeneratedRequest GenerateRequest(uint64_t seed);

// The same with at most kMaxSmallSequences sequences, at most three ranks and no shuffle:
// what Satisfiable decides in a fraction of a millisecond.
inline constexpr size_t kMaxSmallSequences = 7;
GeneratedRequest GenerateSmallRequest(uint64_t seed);

// A request of GenerateRequest's with dynamic_context: pools of 1 to 24 ranks, also such as are no
// power of two, with limits of every kind on their groups, under exchange or without. What does not
// go with groups that differ is left out.
GeneratedRequest GenerateDynamicRequest(uint64_t seed);

// Gives a generated request ages, maybe, and a selection of every kind, in one mini-batch or in
// some that may exchange sequences. In a part of the requests it asks for more than there is, or
// than its ages allow.
void AddSelection(uint64_t seed, GeneratedRequest* request);

// Gives a generated request, unless it has dynamic_context, sequences that share prefixes: groups
// around their first, forests with chains, copies and prefixes of others. The padded passes then
// ignore them or become packed, and some of the packed ones ignore them as well; some requests have
// a sharding of trees. The one forest or the other relates sequences through such as are dropped,
// truncated, alone or deferred.
void AddSharedPrefixes(uint64_t seed, GeneratedRequest* request);

// Gives a generated request one to three loads, of sequences or of their items, some of which its
// passes limit; unless a pass is padded, some of them cost, as a part of rows, in phases or dealt,
// or one of them is all that costs. With dynamic_context nothing is asked of them, and of small
// requests no dealt load is limited, which Satisfiable could not tell. Call it after the others of
// these.
void AddLoads(uint64_t seed, GeneratedRequest* request);

// A request whose passes are the preset's on a random topology, with random budgets, mini-batches,
// groups, counts and maybe given ranks over it, one to three passes. `preset` is a name that
// PresetPass knows; that of dynamic groups has dynamic_context, those of trees shared prefixes.
GeneratedRequest GeneratePresetRequest(absl::string_view preset, uint64_t seed);

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SUPPORT_GENERATED_REQUEST_H_
