// Moves a batch's tensors through the micro-batches of every rank and back.

#include "batchplan/worker_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "batchplan/kernels.hpp"
#include "batchplan/microbatch_loads.h"
#include "batchplan/worker_client.h"
#include "tests/client/cpp/requests.h"
#include "tests/client/cpp/worker_fixture.h"

namespace batchplan {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

struct Setting {
  const char* name;
  uint32_t data_parallel;
  uint32_t context_parallel;
  int sequences;
  bool padded;
  uint32_t mini_batch_size = 0;
  batchplan_sharding sharding = BATCHPLAN_SHARDING_ZIGZAG;
};

constexpr Setting kSettings[] = {
    {"one rank", 1, 1, 40, false},
    {"four data-parallel ranks", 4, 1, 60, false},
    {"two by four", 2, 4, 50, false},
    {"padded", 2, 1, 40, true},
    {"padded, two by four", 2, 4, 40, true},
    {"mini-batches", 2, 2, 48, false, 12},
    {"mini-batches, padded", 2, 2, 48, true, 16},
    {"contiguous shards", 2, 4, 40, false, 0, BATCHPLAN_SHARDING_CONTIGUOUS},
    {"fewer sequences than ranks", 4, 2, 3, false},
    {"fewer sequences than ranks, padded", 4, 2, 3, true},
};

v1::PlanBatchRequest RequestFor(const Setting& setting) {
  v1::PlanBatchRequest request = RequestOf(setting.sequences);
  request.clear_preset();
  request.mutable_topology()->set_data_parallel(setting.data_parallel);
  request.mutable_topology()->set_context_parallel(setting.context_parallel);
  request.mutable_mini_batches()->set_size(setting.mini_batch_size);
  request.mutable_mini_batches()->set_order(v1::ORDER_SHUFFLED);
  request.set_allow_empty_microbatches(true);
  if (setting.padded) request.mutable_passes(0)->mutable_padded();
  return request;
}

// One rank's plan.
WorkerPlan PlanOf(const v1::PlanBatchRequest& request, const WorkerOptions& options) {
  const Client client(MakeInProcessConnection({.verify_plans = true}));
  auto worker = WorkerClient::Create(client, options);
  EXPECT_TRUE(worker.ok()) << worker.status();
  auto plan = worker->FetchPlan(request);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *std::move(plan);
}

class WorkerPlanTest : public WorkerFixture {};

INSTANTIATE_TEST_SUITE_P(EveryBackend, WorkerPlanTest,
                         testing::Values(BATCHPLAN_BACKEND_HOST, BATCHPLAN_BACKEND_CUDA),
                         BackendName);

TEST_P(WorkerPlanTest, EveryTokenIsPackedOnOneRankWithWhatBelongsToIt) {
  for (const Setting& setting : kSettings) {
    SCOPED_TRACE(setting.name);
    const v1::PlanBatchRequest request = RequestFor(setting);
    const NumberedBatch batch(GetParam(), request);
    auto per_sequence = Shared<float>(batch.lengths.size(), 0);
    std::iota(per_sequence.data(), per_sequence.data() + per_sequence.size(), 0.0F);

    std::vector<int> seen(batch.numbers.size() + 1);
    for (uint32_t dp = 0; dp < setting.data_parallel; ++dp) {
      for (uint32_t cp = 0; cp < setting.context_parallel; ++cp) {
        WorkerOptions options = OptionsOf(dp, cp);
        options.sharding = setting.sharding;
        const WorkerPlan plan = PlanOf(request, options);
        for (const WorkerMicrobatch& microbatch : plan.microbatches()) {
          const size_t tokens = microbatch.row_width_per_rank;
          auto numbers = Shared<int64_t>(tokens, -1);
          auto next_numbers = Shared<int64_t>(tokens, -1);
          auto positions = Shared<int32_t>(tokens, -1);
          auto values = Shared<float>(tokens, -1);
          const absl::Status packed = plan.Pack(
              microbatch,
              {kernels::Tokens(batch.numbers.data(), numbers.data(), batch.width),
               kernels::NextTokens(batch.numbers.data(), next_numbers.data(), batch.width, -100),
               kernels::PositionIds(positions.data()),
               kernels::PerSequence(per_sequence.data(), values.data())});
          ASSERT_TRUE(packed.ok()) << packed;
          ASSERT_TRUE(plan.CheckErrors().ok());
          for (size_t i = 0; i < tokens; ++i) {
            if (numbers[i] == 0) continue;
            const size_t place = static_cast<size_t>(numbers[i]) - 1;
            const size_t sequence = place / batch.width;
            const size_t position = place % batch.width;
            ++seen[place];
            ASSERT_EQ(positions[i], static_cast<int32_t>(position));
            ASSERT_EQ(values[i], static_cast<float>(sequence));
            ASSERT_EQ(next_numbers[i], position + 1 < batch.lengths[sequence]
                                           ? static_cast<int64_t>(place + 2)
                                           : -100);
            ASSERT_THAT(microbatch.sequence_index,
                        testing::Contains(static_cast<uint32_t>(sequence)));
          }
        }
      }
    }
    for (size_t place = 0; place < batch.numbers.size(); ++place) {
      ASSERT_EQ(seen[place], batch.numbers[place] != 0 ? 1 : 0) << place;
    }
  }
}

TEST_P(WorkerPlanTest, UnpackingOnAllRanksRestoresTheBatch) {
  for (const Setting& setting : kSettings) {
    SCOPED_TRACE(setting.name);
    const v1::PlanBatchRequest request = RequestFor(setting);
    const NumberedBatch batch(GetParam(), request);
    // The sum over context-parallel ranks, each with its shard of every sequence.
    std::vector<int64_t> sum(batch.numbers.size());
    for (uint32_t cp = 0; cp < setting.context_parallel; ++cp) {
      auto restored = Shared<int64_t>(batch.numbers.size(), -1);
      for (uint32_t dp = 0; dp < setting.data_parallel; ++dp) {
        WorkerOptions options = OptionsOf(dp, cp);
        options.sharding = setting.sharding;
        const WorkerPlan plan = PlanOf(request, options);
        for (const WorkerMicrobatch& microbatch : plan.microbatches()) {
          auto row = Shared<int64_t>(microbatch.row_width_per_rank, -1);
          ASSERT_TRUE(plan.Pack(microbatch,
                                {kernels::Tokens(batch.numbers.data(), row.data(), batch.width)})
                          .ok());
          ASSERT_TRUE(plan.Unpack(microbatch, {kernels::Tokens<int64_t>(row.data(), restored.data(),
                                                                        batch.width)})
                          .ok());
        }
        ASSERT_TRUE(plan.CheckErrors().ok());
      }
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += restored[i];
    }
    EXPECT_EQ(sum, batch.numbers.ToVector());
  }
}

TEST_P(WorkerPlanTest, WhatSequencesShareIsPackedOnceAndUnpackedForEach) {
  const v1::PlanBatchRequest request = SharingRequestOf(40);
  NumberedBatch batch(GetParam(), request);
  for (size_t s = 0; s < batch.lengths.size(); ++s) {
    const auto begin = batch.numbers.data() + s / 5 * 5 * batch.width;
    std::copy_n(begin, request.manifest().shared_prefixes(static_cast<int>(s)),
                batch.numbers.data() + s * batch.width);
  }
  auto restored = Shared<int64_t>(batch.numbers.size(), 0);
  auto ones = Shared<float>(batch.numbers.size(), 1);
  uint64_t laid = 0;
  uint64_t true_tokens = 0;
  double gradients = 0;
  for (uint32_t dp = 0; dp < 2; ++dp) {
    const WorkerPlan plan = PlanOf(request, OptionsOf(dp, 0));
    for (const WorkerMicrobatch& microbatch : plan.microbatches()) {
      auto row = Shared<int64_t>(microbatch.row_width, -1);
      auto gradient = Shared<float>(microbatch.row_width, -1);
      ASSERT_TRUE(
          plan.Pack(microbatch, {kernels::Tokens(batch.numbers.data(), row.data(), batch.width)})
              .ok());
      ASSERT_TRUE(plan.Unpack(microbatch,
                              {kernels::Tokens<int64_t>(row.data(), restored.data(), batch.width)})
                      .ok());
      const absl::Status summed = plan.UnpackGradient(microbatch, {.data_type = BATCHPLAN_FLOAT32,
                                                                   .elements_per_token = 1,
                                                                   .width = batch.width,
                                                                   .source = ones.data(),
                                                                   .destination = gradient.data()});
      ASSERT_TRUE(summed.ok()) << summed;
      ASSERT_TRUE(plan.CheckErrors().ok());
      // Every token must be in the row once.
      std::vector<int64_t> tokens;
      uint64_t own = 0;
      for (size_t k = 0; k < microbatch.num_sequences(); ++k) {
        own += microbatch.sequence_lengths[k] - microbatch.shared_tokens[k];
        true_tokens += microbatch.sequence_lengths[k];
      }
      for (size_t i = 0; i < own; ++i) {
        tokens.push_back(row[i]);
        gradients += gradient[i];
        EXPECT_GT(microbatch.subtree_end[i], static_cast<int32_t>(i));
      }
      std::sort(tokens.begin(), tokens.end());
      EXPECT_TRUE(std::adjacent_find(tokens.begin(), tokens.end()) == tokens.end());
      const v1::MicrobatchTiming timing = plan.Timing(microbatch, 1);
      EXPECT_EQ(timing.tokens(), own);
      EXPECT_LE(timing.tokens_squared(), own * own);
      laid += own;
    }
  }
  EXPECT_EQ(restored.ToVector(), batch.numbers.ToVector());
  EXPECT_EQ(gradients, static_cast<double>(true_tokens));
  EXPECT_LT(laid, true_tokens);
}

TEST_P(WorkerPlanTest, RowsThatShareTokensAreNotDividedAmongRanks) {
  v1::PlanBatchRequest request = SharingRequestOf(40);
  request.mutable_topology()->set_context_parallel(2);
  auto worker = WorkerClient::Create(Client(MakeInProcessConnection()), OptionsOf(0, 0));
  const absl::Status status = worker->FetchPlan(request).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
}

TEST_P(WorkerPlanTest, GatheredRowsAreUnpackedWhole) {
  const v1::PlanBatchRequest request = RequestFor({"", 2, 4, 50, false});
  const NumberedBatch batch(GetParam(), request);
  auto restored = Shared<int64_t>(batch.numbers.size(), -1);
  for (uint32_t dp = 0; dp < 2; ++dp) {
    std::vector<WorkerPlan> ranks;
    for (uint32_t cp = 0; cp < 4; ++cp) ranks.push_back(PlanOf(request, OptionsOf(dp, cp)));
    for (size_t m = 0; m < ranks[0].microbatches().size(); ++m) {
      const size_t shard = ranks[0].microbatches()[m].row_width_per_rank;
      auto gathered = Shared<int64_t>(shard * 4, -1);
      for (uint32_t cp = 0; cp < 4; ++cp) {
        ASSERT_TRUE(ranks[cp]
                        .Pack(ranks[cp].microbatches()[m],
                              {kernels::Tokens(batch.numbers.data(), gathered.data() + cp * shard,
                                               batch.width)})
                        .ok());
      }
      ASSERT_TRUE(
          ranks[0]
              .Unpack(ranks[0].microbatches()[m],
                      {kernels::Tokens<int64_t>(gathered.data(), restored.data(), batch.width)}, {},
                      RowPart::kAllRanks)
              .ok());
    }
    ASSERT_TRUE(ranks[0].CheckErrors().ok());
  }
  EXPECT_EQ(restored.ToVector(), batch.numbers.ToVector());
}

TEST_P(WorkerPlanTest, RaggedBatchComesBackAsItWas) {
  const v1::PlanBatchRequest request = RequestFor({"", 2, 1, 40, false});
  const auto& lengths = request.manifest().lengths();
  auto offsets = Shared<int64_t>(static_cast<size_t>(lengths.size()) + 1, 0);
  for (int s = 0; s < lengths.size(); ++s) {
    offsets.data()[s + 1] = offsets[static_cast<size_t>(s)] + lengths[s];
  }
  const auto total = static_cast<size_t>(offsets[offsets.size() - 1]);
  // Three 16-bit elements a token.
  auto batch = Shared<uint16_t>(total * 3, 0);
  for (size_t i = 0; i < batch.size(); ++i) batch.data()[i] = static_cast<uint16_t>(i * 40503);
  auto restored = Shared<uint16_t>(total * 3, 0);
  const BatchTensors ragged = {.offsets = offsets.data(), .num_tokens = total};
  for (uint32_t dp = 0; dp < 2; ++dp) {
    const WorkerPlan plan = PlanOf(request, OptionsOf(dp, 0));
    for (const WorkerMicrobatch& microbatch : plan.microbatches()) {
      auto row = Shared<uint16_t>(size_t{microbatch.row_width_per_rank} * 3, 7);
      batchplan_field in = kernels::Tokens<uint16_t>(batch.data(), row.data(), 0);
      in.elements_per_token = 3;
      batchplan_field out = kernels::Tokens<uint16_t>(row.data(), restored.data(), 0);
      out.elements_per_token = 3;
      ASSERT_TRUE(plan.Pack(microbatch, {in}, ragged).ok());
      ASSERT_TRUE(plan.Unpack(microbatch, {out}, ragged).ok());
    }
    ASSERT_TRUE(plan.CheckErrors().ok());
  }
  EXPECT_EQ(restored.ToVector(), batch.ToVector());
}

TEST_P(WorkerPlanTest, MeansOfSequencesComeBackToTheBatchsOrder) {
  for (const Setting& setting : kSettings) {
    SCOPED_TRACE(setting.name);
    const v1::PlanBatchRequest request = RequestFor(setting);
    const NumberedBatch batch(GetParam(), request);
    // Denominators of whole sequences, since each rank has only a part.
    auto denominators = Shared<float>(batch.lengths.size(), 0);
    std::copy(batch.lengths.begin(), batch.lengths.end(), denominators.data());
    std::vector<double> sum(batch.lengths.size());
    for (uint32_t cp = 0; cp < setting.context_parallel; ++cp) {
      auto means = Shared<float>(batch.lengths.size(), -1);
      for (uint32_t dp = 0; dp < setting.data_parallel; ++dp) {
        WorkerOptions options = OptionsOf(dp, cp);
        options.sharding = setting.sharding;
        const WorkerPlan plan = PlanOf(request, options);
        for (const WorkerMicrobatch& microbatch : plan.microbatches()) {
          auto row = Shared<int64_t>(microbatch.row_width_per_rank, -1);
          auto own_denominators = Shared<float>(microbatch.num_sequences(), -1);
          auto own_means = Shared<float>(microbatch.num_sequences(), -1);
          ASSERT_TRUE(plan.Pack(microbatch,
                                {kernels::Tokens(batch.numbers.data(), row.data(), batch.width)})
                          .ok());
          ASSERT_TRUE(plan.GatherPerSequence(
                              microbatch,
                              {kernels::Tokens(denominators.data(), own_denominators.data(), 0)})
                          .ok());
          batchplan_reduction reduction = {};
          reduction.values = row.data();
          reduction.value_type = BATCHPLAN_INT64;
          reduction.denominators = own_denominators.data();
          reduction.means = own_means.data();
          const absl::Status reduced = plan.Reduce(microbatch, reduction);
          ASSERT_TRUE(reduced.ok()) << reduced;
          ASSERT_TRUE(plan.ScatterPerSequence(microbatch,
                                              {kernels::Tokens(own_means.data(), means.data(), 0)})
                          .ok());
        }
        ASSERT_TRUE(plan.CheckErrors().ok());
      }
      for (size_t s = 0; s < sum.size(); ++s) sum[s] += means[s];
    }
    for (size_t s = 0; s < sum.size(); ++s) {
      // The mean of `length` numbers from s * width + 1 on.
      const double mean = static_cast<double>(s * batch.width + 1) + (batch.lengths[s] - 1) / 2.0;
      ASSERT_NEAR(sum[s], mean, mean * 1e-6) << "sequence " << s;
    }
  }
}

TEST_P(WorkerPlanTest, LayoutIsOnTheBackendAndItsBoundsOnTheHost) {
  for (const Setting& setting : kSettings) {
    SCOPED_TRACE(setting.name);
    const WorkerPlan plan = PlanOf(RequestFor(setting), OptionsOf(0, 0));
    ASSERT_TRUE(plan.CheckErrors().ok());
    const auto multiple =
        static_cast<int32_t>(setting.context_parallel > 1 ? 2 * setting.context_parallel : 1);
    uint32_t mini_batch = 0;
    uint32_t slot = 0;
    for (const WorkerMicrobatch& microbatch : plan.microbatches()) {
      if (microbatch.mini_batch != mini_batch) {
        EXPECT_EQ(microbatch.mini_batch, mini_batch + 1);
        mini_batch = microbatch.mini_batch;
        slot = 0;
      }
      EXPECT_EQ(microbatch.slot, slot++);
      EXPECT_EQ(microbatch.row_width_per_rank * setting.context_parallel, microbatch.row_width);
      EXPECT_EQ(microbatch.context_parallel, setting.context_parallel);
      EXPECT_EQ(microbatch.context_parallel_rank, 0U);
      EXPECT_EQ(microbatch.first_rank, 0U);

      const uint32_t n = microbatch.num_sequences();
      uint32_t longest = 0;
      int32_t padded_longest = 0;
      for (uint32_t s = 0; s < n; ++s) {
        longest = std::max(longest, microbatch.sequence_lengths[s]);
        const int32_t padded =
            microbatch.cu_seqlens_padded[s + 1] - microbatch.cu_seqlens_padded[s];
        padded_longest = std::max(padded_longest, padded);
        EXPECT_EQ(microbatch.cu_seqlens[s + 1] - microbatch.cu_seqlens[s],
                  static_cast<int32_t>(microbatch.sequence_lengths[s]));
        EXPECT_EQ(padded % multiple, 0);
        EXPECT_EQ(setting.padded ? padded : 0, static_cast<int32_t>(microbatch.sequence_width));
        EXPECT_EQ(microbatch.cu_seqlens_padded_per_rank[s + 1] *
                      static_cast<int32_t>(setting.context_parallel),
                  microbatch.cu_seqlens_padded[s + 1]);
        EXPECT_EQ(microbatch.device_sequence_index[s], microbatch.sequence_index[s]);
      }
      EXPECT_LE(microbatch.cu_seqlens_padded[n], static_cast<int32_t>(microbatch.row_width));
      EXPECT_EQ(microbatch.max_seqlen, longest);
      EXPECT_EQ(microbatch.max_seqlen_padded, static_cast<uint32_t>(padded_longest));
    }
    EXPECT_EQ(plan.num_mini_batches(), mini_batch + 1);
    EXPECT_EQ(plan.num_sequences(), static_cast<uint32_t>(setting.sequences));
  }
}

TEST_P(WorkerPlanTest, EmptyMicrobatchIsPackedAndUnpackedLikeAnyOther) {
  const v1::PlanBatchRequest request = RequestFor({"", 4, 1, 3, false});
  const NumberedBatch batch(GetParam(), request);
  int empty = 0;
  for (uint32_t dp = 0; dp < 4; ++dp) {
    const WorkerPlan plan = PlanOf(request, OptionsOf(dp, 0));
    for (const WorkerMicrobatch& microbatch : plan.microbatches()) {
      if (microbatch.num_sequences() > 0) continue;
      ++empty;
      EXPECT_EQ(microbatch.row_width, 0U);
      EXPECT_EQ(microbatch.max_seqlen, 0U);
      auto restored = Shared<int64_t>(batch.numbers.size(), -1);
      auto total = Shared<float>(1, -1);
      const auto field = kernels::Tokens<int64_t>(batch.numbers.data(), nullptr, batch.width);
      EXPECT_TRUE(plan.Pack(microbatch, {field}).ok());
      const auto back = kernels::Tokens<int64_t>(nullptr, restored.data(), batch.width);
      EXPECT_TRUE(plan.Unpack(microbatch, {back}).ok());
      batchplan_reduction reduction = {};
      reduction.mean_total = total.data();
      const absl::Status reduced = plan.Reduce(microbatch, reduction);
      EXPECT_TRUE(reduced.ok()) << reduced;
      EXPECT_TRUE(plan.CheckErrors().ok());
      EXPECT_THAT(restored.ToVector(), Each(-1));
      EXPECT_EQ(total[0], 0);
    }
  }
  EXPECT_EQ(empty, 1);
}

TEST_P(WorkerPlanTest, DroppedSequencesAreLeftAlone) {
  v1::PlanBatchRequest request = RequestFor({"", 2, 1, 20, false});
  request.set_overlong(v1::OVERLONG_POLICY_DROP);
  request.mutable_manifest()->set_lengths(7, 5000);
  auto batch = Shared<int32_t>(size_t{20} * 5000, 1);
  auto restored = Shared<int32_t>(size_t{20} * 5000, -1);
  for (uint32_t dp = 0; dp < 2; ++dp) {
    const WorkerPlan plan = PlanOf(request, OptionsOf(dp, 0));
    for (const WorkerMicrobatch& microbatch : plan.microbatches()) {
      auto row = Shared<int32_t>(microbatch.row_width, -1);
      ASSERT_TRUE(plan.Pack(microbatch, {kernels::Tokens(batch.data(), row.data(), 5000, 0)}).ok());
      ASSERT_TRUE(
          plan.Unpack(microbatch, {kernels::Tokens(row.data(), restored.data(), 5000, 0)}).ok());
    }
    ASSERT_TRUE(plan.CheckErrors().ok());
  }
  for (size_t s = 0; s < 20; ++s) EXPECT_EQ(restored[s * 5000], s == 7 ? -1 : 1) << s;
}

TEST_P(WorkerPlanTest, FieldNarrowerThanASequenceIsReportedOnce) {
  const v1::PlanBatchRequest request = RequestFor({"", 1, 1, 10, false});
  const NumberedBatch batch(GetParam(), request);
  const WorkerPlan plan = PlanOf(request, OptionsOf(0, 0));
  for (const WorkerMicrobatch& microbatch : plan.microbatches()) {
    auto row = Shared<int64_t>(microbatch.row_width, -1);
    static_cast<void>(
        plan.Pack(microbatch, {kernels::Tokens(batch.numbers.data(), row.data(), 1)}));
    // The GPU may still be writing the row.
    ASSERT_EQ(batchplan_wait(GetParam(), nullptr), BATCHPLAN_OK);
  }
  const absl::Status found = plan.CheckErrors();
  EXPECT_TRUE(absl::IsInvalidArgument(found)) << found;
  EXPECT_THAT(std::string(found.message()),
              HasSubstr(batchplan_status_string(BATCHPLAN_ERROR_SEQUENCE_TOO_LONG)));
  EXPECT_TRUE(plan.CheckErrors().ok());
}

TEST_P(WorkerPlanTest, WrongFieldIsRefusedAtOnceAndTheMicrobatchNamed) {
  const WorkerPlan plan = PlanOf(RequestFor({"", 1, 1, 10, false}), OptionsOf(0, 0));
  const WorkerMicrobatch& microbatch = plan.microbatches()[1];
  auto row = Shared<int64_t>(microbatch.row_width, -1);
  batchplan_field field = kernels::Tokens<int64_t>(row.data(), row.data(), 1, 0);
  field.element_size = 3;
  const absl::Status packed = plan.Pack(microbatch, {field});
  EXPECT_TRUE(absl::IsInvalidArgument(packed)) << packed;
  EXPECT_THAT(std::string(packed.message()), HasSubstr("pack of micro-batch 1: "));
  const std::vector<batchplan_field> many(BATCHPLAN_MAX_FIELDS + 1, field);
  EXPECT_TRUE(absl::IsInvalidArgument(plan.Unpack(microbatch, many)));
  EXPECT_TRUE(absl::IsInvalidArgument(plan.GatherPerSequence(microbatch, many)));
  EXPECT_TRUE(plan.CheckErrors().ok()) << "what was refused leaves no error behind";
}

TEST_P(WorkerPlanTest, TimingsHaveTheLoadsOfTheirSequences) {
  v1::PlanBatchRequest request = RequestFor({"", 2, 1, 40, false});
  v1::Manifest& manifest = *request.mutable_manifest();
  manifest.add_loads()->set_name("frames");
  manifest.add_loads()->set_name("patches");
  v1::LoadItems& images = *manifest.add_items();
  images.set_load("patches");
  for (uint32_t i = 0; i < static_cast<uint32_t>(manifest.lengths_size()); ++i) {
    manifest.mutable_loads(0)->add_values(0.5 * i);
    for (uint32_t image = 0; image < i % 3; ++image) {
      images.add_sequences(i);
      images.add_values(100 + image);
    }
  }
  double frames = 0;
  double patches = 0;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    const WorkerPlan plan = PlanOf(request, OptionsOf(rank, 0));
    for (const WorkerMicrobatch& microbatch : plan.microbatches()) {
      const v1::MicrobatchTiming timing =
          plan.Timing(microbatch, 1, 0, LoadsOf(microbatch, manifest));
      ASSERT_EQ(timing.loads_size(), 2);
      std::array<double, 2> expected{};
      for (const uint32_t i : microbatch.sequence_index) {
        expected[0] += 0.5 * i;
        expected[1] += std::array{0, 100, 201}[i % 3];
      }
      EXPECT_DOUBLE_EQ(timing.loads(0), expected[0]);
      EXPECT_DOUBLE_EQ(timing.loads(1), expected[1]);
      frames += timing.loads(0);
      patches += timing.loads(1);
      EXPECT_EQ(plan.Timing(microbatch, 1).loads_size(), 0);
    }
  }
  EXPECT_DOUBLE_EQ(frames, 0.5 * 39 * 40 / 2);
  EXPECT_GT(patches, 0);
}

TEST_P(WorkerPlanTest, AllMemoryIsOneBlockAndGoesWithThePlan) {
  size_t allocated = 0;
  size_t freed = 0;
  int blocks = 0;
  WorkerOptions options = OptionsOf(0, 0);
  const WorkerAllocator memory = options.allocator;
  options.allocator.allocate = [&](size_t bytes) {
    ++blocks;
    allocated += bytes;
    return memory.allocate(bytes);
  };
  options.allocator.free = [&](void* block, size_t bytes) {
    freed += bytes;
    memory.free(block, bytes);
  };
  {
    WorkerPlan plan = PlanOf(RequestFor({"", 2, 2, 40, false}), options);
    ASSERT_TRUE(plan.CheckErrors().ok());
    const WorkerPlan moved = std::move(plan);
    EXPECT_EQ(blocks, 1);
    EXPECT_EQ(freed, 0U);
    // Its views moved with it.
    EXPECT_GT(moved.microbatches()[0].sequence_lengths[0], 0U);
    EXPECT_TRUE(moved.CheckErrors().ok());
  }
  EXPECT_EQ(blocks, 1);
  EXPECT_GT(allocated, 0U);
  EXPECT_EQ(freed, allocated);
}

}  // namespace
}  // namespace batchplan
