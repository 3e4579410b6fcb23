// What a request may count on whatever its effort: more effort never makes a step longer, and never
// decides whether there is a plan; groups that differ in size are never behind groups of one size.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/planner/make_plan.h"
#include "server/planner/request/context_sizes.h"
#include "server/planner/request/pass_limits.h"
#include "server/planner/request/presets.h"
#include "tests/support/checked_plan.h"
#include "tests/support/generated_request.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using testing::GeneratedRequest;

constexpr Effort kEfforts[] = {Effort::kFast, Effort::kDefault, Effort::kThorough};

// Rounding of costs in scales of their own.
constexpr double kRounding = 1e-6;

// Requests of no more sequences are planned at kThorough, which takes longest; of the others every
// eighth.
constexpr size_t kFewSequences = 24;

uint32_t PoolOf(const PlanOptions& options) {
  return options.topology.data_parallel * options.topology.context_parallel;
}

// The first pass that keeps to mini-batches, or the first.
size_t LeadOf(const PlanOptions& options) {
  for (size_t i = 0; i < options.passes.size(); ++i) {
    if (!options.passes[i].ignore_mini_batches) return i;
  }
  return 0;
}

// What the planner lowers: with a selection, whose plans hold other sequences, predicted over ideal
// step time of all passes; where mini-batches exchange sequences, the predicted step time of all
// passes; else that of the leading pass.
double ObjectiveOf(const PlanOptions& options, const Plan& plan) {
  double predicted = 0;
  double ideal = 0;
  for (const PassPlan& pass : plan.passes) {
    predicted += pass.metrics.predicted_step_time;
    ideal += pass.metrics.ideal_step_time;
  }
  if (options.selection) return ideal == 0 ? 1 : predicted / ideal;
  if (options.mini_batches.max_delay > 0) return predicted;
  return plan.passes[LeadOf(options)].metrics.predicted_step_time;
}

// Plain ranks, padded rows and given ranks; pipelines of them; groups that differ; choices of what
// waits; every preset; one pass or several, in one mini-batch or more.
GeneratedRequest RequestOfAnyKind(uint64_t seed) {
  switch (seed % 6) {
    case 0:
      return testing::GenerateRequest(seed);
    case 1:
      return testing::GeneratePresetRequest("balanced", seed);
    case 2:
      return testing::GenerateDynamicRequest(seed);
    case 3:
      return testing::GeneratePresetRequest(kPresetNames[seed / 6 % kPresetNames.size()], seed);
    default: {
      GeneratedRequest request = seed % 6 == 4 ? testing::GeneratePresetRequest("balanced", seed)
                                               : testing::GenerateDynamicRequest(seed);
      testing::AddSelection(seed, &request);
      return request;
    }
  }
}

void ExpectMoreIsNeverSlower(GeneratedRequest request, uint64_t seed) {
  const bool thorough = request.lengths.size() <= kFewSequences || seed % 8 == 0;
  std::optional<bool> planned;
  double least = 0;
  for (const Effort effort : kEfforts) {
    if (effort == Effort::kThorough && !thorough) continue;
    request.options.effort = effort;
    const auto plan = MakePlan(request.manifest(), request.options);
    ASSERT_EQ(plan.ok(), planned.value_or(plan.ok()))
        << "seed " << seed << ": " << plan.status() << "\n"
        << request.Describe();
    if (plan.ok()) {
      const double objective = ObjectiveOf(request.options, *plan);
      if (planned) {
        ASSERT_LE(objective, least * (1 + kRounding)) << "seed " << seed << "\n"
                                                      << request.Describe();
      }
      least = objective;
    }
    planned = plan.ok();
  }
}

TEST(EffortTest, MoreIsNeverSlowerAndDoesNotDecideWhetherThereIsAPlan) {
  for (const uint64_t seed : testing::Seeds(1000)) {
    ExpectMoreIsNeverSlower(RequestOfAnyKind(seed), seed);
    if (HasFatalFailure()) return;
  }
}

