// Workers of a pool whose context-parallel groups differ in size: what they pack and restore
// together, and which plans they refuse.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "batchplan/kernels.hpp"
#include "batchplan/worker_client.h"
#include "tests/client/cpp/dynamic_plans.h"
#include "tests/client/cpp/requests.h"
#include "tests/client/cpp/worker_fixture.h"

namespace batchplan {
namespace {

using ::testing::HasSubstr;

class WorkerGroupsTest : public WorkerFixture {};

INSTANTIATE_TEST_SUITE_P(EveryBackend, WorkerGroupsTest,
                         testing::Values(BATCHPLAN_BACKEND_HOST, BATCHPLAN_BACKEND_CUDA),
                         BackendName);

// Pools whose groups differ in size.
struct PoolSetting {
  const char* name;
  uint32_t data_parallel;
  uint32_t context_parallel;
  int sequences;
  uint32_t min_size = 0;
  uint32_t max_size = 0;
  uint32_t tensor_parallel = 1;
  uint32_t length_multiple = 1;
  uint32_t mini_batch_size = 0;
  batchplan_sharding sharding = BATCHPLAN_SHARDING_ZIGZAG;
  bool full_rows = false;
};

constexpr PoolSetting kPools[] = {
    {"four ranks", 2, 2, 40},
    {"eight ranks, mini-batches", 2, 4, 60, 0, 0, 1, 1, 20},
    {"six ranks, contiguous shards", 3, 2, 40, 0, 0, 1, 1, 0, BATCHPLAN_SHARDING_CONTIGUOUS},
    {"pairs at least, four at most", 4, 2, 40, 2, 4},
    {"sequence parallel, a multiple of its own", 2, 2, 40, 0, 0, 3, 5},
    {"fewer sequences than ranks", 4, 2, 3},
    {"rows of the capacity", 2, 2, 40, 0, 0, 1, 1, 0, BATCHPLAN_SHARDING_ZIGZAG, true},
    {"rows of the capacity, contiguous shards", 3, 2, 40, 0, 0, 1, 1, 0,
     BATCHPLAN_SHARDING_CONTIGUOUS, true},
};

v1::PlanBatchRequest PoolRequest(const PoolSetting& setting) {
  v1::PlanBatchRequest request = RequestOf(setting.sequences);
  request.clear_preset();
  v1::Topology& topology = *request.mutable_topology();
  topology.set_data_parallel(setting.data_parallel);
  topology.set_context_parallel(setting.context_parallel);
  topology.set_tensor_parallel(setting.tensor_parallel);
  topology.set_sequence_parallel(setting.tensor_parallel > 1);
  topology.mutable_dynamic_context()->set_min_size(setting.min_size);
  topology.mutable_dynamic_context()->set_max_size(setting.max_size);
  request.mutable_mini_batches()->set_size(setting.mini_batch_size);
  request.set_allow_empty_microbatches(true);
  request.mutable_passes(0)->set_length_multiple(setting.length_multiple);
  if (setting.full_rows) {
    request.mutable_passes(0)->mutable_packed()->set_rows(v1::ROW_PADDING_CAPACITY);
  }
  return request;
}

// The handmade plan for every rank of the pool.
std::vector<WorkerPlan> PlansOfPool(const v1::PlanBatchRequest& request, uint32_t ranks,
                                    const std::function<WorkerOptions(uint32_t)>& options) {
  const v1::PlanBatchResponse answer = DynamicPlanOf(request);
  std::vector<WorkerPlan> plans;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    auto worker = WorkerClient::Create(Client(MakeInProcessConnection()), options(rank));
    EXPECT_TRUE(worker.ok()) << worker.status();
    auto plan = worker->UsePlan(request, answer);
    EXPECT_TRUE(plan.ok()) << plan.status();
    plans.push_back(*std::move(plan));
  }
  return plans;
}

TEST_P(WorkerGroupsTest, GroupsThatDifferInSizeShareEverySequenceAndRestoreIt) {
  for (const PoolSetting& setting : kPools) {
    SCOPED_TRACE(setting.name);
    const uint32_t ranks = setting.data_parallel * setting.context_parallel;
    const v1::PlanBatchRequest request = PoolRequest(setting);
    const NumberedBatch batch(GetParam(), request);
    const std::vector<WorkerPlan> plans = PlansOfPool(request, ranks, [&](uint32_t rank) {
      WorkerOptions options = OptionsOf(rank, 0);
      options.sharding = setting.sharding;
      return options;
    });
    std::vector<int> seen(batch.numbers.size() + 1);
    std::vector<int64_t> sum(batch.numbers.size());
    std::vector<double> sums_of_sequences(batch.lengths.size());
    auto whole = Shared<int64_t>(batch.numbers.size(), 0);
    std::set<uint32_t> sizes;
    for (size_t m = 0; m < plans[0].microbatches().size(); ++m) {
      for (uint32_t first = 0; first < ranks;) {
        const uint32_t size = plans[first].microbatches()[m].context_parallel;
        const size_t shard = plans[first].microbatches()[m].row_width_per_rank;
        sizes.insert(size);
        ASSERT_LE(shard, 1024 / setting.context_parallel);
        auto gathered = Shared<int64_t>(shard * size, -1);
        for (uint32_t place = 0; place < size; ++place) {
          const WorkerPlan& plan = plans[first + place];
          const WorkerMicrobatch& microbatch = plan.microbatches()[m];
          ASSERT_EQ(microbatch.index, plans[first].microbatches()[m].index);
          ASSERT_EQ(microbatch.context_parallel_rank, place);
          ASSERT_EQ(microbatch.first_rank, first);
          ASSERT_EQ(microbatch.row_width, shard * size);
          auto numbers = Shared<int64_t>(shard, -1);
          auto next_numbers = Shared<int64_t>(shard, -1);
          auto positions = Shared<int32_t>(shard, -1);
          ASSERT_TRUE(plan.Pack(microbatch,
                                {kernels::Tokens(batch.numbers.data(), numbers.data(), batch.width),
                                 kernels::NextTokens(batch.numbers.data(), next_numbers.data(),
                                                     batch.width, -100),
                                 kernels::PositionIds(positions.data())})
                          .ok());
          auto restored = Shared<int64_t>(batch.numbers.size(), 0);
          ASSERT_TRUE(plan.Unpack(microbatch, {kernels::Tokens<int64_t>(
                                                  numbers.data(), restored.data(), batch.width)})
                          .ok());
          auto own_sums = Shared<float>(microbatch.num_sequences(), -1);
          batchplan_reduction reduction = {};
          reduction.values = numbers.data();
          reduction.value_type = BATCHPLAN_INT64;
          reduction.sums = own_sums.data();
          ASSERT_TRUE(plan.Reduce(microbatch, reduction).ok());
          ASSERT_TRUE(plan.CheckErrors().ok());
          for (size_t i = 0; i < shard; ++i) {
            gathered.data()[place * shard + i] = numbers[i];
            if (numbers[i] == 0) continue;
            const size_t number = static_cast<size_t>(numbers[i]) - 1;
            ++seen[number];
            ASSERT_EQ(positions[i], static_cast<int32_t>(number % batch.width));
            const bool last = number % batch.width + 1 == batch.lengths[number / batch.width];
            ASSERT_EQ(next_numbers[i], last ? -100 : static_cast<int64_t>(number + 2));
          }
          for (size_t i = 0; i < sum.size(); ++i) sum[i] += restored[i];
          for (uint32_t s = 0; s < microbatch.num_sequences(); ++s) {
            sums_of_sequences[microbatch.sequence_index[s]] += own_sums[s];
          }
        }
        // Any rank of the group would do.
        const WorkerPlan& last = plans[first + size - 1];
        ASSERT_TRUE(
            last.Unpack(last.microbatches()[m],
                        {kernels::Tokens<int64_t>(gathered.data(), whole.data(), batch.width)}, {},
                        RowPart::kAllRanks)
                .ok());
        ASSERT_TRUE(last.CheckErrors().ok());
        first += size;
      }
    }
    for (size_t place = 0; place < batch.numbers.size(); ++place) {
      ASSERT_EQ(seen[place], batch.numbers[place] != 0 ? 1 : 0) << place;
    }
    EXPECT_EQ(sum, batch.numbers.ToVector());
    EXPECT_EQ(whole.ToVector(), batch.numbers.ToVector());
    for (size_t s = 0; s < sums_of_sequences.size(); ++s) {
      const double length = batch.lengths[s];
      const double expected =
          length * (static_cast<double>(s * batch.width + 1) + (length - 1) / 2);
      ASSERT_NEAR(sums_of_sequences[s], expected, expected * 1e-6) << "sequence " << s;
    }
    EXPECT_GT(sizes.size(), setting.sequences > 10 ? 1U : 0U) << "groups that do not differ";
  }
}

TEST_P(WorkerGroupsTest, LayoutOfAGroupIsAlignedForItsSize) {
  for (const PoolSetting& setting : kPools) {
    SCOPED_TRACE(setting.name);
    const uint32_t ranks = setting.data_parallel * setting.context_parallel;
    for (const WorkerPlan& plan : PlansOfPool(PoolRequest(setting), ranks,
                                              [](uint32_t rank) { return OptionsOf(rank, 0); })) {
      ASSERT_TRUE(plan.CheckErrors().ok());
      for (const WorkerMicrobatch& microbatch : plan.microbatches()) {
        const uint32_t size = microbatch.context_parallel;
        EXPECT_EQ(
            microbatch.length_multiple,
            std::lcm(setting.length_multiple, (size > 1 ? 2 * size : 1) * setting.tensor_parallel));
        uint32_t longest = 0;
        for (uint32_t s = 0; s < microbatch.num_sequences(); ++s) {
          const auto padded = static_cast<uint32_t>(microbatch.cu_seqlens_padded[s + 1] -
                                                    microbatch.cu_seqlens_padded[s]);
          EXPECT_EQ(padded % microbatch.length_multiple, 0U);
          EXPECT_LT(padded - microbatch.sequence_lengths[s], microbatch.length_multiple);
          EXPECT_EQ(microbatch.cu_seqlens_padded_per_rank[s + 1] * static_cast<int32_t>(size),
                    microbatch.cu_seqlens_padded[s + 1]);
          longest = std::max(longest, padded);
        }
        EXPECT_EQ(microbatch.max_seqlen_padded, longest);
        EXPECT_EQ(microbatch.row_width_per_rank * size, microbatch.row_width);
      }
    }
  }
}

// The worker's result for the handmade plan of `setting` after `spoil` has changed it.
absl::StatusOr<WorkerPlan> UseSpoiled(const PoolSetting& setting,
                                      const std::function<void(v1::PassPlan&)>& spoil,
                                      const WorkerOptions& options = {}) {
  const v1::PlanBatchRequest request = PoolRequest(setting);
  v1::PlanBatchResponse answer = DynamicPlanOf(request);
  spoil(*answer.mutable_passes(0));
  const auto worker = WorkerClient::Create(Client(MakeInProcessConnection()), options);
  EXPECT_TRUE(worker.ok()) << worker.status();
  return worker->UsePlan(request, answer);
}

std::string ComplaintOfPool(const PoolSetting& setting,
                            const std::function<void(v1::PassPlan&)>& spoil) {
  const absl::Status status = UseSpoiled(setting, spoil).status();
  EXPECT_TRUE(absl::IsInternal(status)) << status;
  return std::string(status.message());
}

TEST(WorkerGroupsCheck, GroupsThatDoNotDivideThePoolAreNamed) {
  const PoolSetting& four = kPools[0];
  // Slots of 4; 2, 1, 1; 1, 1, 1, 1; and so on.
  EXPECT_THAT(ComplaintOfPool(four, [](v1::PassPlan& p) { p.clear_context_sizes(); }),
              HasSubstr("context_sizes has 0 entries, but row_widths has"));
  EXPECT_THAT(ComplaintOfPool(four, [](v1::PassPlan& p) { p.set_context_sizes(0, 3); }),
              HasSubstr("context_sizes[0] is 3; must be one of 1, 2, 4"));
  EXPECT_THAT(ComplaintOfPool(four, [](v1::PassPlan& p) { p.set_context_sizes(0, 0); }),
              HasSubstr("context_sizes[0] is 0; must be"));
  EXPECT_THAT(ComplaintOfPool(four, [](v1::PassPlan& p) { p.set_context_sizes(0, 8); }),
              HasSubstr("context_sizes[0] is 8; must be"));
  EXPECT_THAT(ComplaintOfPool(four, [](v1::PassPlan& p) { p.set_context_sizes(0, 2); }),
              HasSubstr("context_sizes"));
  EXPECT_THAT(ComplaintOfPool(four,
                              [](v1::PassPlan& p) {
                                p.set_context_sizes(1, 1);
                                p.set_context_sizes(2, 2);
                              }),
              HasSubstr("context_sizes[2] is 2, but its group would begin at rank 1 of 4"));
  EXPECT_THAT(ComplaintOfPool(four, [](v1::PassPlan& p) { p.add_microbatches_per_rank(1); }),
              HasSubstr("but context_sizes make"));
  EXPECT_THAT(ComplaintOfPool(kPools[3], [](v1::PassPlan& p) { p.set_context_sizes(0, 8); }),
              HasSubstr("context_sizes[0] is 8; must be one of 2, 4"));
}

TEST(WorkerGroupsCheck, RowsThatAGroupCanNotHoldAreNamed) {
  const PoolSetting& four = kPools[0];
  EXPECT_THAT(ComplaintOfPool(four, [](v1::PassPlan& p) { p.set_row_widths(0, 2056); }),
              HasSubstr("more than the 2048 tokens of 4 ranks"));
  EXPECT_THAT(ComplaintOfPool(four, [](v1::PassPlan& p) { p.set_row_widths(0, 2044); }),
              HasSubstr("row_widths[0] is 2044, not a multiple of 8"));
  // In the second slot rank 2 is alone, with half the budget of two ranks.
  EXPECT_THAT(ComplaintOfPool(four, [](v1::PassPlan& p) { p.set_row_widths(2, 513); }),
              HasSubstr("more than the 512 tokens of 1 ranks"));
  EXPECT_THAT(ComplaintOfPool(four, [](v1::PassPlan& p) { p.set_row_widths(0, 0); }),
              HasSubstr("row_widths[0] is 0, too narrow"));
  EXPECT_THAT(ComplaintOfPool(four, [](v1::PassPlan& p) { p.set_length_multiple(8); }),
              HasSubstr("length_multiple is 8, but the request makes it 1"));
}

TEST(WorkerGroupsCheck, GroupsThatNobodyAskedForAreRefused) {
  v1::PlanBatchRequest request = PoolRequest(kPools[0]);
  const v1::PlanBatchResponse answer = DynamicPlanOf(request);
  request.mutable_topology()->clear_dynamic_context();
  const auto worker = WorkerClient::Create(Client(MakeInProcessConnection()), {});
  const absl::Status status = worker->UsePlan(request, answer).status();
  EXPECT_TRUE(absl::IsInternal(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("but the request has no dynamic_context"));
}

TEST(WorkerGroupsCheck, RankThatIsNotInThePoolIsNamed) {
  const auto message = [](const WorkerOptions& options) {
    const absl::Status status = UseSpoiled(
                                    kPools[0], [](v1::PassPlan&) {}, options)
                                    .status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(message({.data_parallel_rank = 4}),
              HasSubstr("data_parallel_rank is 4, but with dynamic_context the pool has 4 ranks"));
  EXPECT_THAT(message({.data_parallel_rank = 1, .context_parallel_rank = 1}),
              HasSubstr("context_parallel_rank is 1; must be 0 with dynamic_context"));
}

TEST(WorkerGroupsCheck, SliceOfARankIsItsPartOfThePlan) {
  const v1::PlanBatchRequest request = PoolRequest(kPools[1]);
  const v1::PlanBatchResponse answer = DynamicPlanOf(request);
  auto requirements = RequirementsOf(request, 0);
  ASSERT_TRUE(requirements.ok()) << requirements.status();
  for (uint32_t rank = 0; rank < 8; ++rank) {
    const WorkerOptions options = {.data_parallel_rank = rank};
    const auto whole = WorkerPlan::Create(answer.passes(0), *requirements, options);
    ASSERT_TRUE(whole.ok()) << whole.status();
    PassRequirements of_slice = *requirements;
    of_slice.data_parallel = 1;
    of_slice.may_drop = true;
    const auto slice = WorkerPlan::Create(SliceOf(answer, rank).passes(0), of_slice, options);
    ASSERT_TRUE(slice.ok()) << slice.status();
    ASSERT_EQ(slice->microbatches().size(), whole->microbatches().size());
    for (size_t m = 0; m < slice->microbatches().size(); ++m) {
      const WorkerMicrobatch& one = slice->microbatches()[m];
      const WorkerMicrobatch& same = whole->microbatches()[m];
      EXPECT_EQ(one.sequence_index, same.sequence_index);
      EXPECT_EQ(one.context_parallel, same.context_parallel);
      EXPECT_EQ(one.context_parallel_rank, same.context_parallel_rank);
      EXPECT_EQ(one.first_rank, same.first_rank);
      EXPECT_EQ(one.mini_batch, same.mini_batch);
      EXPECT_EQ(one.slot, same.slot);
    }
  }
}

TEST(WorkerGroupsCheck, TimingSaysTheGroupsSizeAndItsAlignedTokens) {
  const auto plan = UseSpoiled(kPools[0], [](v1::PassPlan&) {}, {.data_parallel_rank = 3});
  ASSERT_TRUE(plan.ok()) << plan.status();
  for (const WorkerMicrobatch& microbatch : plan->microbatches()) {
    const v1::MicrobatchTiming timing = plan->Timing(microbatch, 2.5);
    EXPECT_EQ(std::max(1U, timing.context_parallel()), microbatch.context_parallel);
    EXPECT_EQ(timing.tokens(),
              static_cast<uint64_t>(microbatch.cu_seqlens_padded[microbatch.num_sequences()]));
    EXPECT_EQ(timing.rank(), 3U);
  }
}

// Under the sanitizers, this proves that plans that pass the check stay within every array.
TEST(WorkerGroupsCheck, SpoiledGroupsAreRefusedOrPackWithinTheirBounds) {
  std::mt19937 random(5);
  const v1::PlanBatchRequest request = PoolRequest(kPools[1]);
  const v1::PlanBatchResponse answer = DynamicPlanOf(request);
  const std::vector<int32_t> batch(size_t{60} * 1000, 1);
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    v1::PlanBatchResponse spoiled = answer;
    auto& sizes = *spoiled.mutable_passes(0)->mutable_context_sizes();
    const auto position = static_cast<int>(random() % static_cast<uint32_t>(sizes.size()));
    const auto other = static_cast<int>(random() % static_cast<uint32_t>(sizes.size()));
    constexpr uint32_t kNumbers[] = {0, 1, 2, 3, 4, 8, 16, 0x80000000U, UINT32_MAX};
    switch (random() % 4) {
      case 0:
        sizes.SwapElements(position, other);
        break;
      case 1:
        sizes.Truncate(position);
        break;
      case 2:
        // Joins neighbouring groups.
        sizes.Set(position, sizes.Get(position) * 2);
        sizes.Set(other, sizes.Get(other) / 2);
        break;
      default:
        sizes.Set(position, kNumbers[random() % std::size(kNumbers)]);
    }
    const auto worker =
        WorkerClient::Create(Client(MakeInProcessConnection()),
                             {.data_parallel_rank = static_cast<uint32_t>(random() % 8)});
    const auto plan = worker->UsePlan(request, spoiled);
    if (!plan.ok()) {
      ++refused;
      EXPECT_TRUE(absl::IsInternal(plan.status())) << plan.status();
      continue;
    }
    for (const WorkerMicrobatch& microbatch : plan->microbatches()) {
      std::vector<int32_t> row(microbatch.row_width_per_rank);
      EXPECT_TRUE(plan->Pack(microbatch, {kernels::Tokens(batch.data(), row.data(), 1000)}).ok());
    }
  }
  EXPECT_GT(refused, 1000);
  EXPECT_LT(refused, 2000);
}

}  // namespace
}  // namespace batchplan
