#include "server/planner/time/simulator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/checker/pipeline_events.h"
#include "server/planner/time/run_works.h"
#include "server/planner/time/wavefront.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using testing::RandomStream;

constexpr double kRounding = 1e-9;

// A machine, what it runs, and what that costs.
struct Job {
  Topology topology;
  PipelineOptions options;
  bool forward_only = false;
  std::vector<double> costs;

  Pipeline pipeline() const { return PipelineOf(topology, options, forward_only); }
  double Makespan() const {
    return PipelineSimulator(pipeline(), static_cast<uint32_t>(costs.size())).Makespan(costs);
  }
  std::string Describe() const {
    return absl::StrCat("PP ", topology.pipeline_parallel, " VPP ", topology.virtual_pipeline,
                        " group ", options.group_size, " ratio ", options.backward_ratio,
                        " transfer ", options.transfer, " shares ",
                        absl::StrJoin(options.stage_shares, ","), forward_only ? " forwards" : "",
                        " costs ", absl::StrJoin(costs, ","));
  }
};

Job Uniform(uint32_t stages, uint32_t chunks, uint32_t microbatches, double cost) {
  Job job;
  job.topology = {.pipeline_parallel = stages, .virtual_pipeline = chunks};
  job.costs.assign(microbatches, cost);
  return job;
}

Job RandomJob(RandomStream& random) {
  const auto stages = static_cast<uint32_t>(random.Between(1, 8));
  const auto chunks = static_cast<uint32_t>(stages == 1 ? 1 : random.Between(1, 4));
  Job job = Uniform(stages, chunks, 0, 0);
  uint64_t count = random.Between(1, 40);
  if (chunks > 1) {
    job.options.group_size = static_cast<uint32_t>(random.Between(stages, 2 * stages));
    count = job.options.group_size * random.Between(1, 4);
  }
  job.forward_only = random.Chance(25);
  job.options.backward_ratio = random.OneOf<double>({0, 0.5, 1, 2, 3.7});
  job.options.transfer = random.Chance(50) ? 0 : random.Uniform() * 300;
  if (random.Chance(50)) {
    for (uint32_t q = 0; q < stages * chunks; ++q) {
      job.options.stage_shares.push_back(0.25 + random.Uniform());
    }
  }
  for (uint64_t i = 0; i < count; ++i) {
    job.costs.push_back(random.Chance(10) ? 0 : random.Uniform() * 1000);
  }
  return job;
}

TEST(PipelineSimulatorTest, OfAlikeMicrobatchesTheTextbooksMakespans) {
  // Forward 1 and backward 2 a stage: (m + p - 1)(f + b).
  EXPECT_DOUBLE_EQ(Uniform(4, 1, 8, 12).Makespan(), 33);
  // The bubble is divided by the chunks: m(f + b) + (p - 1)(f + b) / v.
  EXPECT_DOUBLE_EQ(Uniform(4, 2, 8, 12).Makespan(), 28.5);
  EXPECT_DOUBLE_EQ(Uniform(4, 4, 16, 12).Makespan(), 48 + 9.0 / 4);
  Job forwards = Uniform(3, 1, 4, 6);
  forwards.forward_only = true;
  EXPECT_DOUBLE_EQ(forwards.Makespan(), 12);
}

TEST(PipelineSimulatorTest, WithoutAPipelineTheSum) {
  Job job = Uniform(1, 1, 3, 5);
  job.options.transfer = 7;
  EXPECT_DOUBLE_EQ(job.Makespan(), 15);
  EXPECT_DOUBLE_EQ(Uniform(4, 1, 0, 0).Makespan(), 0);
}