TEST(EffortTest, NorWhereSequencesSharePrefixes) {
  for (const uint64_t seed : testing::Seeds(300)) {
    GeneratedRequest request = testing::GenerateRequest(seed);
    testing::AddSharedPrefixes(seed, &request);
    if (seed % 5 == 0) testing::AddSelection(seed, &request);
    ExpectMoreIsNeverSlower(std::move(request), seed);
    if (HasFatalFailure()) return;
  }
}

TEST(EffortTest, NorWithLoadsAndKinds) {
  for (const uint64_t seed : testing::Seeds(300)) {
    GeneratedRequest request = testing::GenerateRequest(seed);
    if (seed % 4 == 0) testing::AddSharedPrefixes(seed, &request);
    testing::AddLoads(seed, &request);
    ExpectMoreIsNeverSlower(std::move(request), seed);
    if (HasFatalFailure()) return;
  }
}

// Trees have no padded rows. Such a pass, if the first ignores mini-batches, is searched for.
TEST(EffortTest, NorWherePaddedRowsFollowTrees) {
  uint64_t planned = 0;
  for (const uint64_t seed : testing::Seeds(100)) {
    testing::RandomStream random(seed);
    GeneratedRequest request;
    PlanOptions& options = request.options;
    options.topology.data_parallel = static_cast<uint32_t>(random.Between(1, 4));
    PassOptions& first = options.passes.emplace_back();
    first.name = "first";
    first.ignore_mini_batches = true;
    first.sharding = random.OneOf<Sharding>({Sharding::kTrlTree, Sharding::kArealTree});
    first.packer = Packer::kFirstFitDecreasing;
    first.max_tokens_per_microbatch = 4096;
    PassOptions& padded = options.passes.emplace_back();
    padded.name = "padded";
    padded.layout = Layout::kPadded;
    padded.max_tokens_per_microbatch = static_cast<uint32_t>(random.Between(1024, 4096));
    const uint64_t count = random.Between(4, 24) * options.topology.data_parallel;
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t most = random.Chance(70) ? 200 : 1024;
      request.lengths.push_back(static_cast<uint32_t>(random.Between(1, most)));
    }
    planned += MakePlan(request.manifest(), options).ok() ? 1 : 0;
    ExpectMoreIsNeverSlower(std::move(request), /*seed=*/0);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(planned, testing::Cases(100) / 2);
}

