#include "server/planner/request/loads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "tests/support/owned_loads.h"

namespace batchplan {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::OwnedLoad;

// Four sequences. Load text has values, load images has items: two of sequence 0, one of 2 and
// three of 3.
struct LoadedRequest {
  std::vector<uint32_t> lengths = {5, 8, 3, 6};
  std::vector<OwnedLoad> loads = {{.name = "text", .values = {1, 2, 3, 4}},
                                  {.name = "images",
                                   .values = {7, 2, 5, 1, 4, 0},
                                   .has_items = true,
                                   .sequences = {0, 0, 2, 3, 3, 3}}};
  std::vector<uint32_t> kinds = {};
  PlanOptions options;
  // Changes the manifest at the end.
  std::function<void(Manifest&)> change = [](Manifest&) {};

  LoadedRequest() {
    options.passes.resize(2);
    options.passes[0].limits = {{"text", 10}};
    options.passes[1].limits = {{"images", 10}, {"text", 5}};
    options.cost_model.loads = {{.load = "text", .per_unit = 2, .separate = true},
                                {.load = "images", .per_unit = 1, .dealt = true}};
  }

  Manifest manifest() const {
    Manifest view{.lengths = lengths, .kinds = kinds};
    testing::ViewLoads(loads, &view);
    change(view);
    return view;
  }
};

struct RefusedLoads {
  std::string name;
  std::function<void(LoadedRequest&)> make;
  std::string message;
};

void PrintTo(const RefusedLoads& refusal, std::ostream* out) { *out << refusal.name; }

class RefusedLoadsTest : public ::testing::TestWithParam<RefusedLoads> {};

TEST_P(RefusedLoadsTest, NameFieldValueAndLimit) {
  LoadedRequest request;
  ASSERT_TRUE(CheckLoads(request.manifest(), request.options).ok());
  GetParam().make(request);
  const absl::Status status = CheckLoads(request.manifest(), request.options);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().message));
}

