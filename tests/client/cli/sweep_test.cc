#include "client/cli/reports/sweep.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tests/client/cli/canned_planner.h"

namespace batchplan::cli {
namespace {

v1::PlanBatchRequest Request() {
  v1::PlanBatchRequest request;
  request.mutable_manifest()->add_lengths(100);
  request.set_preset("nemo_rl_packing");
  request.mutable_topology()->set_context_parallel(2);
  request.mutable_topology()->set_tensor_parallel(3);
  request.add_passes()->set_max_tokens_per_microbatch(128);
  return request;
}

// "budget/DP/CP" of each point, with PP and VPP if there is a pipeline; the best point in brackets.
std::vector<std::string> Names(const std::vector<SweepPoint>& points) {
  std::vector<std::string> names;
  for (const SweepPoint& point : points) {
    std::string name =
        absl::StrCat(point.budget, "/", point.data_parallel, "/", point.context_parallel);
    if (point.pipeline_parallel > 1) {
      absl::StrAppend(&name, "/", point.pipeline_parallel, "/", point.virtual_pipeline);
    }
    names.push_back(point.best ? absl::StrCat("[", name, "]") : name);
  }
  return names;
}

Client UniformClient() {
  return MakeCannedClient([](const v1::PlanBatchRequest&) -> absl::StatusOr<v1::PlanMetrics> {
    return CannedMetrics(6, 1);
  });
}

TEST(Sweep, EveryCombinationIsAPointInOrder) {
  const SweepAxes axes{
      .budgets = {256, 128}, .data_parallel = {1, 2}, .context_parallel = {1, 2, 4}};
  EXPECT_EQ(axes.Points(), 12U);
  const std::vector<std::string> expected = {"[256/1/1]", "256/1/2", "256/1/4", "256/2/1",
                                             "256/2/2",   "256/2/4", "128/1/1", "128/1/2",
                                             "128/1/4",   "128/2/1", "128/2/2", "128/2/4"};
  EXPECT_EQ(Names(Sweep(UniformClient(), Request(), axes, 0)), expected);
}

TEST(Sweep, BudgetsOfAGpuGrowWithContextParallelism) {
  const SweepAxes axes{
      .budgets = {100, 2000000000}, .budgets_per_gpu = true, .context_parallel = {1, 2, 4}};
  const std::vector<SweepPoint> points = Sweep(UniformClient(), Request(), axes, 0);
  EXPECT_EQ(Names(points),
            (std::vector<std::string>{"[100/1/1]", "200/1/2", "400/1/4", "2000000000/1/1",
                                      "4000000000/1/2", "2000000000/1/4"}));
  EXPECT_EQ(points[5].figures.status().message(),
            "a budget of 2000000000 a GPU times context_parallel 4 is 8000000000 tokens; the limit "
            "is 4294967295");
}

TEST(Sweep, DataParallelRanksAreWhatIsLeftOfTheGpus) {
  // TP is 3.
  const SweepAxes axes{.context_parallel = {1, 2, 4}, .pipeline_parallel = {1, 2}, .gpus = 12};
  const std::vector<SweepPoint> points = Sweep(UniformClient(), Request(), axes, 0);
  EXPECT_EQ(Names(points), (std::vector<std::string>{"[128/4/1]", "128/2/1/2/1", "128/2/2",
                                                     "128/1/2/2/1", "128/1/4"}));
  for (const SweepPoint& point : points) EXPECT_EQ(point.gpus, 12);
  EXPECT_EQ(LeftOut(Request(), axes), std::vector<std::string>{"CP 4 x TP 3 x PP 2"});
  EXPECT_TRUE(LeftOut(Request(), {.context_parallel = {5}}).empty());
}

TEST(Sweep, ListsLeftOutAreTheRequestsOwn) {
  EXPECT_EQ(SweepAxes().Points(), 1U);
  const std::vector<SweepPoint> points = Sweep(UniformClient(), Request(), SweepAxes(), 0);
  EXPECT_EQ(Names(points), std::vector<std::string>{"[128/1/2]"});
  EXPECT_EQ(points[0].gpus, 1 * 2 * 3);
}

TEST(Sweep, StagesAndChunksAreSweptInnermost) {
  const SweepAxes axes{
      .context_parallel = {1, 2}, .pipeline_parallel = {2, 4}, .virtual_pipeline = {1, 2}};
  EXPECT_EQ(axes.Points(), 8U);
  const std::vector<SweepPoint> points = Sweep(UniformClient(), Request(), axes, 0);
  EXPECT_EQ(Names(points),
            (std::vector<std::string>{"[128/1/1/2/1]", "128/1/1/2/2", "128/1/1/4/1", "128/1/1/4/2",
                                      "128/1/2/2/1", "128/1/2/2/2", "128/1/2/4/1", "128/1/2/4/2"}));
  EXPECT_EQ(points[7].gpus, 1 * 2 * 3 * 4);
}

TEST(Sweep, WithAndWithoutAPipelineOneCostModelAndSynchronizationHold) {
  v1::PlanBatchRequest request = Request();
  request.mutable_pipeline()->set_transfer(5);
  std::vector<v1::PlanBatchRequest> asked;
  const Client client =
      MakeCannedClient([&](const v1::PlanBatchRequest& one) -> absl::StatusOr<v1::PlanMetrics> {
        asked.push_back(one);
        return CannedMetrics(6, 1);
      });
  Sweep(client, request, {.pipeline_parallel = {1, 4, 1}}, 0);
  ASSERT_EQ(asked.size(), 3U);
  for (const v1::PlanBatchRequest& one : asked) {
    EXPECT_EQ(one.cost_model().per_token(), 1);
    EXPECT_EQ(one.cost_model().per_microbatch(), 1024);
    EXPECT_EQ(one.synchronization(), v1::SYNCHRONIZATION_ACCUMULATED);
    // Without a pipeline, these options would be refused.
    EXPECT_EQ(one.has_pipeline(), one.topology().pipeline_parallel() == 4);
  }

  // What the request sets is kept; without a pipeline nothing is added.
  request.mutable_cost_model()->set_per_token(3);
  request.set_synchronization(v1::SYNCHRONIZATION_LOCKSTEP);
  const v1::PlanBatchRequest kept = WithOneYardstick(request, {.pipeline_parallel = {4}});
  EXPECT_EQ(kept.cost_model().per_microbatch(), 0);
  EXPECT_EQ(kept.synchronization(), v1::SYNCHRONIZATION_LOCKSTEP);
  EXPECT_FALSE(WithOneYardstick(Request(), {.pipeline_parallel = {1}}).has_cost_model());
}

TEST(Sweep, OfAPoolTheCommonCostsHaveItsExchange) {
  v1::PlanBatchRequest request = Request();
  request.mutable_topology()->mutable_dynamic_context();
  const v1::CostModel costs = WithOneYardstick(request, {.pipeline_parallel = {1, 2}}).cost_model();
  EXPECT_EQ(costs.per_microbatch(), 1024);
  ASSERT_EQ(costs.exchange_size(), 2);
  EXPECT_EQ(costs.exchange(0).up_to_size(), 8U);
  EXPECT_EQ(costs.exchange(1).per_token(), 0.065);
}

TEST(Sweep, WithoutAPipelineThereIsOneChunkAndTheSynchronizationOfThat) {
  v1::PlanBatchRequest request = Request();
  request.mutable_topology()->set_pipeline_parallel(4);
  const v1::PlanBatchRequest common = WithOneYardstick(request, {.pipeline_parallel = {1}});
  EXPECT_EQ(common.topology().pipeline_parallel(), 1U);

  request.mutable_pipeline()->set_group_size(8);
  request.mutable_pipeline()->set_schedule(v1::PIPELINE_SCHEDULE_INTERLEAVED);
  std::vector<std::string> asked;
  const Client client =
      MakeCannedClient([&](const v1::PlanBatchRequest& one) -> absl::StatusOr<v1::PlanMetrics> {
        asked.push_back(absl::StrCat(one.topology().pipeline_parallel(), "/",
                                     one.topology().virtual_pipeline(), "/",
                                     one.pipeline().group_size()));
        return CannedMetrics(6, 1);
      });
  Sweep(client, request, {.pipeline_parallel = {1, 4}, .virtual_pipeline = {1, 2}}, 0);
  EXPECT_EQ(asked, (std::vector<std::string>{"1/1/0", "4/1/0", "4/2/8"}));
}

TEST(Sweep, PointsCompareByGpuTimeATrueToken) {
  // DP 4 ends a step sooner than DP 2, but needs more than half the time.
  const Client client =
      MakeCannedClient([](const v1::PlanBatchRequest& request) -> absl::StatusOr<v1::PlanMetrics> {
        return CannedMetrics(request.topology().data_parallel() == 2 ? 6 : 4, 1);
      });
  const std::vector<SweepPoint> points =
      Sweep(client, Request(), {.budgets = {}, .data_parallel = {4, 2}, .context_parallel = {}}, 0);
  EXPECT_EQ(Names(points), (std::vector<std::string>{"128/4/2", "[128/2/2]"}));
  // DP x CP ranks, with CP 2.
  EXPECT_DOUBLE_EQ(GpuTimePerToken(points[0]), 4 * 4 * 2 / 100.0);
  EXPECT_DOUBLE_EQ(GpuTimePerToken(points[1]), 6 * 2 * 2 / 100.0);
  EXPECT_DOUBLE_EQ(
      GpuTimePerToken(Sweep(UniformClient(), Request(), {.pipeline_parallel = {3}}, 0)[0]),
      6 * 2 * 3 / 100.0);
}

TEST(Sweep, FewerMicrobatchesBreakTies) {
  const Client client =
      MakeCannedClient([](const v1::PlanBatchRequest& request) -> absl::StatusOr<v1::PlanMetrics> {
        return CannedMetrics(6, 1000 / request.passes(0).max_tokens_per_microbatch());
      });
  EXPECT_EQ(Names(Sweep(client, Request(),
                        {.budgets = {100, 200}, .data_parallel = {}, .context_parallel = {}}, 0)),
            (std::vector<std::string>{"100/1/2", "[200/1/2]"}));
}

TEST(Sweep, BudgetsAreThoseOfThePassAskedFor) {
  v1::PlanBatchRequest request = Request();
  *request.add_passes() = request.passes(0);
  std::vector<std::string> budgets;
  const Client client =
      MakeCannedClient([&](const v1::PlanBatchRequest& asked) -> absl::StatusOr<v1::PlanMetrics> {
        budgets.push_back(absl::StrCat(asked.passes(0).max_tokens_per_microbatch(), "/",
                                       asked.passes(1).max_tokens_per_microbatch()));
        return CannedMetrics(6, 1);
      });
  Sweep(client, request, {.budgets = {64, 256}, .data_parallel = {}, .context_parallel = {}}, 1);
  EXPECT_EQ(budgets, (std::vector<std::string>{"128/64", "128/256"}));
}

}  // namespace
}  // namespace batchplan::cli
