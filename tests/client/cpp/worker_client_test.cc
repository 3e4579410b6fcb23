#include "batchplan/worker_client.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "batchplan/client.h"
#include "tests/client/cpp/fake_server.h"
#include "tests/client/cpp/requests.h"
#include "tests/support/test_server.h"

namespace batchplan {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<WorkerPlan> Fetch(Client client, const v1::PlanBatchRequest& request,
                                 const WorkerOptions& options = {}, int pass = 0) {
  const auto worker = WorkerClient::Create(std::move(client), options);
  if (!worker.ok()) return worker.status();
  return worker->FetchPlan(request, pass);
}

std::vector<uint32_t> SequencesOf(const WorkerPlan& plan) {
  std::vector<uint32_t> sequences;
  for (const WorkerMicrobatch& microbatch : plan.microbatches()) {
    sequences.insert(sequences.end(), microbatch.sequence_index.begin(),
                     microbatch.sequence_index.end());
  }
  return sequences;
}

// Plans requests for fitted costs with the default costs.
class FittedConnection final : public Connection {
 public:
  absl::StatusOr<v1::PlanBatchResponse> PlanBatch(const v1::PlanBatchRequest& request,
                                                  const CallOptions& options) override {
    v1::PlanBatchRequest literal = request;
    literal.clear_cost_model();
    return in_process_->PlanBatch(literal, options);
  }
  absl::StatusOr<v1::JoinBatchResponse> JoinBatch(const v1::JoinBatchRequest& request,
                                                  const CallOptions& options) override {
    return in_process_->JoinBatch(request, options);
  }
  absl::StatusOr<v1::ReportStepResponse> ReportStep(const v1::ReportStepRequest& request,
                                                    const CallOptions& options) override {
    return in_process_->ReportStep(request, options);
  }