TEST(PipelineSimulatorTest, WorkedOutByHand) {
  // Stage 0: F 0-2, F 2-3, B 8-12, B 12-14. Stage 1: F 2-4, B 4-8, F 8-9, B 9-11.
  Job job = Uniform(2, 1, 0, 0);
  job.costs = {12, 6};
  EXPECT_DOUBLE_EQ(job.Makespan(), 14);
  // Stage 1: F 3-5, B 5-9, F 9-10, B 10-12. Stage 0: B 10-14, B 14-16.
  job.options.transfer = 1;
  EXPECT_DOUBLE_EQ(job.Makespan(), 16);
  // A third and two thirds. Stage 0: F 0-1, B 7-9. Stage 1: F 1-3, B 3-7.
  job = Uniform(2, 1, 1, 9);
  job.options.stage_shares = {1, 2};
  EXPECT_DOUBLE_EQ(job.Makespan(), 9);
  job.costs = {9, 9};
  // Stage 1: F 1-3, B 3-7, F 7-9, B 9-13; stage 0: B 7-9, B 13-15.
  EXPECT_DOUBLE_EQ(job.Makespan(), 15);
}

TEST(PipelineSimulatorTest, AgreesWithASimulationOfEvents) {
  for (const uint64_t seed : testing::Seeds(3000)) {
    RandomStream random(seed);
    const Job job = RandomJob(random);
    const double expected =
        checker::PipelineTime(job.topology, job.options, job.forward_only, job.costs);
    ASSERT_NEAR(job.Makespan(), expected, kRounding * (1 + expected)) << job.Describe();
  }
}