std::string NameOfLoads(const ::testing::TestParamInfo<RefusedLoads>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(
    Loads, RefusedLoadsTest,
    ::testing::Values(
        RefusedLoads{"TooMany", [](LoadedRequest& r) { r.loads.resize(9); },
                     "manifest.loads has 9 entries; the limit is 8"},
        RefusedLoads{"NameEmpty", [](LoadedRequest& r) { r.loads[0].name.clear(); },
                     "manifest.loads[0].name has 0 bytes; it must have 1 to 64"},
        RefusedLoads{"NameTooLong", [](LoadedRequest& r) { r.loads[1].name.assign(65, 'x'); },
                     "manifest.loads[1].name has 65 bytes; it must have 1 to 64"},
        RefusedLoads{"NameTwice",
                     [](LoadedRequest& r) {
                       r.loads.push_back({.name = "text", .values = {1, 1, 1, 1}});
                     },
                     "manifest.loads[2].name is \"text\", which an earlier load has"},
        RefusedLoads{
            "TooFewValues", [](LoadedRequest& r) { r.loads[0].values.pop_back(); },
            "manifest.loads[0].values of \"text\" has 3 entries; give one for each of the 4 "
            "sequences"},
        RefusedLoads{"NoValues", [](LoadedRequest& r) { r.loads[0].values.clear(); },
                     "manifest.loads[0].values of \"text\" has 0 entries; give one"},
        RefusedLoads{"ValuesBesideItems",
                     [](LoadedRequest& r) {
                       r.change = [&r](Manifest& m) { m.loads[1].values = r.loads[0].values; };
                     },
                     "manifest.loads[1].values of \"images\" has 4 entries; manifest.items has its "
                     "parts"},
        RefusedLoads{"NegativeValue", [](LoadedRequest& r) { r.loads[0].values[2] = -0.5; },
                     "manifest.loads[0].values[2] is -0.5; it must be finite, and at least 0"},
        RefusedLoads{"ValueThatIsNoNumber",
                     [](LoadedRequest& r) { r.loads[0].values[2] = std::nan(""); },
                     "manifest.loads[0].values[2] is nan; it must be finite"},
        RefusedLoads{"InfiniteValue", [](LoadedRequest& r) { r.loads[0].values[0] = HUGE_VAL; },
                     "manifest.loads[0].values[0] is inf; it must be finite"},
        RefusedLoads{"SumBeyondADouble",
                     [](LoadedRequest& r) {
                       r.loads[0].values.assign(4, std::numeric_limits<double>::max());
                     },
                     "manifest.loads[0].values add up to more than a double holds"}),
    NameOfLoads);

INSTANTIATE_TEST_SUITE_P(
    Items, RefusedLoadsTest,
    ::testing::Values(
        RefusedLoads{"OfNoLoad",
                     [](LoadedRequest& r) {
                       r.change = [](Manifest& m) { m.items.push_back({.load = "audio"}); };
                     },
                     "manifest.items[1].load is \"audio\", which none of manifest.loads is called"},
        RefusedLoads{
            "OfALoadTwice",
            [](LoadedRequest& r) {
              r.change = [](Manifest& m) { m.items.push_back({.load = "images"}); };
            },
            "manifest.items[1].load is \"images\", of which an earlier entry has the items"},
        RefusedLoads{"TwoSizes", [](LoadedRequest& r) { r.loads[1].sequences.pop_back(); },
                     "manifest.items[0].sequences has 5 entries, but values has 6"},
        RefusedLoads{"OfNoSequence", [](LoadedRequest& r) { r.loads[1].sequences[5] = 4; },
                     "manifest.items[0].sequences[5] is 4, but manifest.lengths has 4 sequences"},
        RefusedLoads{"Descend", [](LoadedRequest& r) { r.loads[1].sequences[4] = 2; },
                     "manifest.items[0].sequences[4] is 2, below the one before it, 3"},
        RefusedLoads{"NegativeItem", [](LoadedRequest& r) { r.loads[1].values[3] = -1; },
                     "manifest.items[0].values[3] is -1; it must be finite, and at least 0"},
        RefusedLoads{"ItemThatIsNoNumber",
                     [](LoadedRequest& r) { r.loads[1].values[3] = std::nan(""); },
                     "manifest.items[0].values[3] is nan; it must be finite"},
        RefusedLoads{"ItemsBeyondADouble",
                     [](LoadedRequest& r) {
                       r.loads[1].values.assign(6, std::numeric_limits<double>::max());
                     },
                     "manifest.items[0].values add up to more than a double holds"},
        RefusedLoads{"Kinds",
                     [](LoadedRequest& r) {
                       r.kinds = {0, 1, 0};
                     },
                     "manifest.kinds has 3 entries, but manifest.lengths has 4"}),
    NameOfLoads);

INSTANTIATE_TEST_SUITE_P(
    Costs, RefusedLoadsTest,
    ::testing::Values(
        RefusedLoads{"OfNoLoad",
                     [](LoadedRequest& r) { r.options.cost_model.loads[1].load = "audio"; },
                     "cost_model.loads[1].load is \"audio\", but manifest.loads has \"text\", "
                     "\"images\""},
        RefusedLoads{"OfNoLoads", [](LoadedRequest& r) { r.loads.clear(); },
                     "cost_model.loads[0].load is \"text\", but manifest.loads has none"},
        RefusedLoads{"OfALoadTwice",
                     [](LoadedRequest& r) { r.options.cost_model.loads[1].load = "text"; },
                     "cost_model.loads[1].load is \"text\", which an earlier entry is of"},
        RefusedLoads{
            "DealtWithoutItems",
            [](LoadedRequest& r) { r.options.cost_model.loads[0].dealt = true; },
            "cost_model.loads[0].dealt is set, but manifest.items has no items of \"text\""},
        RefusedLoads{"SeparateOnPipelines",
                     [](LoadedRequest& r) { r.options.topology.pipeline_parallel = 4; },
                     "cost_model.loads[0].separate is set, but topology.pipeline_parallel is 4"},
        RefusedLoads{"DealtOnPipelines",
                     [](LoadedRequest& r) {
                       r.options.topology.pipeline_parallel = 4;
                       r.options.cost_model.loads[0].separate = false;
                     },
                     "cost_model.loads[1].dealt is set, but topology.pipeline_parallel is 4"},
        RefusedLoads{"OfPaddedRows",
                     [](LoadedRequest& r) { r.options.passes[1].layout = Layout::kPadded; },
                     "cost_model.loads is set, but passes[1] has the padded layout"},
        RefusedLoads{"WithDynamicContext",
                     [](LoadedRequest& r) { r.options.topology.dynamic_context.emplace(); },
                     "cost_model.loads is set beside topology.dynamic_context"}),
    NameOfLoads);

INSTANTIATE_TEST_SUITE_P(
    Limits, RefusedLoadsTest,
    ::testing::Values(
        RefusedLoads{"OfNoLoad",
                     [](LoadedRequest& r) { r.options.passes[1].limits[1].load = "audio"; },
                     "passes[1].limits[1].load is \"audio\", but manifest.loads has \"text\", "
                     "\"images\""},
        RefusedLoads{"OfALoadTwice",
                     [](LoadedRequest& r) { r.options.passes[1].limits[1].load = "images"; },
                     "passes[1].limits[1].load is \"images\", which an earlier entry is of"},
        RefusedLoads{"OfNothing",
                     [](LoadedRequest& r) { r.options.passes[0].limits[0].max_per_microbatch = 0; },
                     "passes[0].limits[0].max_per_microbatch is 0; it must be finite, and above 0"},
        RefusedLoads{
            "Infinite",
            [](LoadedRequest& r) { r.options.passes[0].limits[0].max_per_microbatch = HUGE_VAL; },
            "passes[0].limits[0].max_per_microbatch is inf; it must be finite"},
        RefusedLoads{"NoNumber",
                     [](LoadedRequest& r) {
                       r.options.passes[0].limits[0].max_per_microbatch = std::nan("");
                     },
                     "passes[0].limits[0].max_per_microbatch is nan; it must be finite"},
        RefusedLoads{"WithDynamicContext",
                     [](LoadedRequest& r) {
                       r.options.topology.dynamic_context.emplace();
                       r.options.cost_model.loads.clear();
                       r.options.passes[0].limits.clear();
                     },
                     "passes[1].limits is set beside topology.dynamic_context"},
        RefusedLoads{"KindsWithDynamicContext",
                     [](LoadedRequest& r) {
                       r.options.topology.dynamic_context.emplace();
                       r.options.cost_model.loads.clear();
                       for (PassOptions& pass : r.options.passes) pass.limits.clear();
                       r.options.passes[1].kinds_per_slot = KindsPerSlot::kAlike;
                     },
                     "passes[1].kinds_per_slot is set beside topology.dynamic_context"}),
    NameOfLoads);

TEST(LoadsTest, NamesAreEscaped) {
  LoadedRequest request;
  request.options.passes[0].limits[0].load = "a\"\n";
  EXPECT_THAT(std::string(CheckLoads(request.manifest(), request.options).message()),
              HasSubstr(R"(passes[0].limits[0].load is "a\"\n", but)"));
}

TEST(LoadsTest, LoadsWithoutOptionsGoWithDynamicContext) {
  LoadedRequest request;
  request.options.topology.dynamic_context.emplace();
  request.options.cost_model.loads.clear();
  for (PassOptions& pass : request.options.passes) pass.limits.clear();
  EXPECT_TRUE(CheckLoads(request.manifest(), request.options).ok());
}

TEST(LoadsTest, ItemsAddUpToSequences) {
  const LoadedRequest request;
  const Manifest manifest = request.manifest();
  const Loads loads(manifest);
  ASSERT_EQ(loads.size(), 2u);
  EXPECT_FALSE(loads.empty());
  EXPECT_EQ(loads.name(1), "images");
  EXPECT_EQ(loads.NumberOf("images"), 1u);
  EXPECT_THAT(loads.values(0), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(loads.values(1), ElementsAre(9, 0, 5, 5));
  EXPECT_EQ(loads.Of(1, SequenceIndex(2)), 5);
  EXPECT_FALSE(loads.has_items(0));
  ASSERT_TRUE(loads.has_items(1));
  EXPECT_EQ(loads.item_count(1), 6u);
  EXPECT_EQ(loads.FirstItem(1, SequenceIndex(3)), 3u);
  EXPECT_THAT(loads.ItemsOf(1, SequenceIndex(0)), ElementsAre(7, 2));
  EXPECT_THAT(loads.ItemsOf(1, SequenceIndex(1)), IsEmpty());
  EXPECT_THAT(loads.ItemsOf(1, SequenceIndex(3)), ElementsAre(1, 4, 0));
}

TEST(LoadsTest, OfADealtLoadARankHasWhatTheDealLeavesIt) {
  const LoadedRequest request;
  const Manifest manifest = request.manifest();
  const Loads loads(manifest);
  EXPECT_EQ(loads.LargestOf(1, SequenceIndex(0), /*dealt_to=*/2), 7);
  EXPECT_EQ(loads.LargestOf(1, SequenceIndex(0), /*dealt_to=*/65536), 7);
  EXPECT_EQ(loads.LargestOf(1, SequenceIndex(0), /*dealt_to=*/1), 9);
  EXPECT_EQ(loads.LargestOf(1, SequenceIndex(0), /*dealt_to=*/0), 9);
  EXPECT_EQ(loads.LargestOf(1, SequenceIndex(1), /*dealt_to=*/2), 0);
  EXPECT_EQ(loads.LargestOf(0, SequenceIndex(3), /*dealt_to=*/0), 4);
}

TEST(LoadsTest, NoItemsAtAllAreALoadOfNothing) {
  LoadedRequest request;
  request.loads[1].values.clear();
  request.loads[1].sequences.clear();
  const Manifest manifest = request.manifest();
  ASSERT_TRUE(CheckLoads(manifest, request.options).ok());
  const Loads loads(manifest);
  EXPECT_THAT(loads.values(1), ElementsAre(0, 0, 0, 0));
  EXPECT_EQ(loads.item_count(1), 0u);
  EXPECT_THAT(loads.ItemsOf(1, SequenceIndex(3)), IsEmpty());
}

TEST(LoadsTest, TheFirstLimitThatASequenceExceedsByItself) {
  const LoadedRequest request;
  const Manifest manifest = request.manifest();
  const Loads loads(manifest);
  const auto exceeded = [&](const PlanOptions& options, uint32_t sequence) {
    return LimitExceededBy(loads, options, SequenceIndex(sequence));
  };
  EXPECT_FALSE(exceeded(request.options, 3));
  PlanOptions lower = request.options;
  lower.passes[1].limits[1].max_per_microbatch = 3.5;
  ASSERT_TRUE(exceeded(lower, 3));
  EXPECT_EQ(exceeded(lower, 3)->pass, 1u);
  EXPECT_EQ(exceeded(lower, 3)->load, 0u);
  EXPECT_THAT(exceeded(lower, 3)->value, DoubleEq(4));
  EXPECT_THAT(exceeded(lower, 3)->limit, DoubleEq(3.5));
  EXPECT_FALSE(exceeded(lower, 2));
  // A difference by rounding is none.
  lower.passes[1].limits[1].max_per_microbatch = 4 * (1 - 5e-10);
  EXPECT_FALSE(exceeded(lower, 3));
  lower.passes[1].limits[1].max_per_microbatch = 4 * (1 - 5e-9);
  EXPECT_TRUE(exceeded(lower, 3));
  // Two images of 9 together, the larger one of 7, on two ranks.
  lower = request.options;
  lower.topology.data_parallel = 2;
  lower.passes[1].limits[0].max_per_microbatch = 8;
  EXPECT_FALSE(exceeded(lower, 0));
  lower.cost_model.loads[1] = {.load = "images", .per_unit = 1, .separate = true};
  ASSERT_TRUE(exceeded(lower, 0));
  EXPECT_THAT(exceeded(lower, 0)->value, DoubleEq(9));
}

TEST(LoadsTaken, AreThoseOfTheSequencesTaken) {
  const LoadedRequest request;
  const Manifest manifest = request.manifest();
  const std::vector<SequenceIndex> sequences = {SequenceIndex(0), SequenceIndex(1),
                                                SequenceIndex(3)};
  const LoadsTaken taken(manifest, sequences);
  ASSERT_EQ(taken.loads().size(), 2u);
  EXPECT_EQ(taken.loads()[0].name, "text");
  EXPECT_THAT(taken.loads()[0].values, ElementsAre(1, 2, 4));
  EXPECT_THAT(taken.loads()[1].values, IsEmpty());
  ASSERT_EQ(taken.items().size(), 1u);
  EXPECT_EQ(taken.items()[0].load, "images");
  EXPECT_THAT(taken.items()[0].sequences, ElementsAre(0, 0, 2, 2, 2));
  EXPECT_THAT(taken.items()[0].values, ElementsAre(7, 2, 1, 4, 0));
  EXPECT_THAT(taken.OfAll("images", std::vector<uint32_t>{3, 1, 2, 5, 4}),
              ElementsAre(3, 1, 0, 2, 5, 4));
  const std::vector<uint32_t> lengths = {5, 8, 6};
  EXPECT_TRUE(CheckLoads({.lengths = lengths, .loads = taken.loads(), .items = taken.items()},
                         request.options)
                  .ok());
}

TEST(LoadsTaken, OfSequencesWithoutItemsThereAreNone) {
  const LoadedRequest request;
  const Manifest manifest = request.manifest();
  const std::vector<SequenceIndex> sequences = {SequenceIndex(1)};
  const LoadsTaken taken(manifest, sequences);
  EXPECT_THAT(taken.items()[0].values, IsEmpty());
  EXPECT_THAT(taken.OfAll("images", {}), ElementsAre(0, 0, 0, 0, 0, 0));
}

}  // namespace
}  // namespace batchplan