 private:
  std::shared_ptr<Connection> in_process_ = MakeInProcessConnection();
};

TEST(WorkerClient, PlansByCostsThatOnlyTheServerKnowsAreChecked) {
  v1::PlanBatchRequest request = RequestOf(200);
  request.mutable_cost_model()->set_fitted(true);
  const auto plan = Fetch(Client(std::make_shared<FittedConnection>()), request);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_FALSE(plan->microbatches().empty());
}

TEST(WorkerClient, RanksOfOneServerShareTheBatchAmongThem) {
  const TestServer server;
  const Client client(MakeRemoteConnection(server.target()));
  const v1::PlanBatchRequest request = RequestOf(200);
  std::vector<uint32_t> sequences;
  std::string fingerprint;
  size_t microbatches = 0;
  for (uint32_t rank = 0; rank < 4; ++rank) {
    const auto plan = Fetch(client, request, {.data_parallel_rank = rank});
    ASSERT_TRUE(plan.ok()) << plan.status();
    if (rank == 0) {
      fingerprint = plan->fingerprint();
      microbatches = plan->microbatches().size();
    }
    EXPECT_EQ(plan->fingerprint(), fingerprint);
    EXPECT_EQ(plan->microbatches().size(), microbatches);
    for (const uint32_t sequence : SequencesOf(*plan)) sequences.push_back(sequence);
  }
  std::vector<uint32_t> all(200);
  for (uint32_t i = 0; i < 200; ++i) all[i] = i;
  EXPECT_THAT(sequences, testing::UnorderedElementsAreArray(all));
  EXPECT_EQ(fingerprint.size(), 64U);
}

TEST(WorkerClient, PlanOfTheServerIsThatOfTheProcess) {
  const TestServer server;
  const v1::PlanBatchRequest request = RequestOf(100);
  const WorkerOptions options = {.data_parallel_rank = 2};
  const auto there = Fetch(Client(MakeRemoteConnection(server.target())), request, options);
  const auto here = Fetch(Client(MakeInProcessConnection()), request, options);
  ASSERT_TRUE(there.ok()) << there.status();
  ASSERT_TRUE(here.ok()) << here.status();
  EXPECT_EQ(there->fingerprint(), here->fingerprint());
  EXPECT_EQ(SequencesOf(*there), SequencesOf(*here));
}

TEST(WorkerClient, EveryPassIsMadeReadyFromOneAnswer) {
  v1::PlanBatchRequest request = RequestOf(60);
  request.mutable_passes(0)->set_name("train");
  v1::Pass& forward = *request.add_passes();
  forward.set_name("forward");
  forward.set_max_tokens_per_microbatch(4096);
  forward.mutable_padded();
  const auto worker = WorkerClient::Create(Client(MakeInProcessConnection()), {});
  ASSERT_TRUE(worker.ok()) << worker.status();
  const auto plans = worker->FetchPlans(request);
  ASSERT_TRUE(plans.ok()) << plans.status();
  ASSERT_EQ(plans->size(), 2U);
  EXPECT_THAT(SequencesOf(plans->at(0)),
              testing::UnorderedElementsAreArray(SequencesOf(plans->at(1))));
  EXPECT_EQ(plans->at(0).microbatches()[0].sequence_width, 0U);
  EXPECT_GT(plans->at(1).microbatches()[0].sequence_width, 0U);
  EXPECT_EQ(worker->FetchPlan(request, 1)->microbatches().size(),
            plans->at(1).microbatches().size());
}

TEST(WorkerClient, TruncatedSequencesHaveTheirPlannedLengths) {
  v1::PlanBatchRequest request = RequestOf(20);
  request.set_overlong(v1::OVERLONG_POLICY_TRUNCATE);
  request.mutable_topology()->set_data_parallel(1);
  request.mutable_manifest()->set_lengths(3, 5000);
  const auto plan = Fetch(Client(MakeInProcessConnection()), request);
  ASSERT_TRUE(plan.ok()) << plan.status();
  for (const WorkerMicrobatch& microbatch : plan->microbatches()) {
    for (uint32_t s = 0; s < microbatch.num_sequences(); ++s) {
      const uint32_t index = microbatch.sequence_index[s];
      EXPECT_EQ(microbatch.sequence_lengths[s],
                index == 3 ? 1024 : request.manifest().lengths(static_cast<int>(index)));
    }
  }
}

TEST(WorkerClient, OfAPoolItHasWhatIsTaken) {
  v1::PlanBatchRequest request = RequestOf(20);
  request.mutable_topology()->set_data_parallel(1);
  for (uint32_t i = 0; i < 20; ++i) request.mutable_manifest()->add_ages(i == 3 ? 5 : 0);
  request.mutable_selection()->set_sequences(12);
  request.mutable_selection()->set_max_age(4);
  const auto plan = Fetch(Client(MakeInProcessConnection()), request);
  ASSERT_TRUE(plan.ok()) << plan.status();
  uint32_t sequences = 0;
  for (const WorkerMicrobatch& microbatch : plan->microbatches()) {
    sequences += microbatch.num_sequences();
    EXPECT_THAT(microbatch.sequence_index, ::testing::Not(::testing::Contains(3U)));
  }
  EXPECT_EQ(sequences, 12U);
}

TEST(WorkerClient, SequenceAboveTheBudgetHasARowOfItsOwn) {
  v1::PlanBatchRequest request = RequestOf(20);
  request.set_overlong(v1::OVERLONG_POLICY_ALONE);
  request.mutable_topology()->set_data_parallel(1);
  request.mutable_manifest()->set_lengths(3, 5000);
  const auto plan = Fetch(Client(MakeInProcessConnection()), request);
  ASSERT_TRUE(plan.ok()) << plan.status();
  int alone = 0;
  for (const WorkerMicrobatch& microbatch : plan->microbatches()) {
    if (microbatch.max_seqlen != 5000) continue;
    ++alone;
    EXPECT_EQ(microbatch.num_sequences(), 1);
    EXPECT_GE(microbatch.row_width, 5000);
  }
  EXPECT_EQ(alone, 1);
}

// Four ranks share a micro-batch whose lengths are rounded up to 8. Of four virtual stages, 1 and 3
// belong to the pipeline's second rank.
TEST(WorkerClient, TimingSaysOfWhichTokensRanksAndPartOfTheModelItIs) {
  for (const bool padded : {false, true}) {
    v1::PlanBatchRequest request = RequestOf(40);
    request.clear_preset();
    request.mutable_mini_batches()->set_size(20);
    request.mutable_topology()->set_data_parallel(2);
    request.mutable_topology()->set_context_parallel(4);
    request.mutable_topology()->set_pipeline_parallel(2);
    request.mutable_topology()->set_virtual_pipeline(2);
    for (const double share : {1, 2, 1, 4}) request.mutable_pipeline()->add_stage_shares(share);
    request.set_allow_empty_microbatches(true);
    if (padded) request.mutable_passes(0)->mutable_padded();
    const auto plan = Fetch(Client(MakeInProcessConnection()), request,
                            {.data_parallel_rank = 1, .pipeline_rank = 1});
    ASSERT_TRUE(plan.ok()) << plan.status();
    for (const WorkerMicrobatch& microbatch : plan->microbatches()) {
      const v1::MicrobatchTiming timing = plan->Timing(microbatch, 2.5, 1 << 20);
      uint64_t tokens = 0;
      uint64_t squares = 0;
      for (uint32_t s = 0; s < microbatch.num_sequences(); ++s) {
        const auto length = static_cast<uint64_t>(microbatch.cu_seqlens_padded[s + 1] -
                                                  microbatch.cu_seqlens_padded[s]);
        tokens += length;
        squares += length * length;
      }
      EXPECT_EQ(timing.tokens(), tokens);
      EXPECT_EQ(timing.tokens_squared(), squares);
      EXPECT_EQ(timing.milliseconds(), 2.5);
      EXPECT_EQ(timing.peak_bytes(), 1U << 20);
      EXPECT_EQ(timing.sequences(), microbatch.num_sequences());
      EXPECT_EQ(timing.rank(), 1U);
      EXPECT_EQ(timing.slot(), microbatch.slot);
      EXPECT_EQ(timing.mini_batch(), microbatch.mini_batch);
      EXPECT_EQ(timing.context_parallel(), 4U);
      EXPECT_DOUBLE_EQ(timing.model_share(), 0.75);
    }
  }
}

TEST(WorkerClient, TimingOfAStageWithoutWorkDoesNotCountForTheFit) {
  v1::PlanBatchRequest request = RequestOf(40);
  request.mutable_topology()->set_pipeline_parallel(2);
  for (const double share : {1, 0}) request.mutable_pipeline()->add_stage_shares(share);
  const auto plan = Fetch(Client(MakeInProcessConnection()), request, {.pipeline_rank = 1});
  ASSERT_TRUE(plan.ok()) << plan.status();
  const v1::MicrobatchTiming timing = plan->Timing(plan->microbatches()[0], 1);
  EXPECT_EQ(timing.tokens(), 0U);
  EXPECT_EQ(timing.sequences(), 0U);
  EXPECT_TRUE(timing.has_rank() && timing.has_slot());
}

// So that servers that do not know the fields accept it.
TEST(WorkerClient, TimingOfTheWholeModelOnOneRankSaysNoMore) {
  const auto plan = Fetch(Client(MakeInProcessConnection()), RequestOf(40));
  ASSERT_TRUE(plan.ok()) << plan.status();
  const v1::MicrobatchTiming timing = plan->Timing(plan->microbatches()[0], 1);
  EXPECT_EQ(timing.context_parallel(), 0U);
  EXPECT_EQ(timing.model_share(), 0);
}

TEST(WorkerClient, RefusalOfTheRequestIsThePlanners) {
  v1::PlanBatchRequest request = RequestOf(20);
  request.mutable_manifest()->set_lengths(7, 5000);
  const Client client(MakeInProcessConnection());
  const auto plan = Fetch(client, request);
  EXPECT_TRUE(absl::IsInvalidArgument(plan.status())) << plan.status();
  EXPECT_EQ(plan.status(), client.PlanBatch(request).status());
}

TEST(WorkerClient, AbsentServerIsUnavailable) {
  RemoteOptions hasty;
  hasty.max_attempts = 1;
  const auto plan = Fetch(Client(MakeRemoteConnection("127.0.0.1:1", hasty)), RequestOf(20));
  EXPECT_TRUE(absl::IsUnavailable(plan.status())) << plan.status();
}

TEST(WorkerClient, RankOrPassThatIsNotThereIsNamed) {
  const Client client(MakeInProcessConnection());
  const auto message = [&](const WorkerOptions& options, int pass) {
    const auto plan = Fetch(client, RequestOf(20), options, pass);
    EXPECT_TRUE(absl::IsInvalidArgument(plan.status())) << plan.status();
    return std::string(plan.status().message());
  };
  EXPECT_THAT(message({.data_parallel_rank = 4}, 0),
              HasSubstr("data_parallel_rank is 4, but data_parallel is 4"));
  EXPECT_THAT(message({.context_parallel_rank = 1}, 0),
              HasSubstr("context_parallel_rank is 1, but context_parallel is 1"));
  EXPECT_THAT(message({.pipeline_rank = 1}, 0),
              HasSubstr("pipeline_rank is 1, but pipeline_parallel is 1"));
  EXPECT_THAT(message({}, 1), HasSubstr("pass is 1, but the request has 1 passes"));
  EXPECT_THAT(message({}, -1), HasSubstr("pass is -1"));
}

TEST(WorkerClient, InvalidOptionsAreRefusedWhenItIsMade) {
  const auto status = [](const WorkerOptions& options) {
    return WorkerClient::Create(Client(MakeInProcessConnection()), options).status();
  };
  const auto allocate = [](size_t) -> void* { return nullptr; };
  const auto free = [](void*, size_t) {};
  EXPECT_THAT(status({.allocator = {allocate, nullptr}}).ToString(),
              HasSubstr("WorkerOptions.allocator has allocate, but not free"));
  EXPECT_THAT(status({.allocator = {nullptr, free}}).ToString(),
              HasSubstr("WorkerOptions.allocator has free, but not allocate"));
  EXPECT_THAT(status({.backend = 9}).ToString(), HasSubstr("WorkerOptions.backend is 9: "));
  EXPECT_THAT(status({.sharding = 5}).ToString(), HasSubstr("WorkerOptions.sharding is 5"));
  const absl::Status no_memory = status({.backend = BATCHPLAN_BACKEND_CUDA});
  EXPECT_TRUE(absl::IsInvalidArgument(no_memory)) << no_memory;
  EXPECT_THAT(std::string(no_memory.message()), HasSubstr("WorkerOptions.allocator is not set"));
}

TEST(WorkerClient, AbsentCudaBackendSaysWhatIsMissing) {
  const batchplan_status available = batchplan_backend_status(BATCHPLAN_BACKEND_CUDA);
  if (available == BATCHPLAN_OK) GTEST_SKIP() << "every backend is available here";
  const auto worker = WorkerClient::Create(
      Client(MakeInProcessConnection()),
      {.backend = BATCHPLAN_BACKEND_CUDA,
       .allocator = {[](size_t) -> void* { return nullptr; }, [](void*, size_t) {}}});
  EXPECT_THAT(worker.status().code(), testing::AnyOf(absl::StatusCode::kUnimplemented,
                                                     absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(std::string(worker.status().message()),
              HasSubstr(batchplan_status_string(available)));
}

TEST(WorkerClient, AllocatorWithoutMemoryIsResourceExhausted) {
  const auto plan = Fetch(Client(MakeInProcessConnection()), RequestOf(20),
                          {.allocator = {[](size_t) -> void* { return nullptr; },
                                         [](void*, size_t) { ADD_FAILURE(); }}});
  EXPECT_TRUE(absl::IsResourceExhausted(plan.status())) << plan.status();
}

// The worker's status for an answer that `spoil` has changed.
absl::Status StatusOfSpoiled(const v1::PlanBatchRequest& request,
                             const std::function<void(v1::PlanBatchResponse&)>& spoil) {
  auto answer = Client(MakeInProcessConnection()).PlanBatch(request);
  EXPECT_TRUE(answer.ok()) << answer.status();
  spoil(*answer);
  FakeServer server([&](int, v1::PlanBatchResponse* response) {
    *response = *answer;
    return grpc::Status::OK;
  });
  return Fetch(Client(MakeRemoteConnection(server.target())), request).status();
}

// The worker's message for an answer whose first pass `spoil` has changed.
std::string ComplaintAbout(const v1::PlanBatchRequest& request,
                           const std::function<void(v1::PassPlan&)>& spoil) {
  const absl::Status status =
      StatusOfSpoiled(request, [&](v1::PlanBatchResponse& r) { spoil(*r.mutable_passes(0)); });
  EXPECT_TRUE(absl::IsInternal(status)) << status;
  return std::string(status.message());
}

TEST(WorkerClient, AnswerThatNobodySpoiledIsUsed) {
  const absl::Status status = StatusOfSpoiled(RequestOf(20), [](v1::PlanBatchResponse&) {});
  EXPECT_TRUE(status.ok()) << status;
}

TEST(WorkerClient, AnswerWithTheWrongPassesIsRefused) {
  const absl::Status none =
      StatusOfSpoiled(RequestOf(20), [](v1::PlanBatchResponse& r) { r.clear_passes(); });
  EXPECT_TRUE(absl::IsInternal(none)) << none;
  EXPECT_THAT(std::string(none.message()), HasSubstr("has 0 passes, but 1 were asked for"));
  EXPECT_TRUE(absl::IsInternal(
      StatusOfSpoiled(RequestOf(20), [](v1::PlanBatchResponse& r) { r.add_passes(); })));
}

TEST(WorkerClient, SequencesThatVanishAreMissed) {
  v1::PlanBatchRequest request = RequestOf(20);
  request.set_overlong(v1::OVERLONG_POLICY_DROP);
  request.mutable_manifest()->set_lengths(7, 5000);
  const absl::Status status =
      StatusOfSpoiled(request, [](v1::PlanBatchResponse& r) { r.clear_excluded(); });
  EXPECT_TRUE(absl::IsInternal(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("19 sequences in passes[0], 0 dropped"));
}

TEST(WorkerClient, ArraysOfTheWrongSizeAreNamed) {
  const v1::PlanBatchRequest request = RequestOf(20);
  EXPECT_THAT(ComplaintAbout(request, [](v1::PassPlan& p) { p.clear_microbatches_per_rank(); }),
              HasSubstr("microbatches_per_rank add up to 0 on each of 4 ranks"));
  EXPECT_THAT(
      ComplaintAbout(request, [](v1::PassPlan& p) { p.set_microbatches_per_rank(0, UINT32_MAX); }),
      HasSubstr("microbatches_per_rank add up to 4294967295"));
  EXPECT_THAT(ComplaintAbout(request, [](v1::PassPlan& p) { p.add_row_widths(8); }),
              HasSubstr("row_widths has"));
  EXPECT_THAT(ComplaintAbout(request, [](v1::PassPlan& p) { p.add_microbatch_offsets(20); }),
              HasSubstr("microbatch_offsets has"));
  EXPECT_THAT(ComplaintAbout(request, [](v1::PassPlan& p) { p.add_sequence_lengths(1); }),
              HasSubstr("sequence_lengths has 21 entries, but sequence_index has 20"));
  const absl::Status longer = StatusOfSpoiled(request, [](v1::PlanBatchResponse& r) {
    r.mutable_passes(0)->add_sequence_index(1);
    r.mutable_passes(0)->add_sequence_lengths(1);
  });
  EXPECT_TRUE(absl::IsInternal(longer)) << longer;
}

TEST(WorkerClient, IndicesAndLengthsThatAreNotTheManifestsAreNamed) {
  const v1::PlanBatchRequest request = RequestOf(20);
  EXPECT_THAT(ComplaintAbout(request, [](v1::PassPlan& p) { p.set_sequence_index(5, 20); }),
              HasSubstr("sequence_index[5] is 20, but the manifest has 20 sequences"));
  EXPECT_THAT(ComplaintAbout(request, [](v1::PassPlan& p) { p.set_sequence_index(5, UINT32_MAX); }),
              HasSubstr("sequence_index[5] is 4294967295"));
  EXPECT_THAT(ComplaintAbout(request,
                             [](v1::PassPlan& p) { p.set_sequence_index(5, p.sequence_index(4)); }),
              HasSubstr("which stands in the plan twice"));
  EXPECT_THAT(ComplaintAbout(request, [](v1::PassPlan& p) { p.set_sequence_lengths(5, 9999); }),
              HasSubstr("sequence_lengths[5] is 9999, but sequence "));
  EXPECT_THAT(ComplaintAbout(request, [](v1::PassPlan& p) { p.set_sequence_lengths(5, 0); }),
              HasSubstr("sequence_lengths[5] is 0, but sequence "));
}

TEST(WorkerClient, OffsetsOutOfOrderAreNamed) {
  const v1::PlanBatchRequest request = RequestOf(20);
  EXPECT_THAT(ComplaintAbout(request, [](v1::PassPlan& p) { p.set_microbatch_offsets(0, 1); }),
              HasSubstr("microbatch_offsets[0] is 1, not 0"));
  EXPECT_THAT(
      ComplaintAbout(request, [](v1::PassPlan& p) { p.set_microbatch_offsets(1, UINT32_MAX); }),
      HasSubstr("microbatch_offsets[1] is 4294967295"));
  EXPECT_THAT(ComplaintAbout(request,
                             [](v1::PassPlan& p) {
                               p.set_microbatch_offsets(2, p.microbatch_offsets(1) - 1);
                             }),
              HasSubstr("microbatch_offsets[2] is"));
  EXPECT_THAT(ComplaintAbout(request,
                             [](v1::PassPlan& p) {
                               p.set_microbatch_offsets(p.microbatch_offsets_size() - 1, 19);
                             }),
              HasSubstr("but sequence_index has 20 entries"));
}

TEST(WorkerClient, RowsThatDoNotFitAreNamed) {
  v1::PlanBatchRequest request = RequestOf(20);
  EXPECT_THAT(ComplaintAbout(request, [](v1::PassPlan& p) { p.set_row_widths(0, 0); }),
              HasSubstr("row_widths[0] is 0, too narrow for sequence_lengths["));
  EXPECT_THAT(ComplaintAbout(request, [](v1::PassPlan& p) { p.set_row_widths(0, 2000); }),
              HasSubstr("row_widths[0] is 2000"));
  EXPECT_THAT(ComplaintAbout(request, [](v1::PassPlan& p) { p.set_length_multiple(0); }),
              HasSubstr("length_multiple is 0, but the request makes it 1"));

  request.clear_preset();
  request.mutable_passes(0)->mutable_padded();
  request.mutable_topology()->set_context_parallel(2);
  EXPECT_THAT(ComplaintAbout(request, [](v1::PassPlan& p) { p.set_row_widths(0, UINT32_MAX - 3); }),
              HasSubstr("more than max_tokens_per_microbatch, 1024"));
  EXPECT_THAT(ComplaintAbout(request, [](v1::PassPlan& p) { p.set_row_widths(0, 0); }),
              HasSubstr("too narrow"));
  EXPECT_THAT(
      ComplaintAbout(request, [](v1::PassPlan& p) { p.set_row_widths(0, p.row_widths(0) + 2); }),
      HasSubstr("not a multiple of 4"));
}

TEST(WorkerClient, SharedTokensThatNoRowHasAreNamed) {
  const v1::PlanBatchRequest request = SharingRequestOf(20);
  EXPECT_TRUE(StatusOfSpoiled(request, [](v1::PlanBatchResponse&) {}).ok());
  EXPECT_THAT(ComplaintAbout(request, [](v1::PassPlan& p) { p.add_shared_tokens(0); }),
              HasSubstr("shared_tokens has 21 entries, but sequence_index has 20"));
  EXPECT_THAT(ComplaintAbout(request, [](v1::PassPlan& p) { p.set_shared_tokens(0, 1); }),
              HasSubstr("shared_tokens[0] is 1, of a sequence of "));
  EXPECT_THAT(ComplaintAbout(request, [](v1::PassPlan& p) { p.set_shared_tokens(1, 1000); }),
              HasSubstr("shared_tokens[1] is 1000, of a sequence of "));
  EXPECT_THAT(ComplaintAbout(request, [](v1::PassPlan& p) { p.clear_shared_tokens(); }),
              HasSubstr("too narrow for sequence_lengths["));
  v1::PlanBatchRequest ignoring = request;
  ignoring.mutable_passes(0)->set_ignore_shared_prefixes(true);
  EXPECT_THAT(
      ComplaintAbout(ignoring, [](v1::PassPlan& p) { p.mutable_shared_tokens()->Resize(20, 0); }),
      HasSubstr("shared_tokens has 20 entries, but nothing is shared in this pass"));
}

TEST(WorkerClient, ItemsThatNoRankGetsAreNamed) {
  const v1::PlanBatchRequest request = DealingRequestOf(20);
  EXPECT_TRUE(StatusOfSpoiled(request, [](v1::PlanBatchResponse&) {}).ok());
  EXPECT_THAT(
      ComplaintAbout(request, [](v1::PassPlan& p) { p.mutable_item_ranks(0)->set_ranks(29, 2); }),
      HasSubstr("item_ranks[0].ranks[29] is 2, but data_parallel is 2"));
  EXPECT_THAT(
      ComplaintAbout(request, [](v1::PassPlan& p) { p.mutable_item_ranks(0)->add_ranks(0); }),
      HasSubstr("item_ranks[0].ranks has 31 entries, but load \"patches\" has 30 items"));
  EXPECT_THAT(
      ComplaintAbout(request, [](v1::PassPlan& p) { p.mutable_item_ranks(0)->set_load("frames"); }),
      HasSubstr("item_ranks[0].load is \"frames\", but load 0 of those that are dealt is "
                "\"patches\""));
  EXPECT_THAT(ComplaintAbout(request, [](v1::PassPlan& p) { p.clear_item_ranks(); }),
              HasSubstr("item_ranks has 0 entries, but 1 loads are dealt"));
  v1::PlanBatchRequest separate = request;
  separate.mutable_cost_model()->mutable_loads(0)->set_dealt(false);
  EXPECT_THAT(ComplaintAbout(separate, [](v1::PassPlan& p) { p.add_item_ranks(); }),
              HasSubstr("item_ranks has 1 entries, but 0 loads are dealt"));

  // A rank's slice has the ranks of all items, whose number a worker may not know.
  absl::StatusOr<PassRequirements> requirements = RequirementsOf(request, 0);
  ASSERT_TRUE(requirements.ok()) << requirements.status();
  const auto answer = Client(MakeInProcessConnection()).PlanBatch(request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  v1::PassPlan plan = answer->passes(0);
  plan.mutable_item_ranks(0)->add_ranks(1);
  requirements->dealt[0].num_items.reset();
  EXPECT_TRUE(CheckPassPlan(plan, *requirements).ok()) << CheckPassPlan(plan, *requirements);
  plan.mutable_item_ranks(0)->set_ranks(30, 2);
  EXPECT_FALSE(CheckPassPlan(plan, *requirements).ok());
}

// Changes one number of one array, or its size.
void SpoilAnywhere(v1::PassPlan& plan, std::mt19937& random) {
  auto* const arrays =
      std::array{plan.mutable_sequence_index(),        plan.mutable_microbatch_offsets(),
                 plan.mutable_microbatches_per_rank(), plan.mutable_row_widths(),
                 plan.mutable_sequence_lengths(),      plan.mutable_shared_tokens()}
          [random() % (plan.shared_tokens_size() > 0 ? 6 : 5)];
  const auto position = static_cast<int>(random() % static_cast<uint32_t>(arrays->size()));
  constexpr uint32_t kNumbers[] = {0, 1, 2, 4, 19, 20, 1024, 0x80000000U, UINT32_MAX};
  switch (random() % 6) {
    case 0:
      arrays->Add(kNumbers[random() % std::size(kNumbers)]);
      break;
    case 1:
      arrays->Truncate(position);
      break;
    case 2:
      arrays->SwapElements(position,
                           static_cast<int>(random() % static_cast<uint32_t>(arrays->size())));
      break;
    case 3:
      arrays->Set(position, arrays->Get(position) + 4);
      break;
    default:
      arrays->Set(position, kNumbers[random() % std::size(kNumbers)]);
  }
}

// Under the sanitizers, this proves that plans that pass the check stay within every array.
TEST(WorkerClient, SpoiledAnswerIsRefusedOrPacksWithinItsBounds) {
  std::mt19937 random(5);
  enum class Rows { kPacked, kPadded, kSharing };
  for (const Rows rows : {Rows::kPacked, Rows::kPadded, Rows::kSharing}) {
    v1::PlanBatchRequest request = rows == Rows::kSharing ? SharingRequestOf(20) : RequestOf(20);
    request.clear_preset();
    // A row of shared tokens is not divided among ranks.
    const uint32_t context_parallel = rows == Rows::kSharing ? 1 : 2;
    request.mutable_topology()->set_context_parallel(context_parallel);
    request.mutable_topology()->set_data_parallel(2);
    request.set_overlong(v1::OVERLONG_POLICY_TRUNCATE);
    if (rows == Rows::kPadded) request.mutable_passes(0)->mutable_padded();
    const auto answer = Client(MakeInProcessConnection()).PlanBatch(request);
    ASSERT_TRUE(answer.ok()) << answer.status();
    const auto worker = WorkerClient::Create(
        Client(MakeInProcessConnection()),
        {.data_parallel_rank = 1, .context_parallel_rank = context_parallel - 1});
    const std::vector<int32_t> batch(size_t{20} * 1000, 1);
    int refused = 0;
    for (int round = 0; round < 2000; ++round) {
      v1::PlanBatchResponse spoiled = *answer;
      SpoilAnywhere(*spoiled.mutable_passes(0), random);
      const auto plan = worker->UsePlan(request, spoiled);
      if (!plan.ok()) {
        ++refused;
        EXPECT_TRUE(absl::IsInternal(plan.status())) << plan.status();
        continue;
      }
      for (const WorkerMicrobatch& microbatch : plan->microbatches()) {
        std::vector<int32_t> row(microbatch.row_width_per_rank);
        batchplan_field field = {};
        field.element_size = sizeof(int32_t);
        field.elements_per_token = 1;
        field.source = batch.data();
        field.destination = row.data();
        field.width = 1000;
        const absl::Status packed = plan->Pack(microbatch, {field});
        EXPECT_TRUE(packed.ok()) << packed;
      }
    }
    EXPECT_GT(refused, 1000);
    EXPECT_LT(refused, 2000);
  }
}

}  // namespace
}  // namespace batchplan