TEST(PipelineSimulatorTest, ManyWorksAreSimulatedPieceByPiece) {
  RandomStream random(1);
  for (const uint32_t chunks : {1, 3}) {
    Job job = Uniform(6, chunks, 18'000 / chunks, 0);
    job.options.transfer = 3;
    for (double& cost : job.costs) cost = random.Uniform();
    const double expected = checker::PipelineTime(job.topology, job.options, false, job.costs);
    EXPECT_NEAR(job.Makespan(), expected, kRounding * expected);
  }
}

// Backwards in the opposite order are forwards.
TEST(PipelineSimulatorTest, TakesAsLongTheOtherWayRound) {
  for (const uint64_t seed : testing::Seeds(1000)) {
    RandomStream random(seed);
    Job job = RandomJob(random);
    job.options.backward_ratio = random.OneOf<double>({0.5, 1, 2, 3.7});
    Job reversed = job;
    reversed.options.backward_ratio = 1 / job.options.backward_ratio;
    std::reverse(reversed.costs.begin(), reversed.costs.end());
    if (job.forward_only) {
      std::reverse(reversed.options.stage_shares.begin(), reversed.options.stage_shares.end());
    }
    const double expected = job.Makespan();
    ASSERT_NEAR(reversed.Makespan(), expected, kRounding * (1 + expected)) << job.Describe();
  }
}

TEST(PipelineSimulatorTest, IsNeverBelowItsBound) {
  for (const uint64_t seed : testing::Seeds(3000)) {
    RandomStream random(seed);
    const Job job = RandomJob(random);
    const double makespan = job.Makespan();
    ASSERT_LE(PipelineBound(job.pipeline(), job.costs), makespan * (1 + kRounding))
        << job.Describe();
  }
}

TEST(PipelineSimulatorTest, GrowsWithEveryCostAndScalesWithAll) {
  for (const uint64_t seed : testing::Seeds(1000)) {
    RandomStream random(seed);
    Job job = RandomJob(random);
    const double makespan = job.Makespan();
    Job twice = job;
    for (double& cost : twice.costs) cost *= 2;
    twice.options.transfer *= 2;
    ASSERT_EQ(twice.Makespan(), 2 * makespan) << job.Describe();
    job.costs[random.Between(0, job.costs.size() - 1)] += random.Uniform() * 100;
    ASSERT_GE(job.Makespan(), makespan) << job.Describe();
  }
}

// With forwards alone the way back through the stages, last micro-batch first, takes as long.
TEST(PipelineSimulatorTest, ATraceSaysWhatTheMakespanIsMadeOf) {
  for (const uint64_t seed : testing::Seeds(1000)) {
    RandomStream random(seed);
    Job job = RandomJob(random);
    job.options.transfer = 0;
    const auto count = static_cast<uint32_t>(job.costs.size());
    PipelineSimulator tracing(job.pipeline(), count, PipelineSimulator::Mode::kTrace);
    std::vector<double> weights(count);
    const double makespan = tracing.Makespan(job.costs, weights);
    ASSERT_EQ(makespan, job.Makespan()) << job.Describe();
    const auto of_weights = [&] {
      return std::inner_product(weights.begin(), weights.end(), job.costs.begin(), 0.0);
    };
    ASSERT_NEAR(of_weights(), makespan, kRounding * (1 + makespan)) << job.Describe();
    for (double& cost : job.costs) cost = random.Uniform() * 1000;
    ASSERT_LE(of_weights(), job.Makespan() * (1 + kRounding)) << job.Describe();
  }
}

TEST(PipelineSimulatorTest, FourListsAtOnceGiveWhatEachGivesAlone) {
  for (const uint64_t seed : testing::Seeds(1000)) {
    RandomStream random(seed);
    const Job job = RandomJob(random);
    const auto count = static_cast<uint32_t>(job.costs.size());
    PipelineSimulator simulator(job.pipeline(), count, PipelineSimulator::Mode::kTrace);
    std::vector<Four> costs(count);
    std::vector<std::vector<double>> lists(4, job.costs);
    for (size_t i = 1; i < 4; ++i) {
      for (double& cost : lists[i]) cost = random.Uniform() * 1000;
    }
    for (size_t k = 0; k < count; ++k)
      costs[k] = {{lists[0][k], lists[1][k], lists[2][k], lists[3][k]}};
    const Four makespans = simulator.Makespans(costs);
    std::vector<std::vector<double>> weights(4, std::vector<double>(count));
    simulator.TraceLists(std::vector<std::span<double>>(weights.begin(), weights.end()));
    std::vector<double> alone(count);
    for (size_t i = 0; i < 4; ++i) {
      ASSERT_EQ(makespans[i], simulator.Makespan(lists[i], alone)) << job.Describe();
      ASSERT_EQ(weights[i], alone) << job.Describe();
    }
  }
}

// Whichever of them this processor has.
TEST(PipelineSimulatorTest, VectorsOfTwoAndOfFourGiveTheSameBits) {
  for (const uint64_t seed : testing::Seeds(300)) {
    RandomStream random(seed);
    const Job job = RandomJob(random);
    const Pipeline pipeline = job.pipeline();
    const auto count = static_cast<uint32_t>(job.costs.size());
    const RunOrder order = RunOrderOf(pipeline, count);
    Wavefront wavefront(pipeline, order, count, /*all=*/true);
    std::vector<PipelineWork> works(2 * count * pipeline.virtual_stages() + pipeline.stages);
    works.resize(wavefront.Next(works).size());
    std::vector<double> shares(2 * pipeline.virtual_stages());
    for (double& share : shares) share = random.Uniform();
    std::vector<double> costs = job.costs;
    std::vector<Four> costs_of_four;
    for (const double cost : costs) costs_of_four.push_back({{cost, 2 * cost, 1, cost}});
    std::vector<double> free_of_one(pipeline.stages);
    std::vector<double> ends(wavefront.ends());
    RunWorks(works, {.costs = costs,
                     .shares = shares,
                     .transfer = pipeline.transfer,
                     .free = free_of_one,
                     .ends = ends});
    for (const bool vectors_of_four : {false, HasVectorsOfFour()}) {
      std::vector<Four> free(pipeline.stages);
      std::vector<Four> ends_of_four(wavefront.ends());
      RunWorks(works,
               {.costs = costs_of_four,
                .shares = shares,
                .transfer = pipeline.transfer,
                .free = free,
                .ends = ends_of_four},
               vectors_of_four);
      for (size_t work = 0; work < ends.size(); ++work) {
        ASSERT_EQ(ends_of_four[work][0], ends[work]) << job.Describe();
        ASSERT_EQ(ends_of_four[work][3], ends[work]) << job.Describe();
      }
    }
  }
}

TEST(PipelineSimulatorTest, ASimulatorIsUsedAgain) {
  const std::vector<double> costs = {3, 1, 4, 1, 5, 9};
  PipelineSimulator simulator(Uniform(3, 2, 6, 1).pipeline(), 6);
  const double first = simulator.Makespan(costs);
  EXPECT_GT(simulator.Makespan(std::vector<double>(6, 9)), first);
  EXPECT_EQ(simulator.Makespan(costs), first);
}

}  // namespace
}  // namespace batchplan