TEST(EffortTest, NorWithMultiplesOfSequences) {
  uint64_t with_multiple = 0;
  for (const uint64_t seed : testing::Seeds(300)) {
    GeneratedRequest request = testing::GenerateRequest(seed);
    if (seed % 3 == 0) testing::AddLoads(seed, &request);
    // Few numbers of sequences divide into mini-batches that are multiples.
    request.options.mini_batches.size = 0;
    for (PassOptions& pass : request.options.passes) pass.sequence_count_multiple = 2;
    with_multiple += MakePlan(request.manifest(), request.options).ok() ? 1 : 0;
    ExpectMoreIsNeverSlower(std::move(request), seed);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(with_multiple, testing::Cases(300) / 15);
}

// Lengths as training batches have them, with what is asked of them.
struct OrdinaryBatch {
  std::string name;
  std::vector<uint32_t> (*lengths)(size_t, uint64_t);
  size_t sequences;
  uint32_t budget;
  uint32_t ranks;
  void (*ask)(PlanOptions&);
  Effort most = Effort::kThorough;
  uint32_t group_size = 0;
};

void AskNothing(PlanOptions& /*options*/) {}
void AskAccumulated(PlanOptions& options) {
  options.synchronization = Synchronization::kAccumulated;
}
void AskPadded(PlanOptions& options) { options.passes[0].layout = Layout::kPadded; }
void AskEqualCounts(PlanOptions& options) {
  options.passes[0].sequence_counts = EqualCounts::kExact;
}
void AskGroupsOnOneRank(PlanOptions& options) {
  options.mini_batches.groups = GroupPolicy::kSameRank;
}
void AskWideRows(PlanOptions& options) { options.passes[0].rows = RowPadding::kLongest; }
void AskMiniBatches(PlanOptions& options) { options.mini_batches.size = 256; }
void AskPipelines(PlanOptions& options) {
  options.topology.pipeline_parallel = 8;
  options.cost_model.per_microbatch = 1000;
}
void AskPaddedPipelines(PlanOptions& options) {
  AskPipelines(options);
  AskPadded(options);
  AskAccumulated(options);
}
void AskDynamicGroups(PlanOptions& options) {
  options.topology.dynamic_context.emplace();
  options.cost_model = DefaultCosts(options.topology);
  options.passes[0].max_tokens_per_microbatch /= 4;
}

class OrdinaryBatchTest : public ::testing::TestWithParam<OrdinaryBatch> {};

TEST_P(OrdinaryBatchTest, MoreEffortIsNeverSlower) {
  const OrdinaryBatch& batch = GetParam();
  const std::vector<uint32_t> lengths = batch.lengths(batch.sequences, 1);
  std::vector<uint32_t> group_ids(batch.group_size > 0 ? lengths.size() : 0);
  for (uint32_t i = 0; i < group_ids.size(); ++i) group_ids[i] = i / batch.group_size;
  PlanOptions options;
  options.topology.data_parallel = batch.ranks;
  options.passes.push_back(PresetPass("balanced", options.topology).value());
  options.passes[0].max_tokens_per_microbatch = batch.budget;
  batch.ask(options);
  double least = std::numeric_limits<double>::infinity();
  for (const Effort effort : kEfforts) {
    if (effort > batch.most) break;
    options.effort = effort;
    const auto plan =
        testing::MakeCheckedPlan({.lengths = lengths, .group_ids = group_ids}, options);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const double time = plan->passes[0].metrics.predicted_step_time;
    EXPECT_LE(time, least * (1 + kRounding));
    least = time;
  }
}

// The lengths, budgets and ranks of step_time_bench, and large batches.
std::vector<OrdinaryBatch> OrdinaryBatches() {
  const OrdinaryBatch kFamilies[] = {
      {"Maths", testing::MathsLengths, 1024, 16384, 16, AskNothing},
      {"LongCot", testing::LongCotLengths, 2048, 65536, 64, AskNothing},
      {"Agentic", testing::AgenticLengths, 1024, 32768, 16, AskNothing},
      {"Zipf", testing::ZipfLengths, 2048, 8192, 8, AskNothing},
      {"SmallMaths", testing::MathsLengths, 256, 16384, 8, AskNothing},
      {"SmallZipf", testing::ZipfLengths, 256, 8192, 8, AskNothing},
  };
  struct Feature {
    const char* name;
    void (*ask)(PlanOptions&);
    uint32_t group_size = 0;
  };
  const Feature kFeatures[] = {
      {"", AskNothing},
      {"Accumulated", AskAccumulated},
      {"Padded", AskPadded},
      {"EqualCounts", AskEqualCounts},
      {"GroupsOnOneRank", AskGroupsOnOneRank, 8},
      {"WideRows", AskWideRows},
      {"MiniBatches", AskMiniBatches},
      {"Pipelines", AskPipelines},
      {"PaddedPipelines", AskPaddedPipelines},
      {"DynamicGroups", AskDynamicGroups},
  };
  std::vector<OrdinaryBatch> batches;
  for (const OrdinaryBatch& family : kFamilies) {
    for (const Feature& feature : kFeatures) {
      OrdinaryBatch& batch = batches.emplace_back(family);
      batch.name += feature.name;
      batch.ask = feature.ask;
      batch.group_size = feature.group_size;
      // On pipelines these take seconds.
      if (batch.sequences == 2048 && batch.ask == AskPipelines) batch.most = Effort::kDefault;
    }
  }
  batches.push_back({"ManyMathsEqualCounts", testing::MathsLengths, 131072, 16384, 64,
                     AskEqualCounts, Effort::kDefault});
  batches.push_back({"ManyAgenticGroupsOnOneRank", testing::AgenticLengths, 131072, 32768, 64,
                     AskGroupsOnOneRank, Effort::kDefault, 8});
  return batches;
}

INSTANTIATE_TEST_SUITE_P(Families, OrdinaryBatchTest, ::testing::ValuesIn(OrdinaryBatches()),
                         [](const auto& tested) { return tested.param.name; });

// The request without dynamic_context whose groups have that one size; none if a pass can't have
// it.
std::optional<GeneratedRequest> OfOneSize(const GeneratedRequest& dynamic, uint32_t ranks) {
  GeneratedRequest fixed = dynamic;
  Topology& topology = fixed.options.topology;
  topology.dynamic_context.reset();
  topology.data_parallel = PoolOf(dynamic.options) / ranks;
  topology.context_parallel = ranks;
  for (size_t i = 0; i < fixed.options.passes.size(); ++i) {
    const auto sizes =
        GroupLimitsOf(dynamic.options.topology, dynamic.options.passes[i], "a pass").value();
    const auto own = std::ranges::find(sizes, ranks, &GroupLimits::ranks);
    if (own == sizes.end()) return std::nullopt;
    fixed.options.passes[i].max_tokens_per_microbatch = own->capacity;
    fixed.options.passes[i].buckets = own->buckets;
  }
  return fixed;
}

void ExpectNeverBehindOneSize(const GeneratedRequest& request) {
  const size_t lead = LeadOf(request.options);
  const auto plan = testing::MakeCheckedPlan(request.manifest(), request.options);
  if (!plan.ok() || !plan->excluded.empty()) return;
  const auto sizes =
      GroupLimitsOf(request.options.topology, request.options.passes[lead], "a pass").value();
  for (const GroupLimits& size : sizes) {
    if (PoolOf(request.options) % size.ranks != 0) continue;
    std::optional<GeneratedRequest> one = OfOneSize(request, size.ranks);
    if (!one) continue;
    // Of the same sequences, all of them whole.
    one->options.overlong = OverlongPolicy::kReject;
    const auto fixed = MakePlan(one->manifest(), one->options);
    if (!fixed.ok()) continue;
    EXPECT_LE(plan->passes[lead].metrics.predicted_step_time,
              fixed->passes[lead].metrics.predicted_step_time * (1 + kRounding))
        << "groups of " << size.ranks;
  }
}

TEST(EffortTest, GroupsThatDifferAreNeverBehindGroupsOfOneSize) {
  for (const uint64_t seed : testing::Seeds(1000)) {
    GeneratedRequest request = testing::GenerateDynamicRequest(seed);
    if (request.options.passes[0].sharding != Sharding::kBalanced) continue;
    request.options.effort = seed % 2 == 0 ? Effort::kFast : Effort::kDefault;
    ExpectNeverBehindOneSize(request);
    if (HasFailure()) FAIL() << "seed " << seed << "\n" << request.Describe();
  }
}

TEST(EffortTest, NorAreTheyOnPipelinesOfOrdinaryBatches) {
  for (const uint64_t seed : testing::Seeds(24)) {
    testing::RandomStream random(seed);
    GeneratedRequest request;
    PlanOptions& options = request.options;
    options.topology.data_parallel = random.OneOf<uint32_t>({8, 16, 32});
    options.topology.pipeline_parallel = random.OneOf<uint32_t>({2, 4, 8});
    options.topology.dynamic_context.emplace();
    options.synchronization =
        seed % 2 == 0 ? Synchronization::kLockstep : Synchronization::kAccumulated;
    options.effort = random.OneOf<Effort>({Effort::kFast, Effort::kDefault});
    options.cost_model.per_microbatch = 1024;
    options.cost_model.exchange = {{.up_to_size = 8, .per_token = 0.02},
                                   {.up_to_size = 0, .per_token = 0.065}};
    options.passes.push_back(PresetPass("balanced", options.topology).value());
    uint32_t& cap = options.passes[0].max_tokens_per_microbatch;
    switch (random.Between(0, 3)) {
      case 0:
        request.lengths = testing::MathsLengths(256, seed);
        cap = 4096;
        break;
      case 1:
        request.lengths = testing::LongCotLengths(256, seed);
        cap = 16384;
        break;
      case 2:
        request.lengths = testing::AgenticLengths(256, seed);
        cap = 8192;
        break;
      default:
        request.lengths = testing::ZipfLengths(256, seed);
        cap = 2048;
    }
    ExpectNeverBehindOneSize(request);
    if (HasFailure()) FAIL() << "seed " << seed << "\n" << request.Describe();
  }
}

// Whether there is a size of group that holds the sequences in every pass.
bool HaveACommonSize(const PlanOptions& options, const PassLimits& limits,
                     const std::vector<uint32_t>& lengths) {
  return std::ranges::any_of(limits.sizes.front(), [&](const GroupLimits& size) {
    if (PoolOf(options) % size.ranks != 0) return false;
    for (size_t pass = 0; pass < limits.sizes.size(); ++pass) {
      const auto own = std::ranges::find(limits.sizes[pass], size.ranks, &GroupLimits::ranks);
      if (own == limits.sizes[pass].end()) return false;
      uint64_t tokens = 0;
      for (const uint32_t length : lengths) {
        tokens += (length + own->multiple - 1) / own->multiple * own->multiple;
      }
      const uint32_t most = options.passes[pass].max_sequences_per_microbatch;
      if (tokens > own->widest_row() || (most > 0 && lengths.size() > most)) return false;
    }
    return true;
  });
}

// Where micro-batches may be empty, a slot for each sequence, or for each group that has to share a
// micro-batch, is a plan as soon as each has a size in which all passes hold it.
TEST(EffortTest, SeveralPassesArePlannedWhereverEachSequenceHasASizeInAll) {
  for (const uint64_t seed : testing::Seeds(3000)) {
    GeneratedRequest request = testing::GenerateDynamicRequest(seed);
    PlanOptions& options = request.options;
    if (options.passes.size() < 2) continue;
    options.effort = Effort::kFast;
    options.allow_empty_microbatches = true;
    options.overlong = OverlongPolicy::kReject;
    options.mini_batches.size = 0;
    options.mini_batches.group_count = 0;
    for (ContextExchange& exchange : options.cost_model.exchange) exchange.per_token = 0.1;
    const auto plan = testing::MakeCheckedPlan(request.manifest(), options);
    if (HasFailure()) FAIL() << "seed " << seed << "\n" << request.Describe();
    if (plan.ok()) continue;
    EXPECT_EQ(plan.status().message().find("set allow_empty_microbatches"), std::string::npos)
        << "seed " << seed << ": " << plan.status() << "\n"
        << request.Describe();
    const bool together = options.mini_batches.groups == GroupPolicy::kSameMicrobatch;
    if (options.mini_batches.groups != GroupPolicy::kIgnore && request.group_ids.empty()) continue;
    const absl::StatusOr<PassLimits> limits = PassLimitsOf(options);
    if (!limits.ok()) continue;
    std::map<uint32_t, std::vector<uint32_t>> items;
    for (uint32_t i = 0; i < request.lengths.size(); ++i) {
      items[together ? request.group_ids[i] : i].push_back(request.lengths[i]);
    }
    EXPECT_FALSE(std::ranges::all_of(
        items, [&](const auto& item) { return HaveACommonSize(options, *limits, item.second); }))
        << "seed " << seed << ": " << plan.status() << "\n"
        << request.Describe();
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace batchplan
