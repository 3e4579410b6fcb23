#include "client/cli/commands/whole_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"

namespace batchplan::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two workers, of one and three sequences; sequence 2 was dropped.
v1::JoinBatchResponse Answer() {
  v1::JoinBatchResponse answer;
  for (const uint32_t offset : {0, 1, 4}) answer.add_worker_offsets(offset);
  v1::PassPlan* pass = answer.mutable_plan()->add_passes();
  for (const uint32_t index : {3, 0, 1}) {
    pass->add_sequence_index(index);
    pass->add_sequence_lengths(100 + index);
  }
  v1::ExcludedSequence* dropped = answer.mutable_plan()->add_excluded();
  dropped->set_index(2);
  dropped->set_length(9000);
  return answer;
}

TEST(WholeRequest, HasTheLengthsOfAllWorkers) {
  v1::JoinBatchRequest own;
  own.mutable_request()->set_job_id("rl");
  v1::Manifest* manifest = own.mutable_request()->mutable_manifest();
  manifest->add_lengths(100);
  manifest->add_group_ids(7);
  manifest->set_pad_to(16384);
  const auto whole = WholeRequest(own, Answer());
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_THAT(whole->manifest().lengths(), ElementsAre(100, 101, 9000, 103));
  EXPECT_TRUE(whole->manifest().group_ids().empty());
  EXPECT_EQ(whole->manifest().pad_to(), 16384);
  EXPECT_EQ(whole->job_id(), "rl");
}

TEST(WholeRequest, HasItsOwnRanksAndThePlansForTheOthers) {
  v1::JoinBatchResponse answer = Answer();
  v1::PassPlan* pass = answer.mutable_plan()->mutable_passes(0);
  // Sequences 3 and 0 on rank 0, 1 on rank 1.
  pass->add_microbatches_per_rank(1);
  for (const uint32_t offset : {0, 2, 3}) pass->add_microbatch_offsets(offset);
  v1::JoinBatchRequest own;
  own.mutable_request()->mutable_topology()->set_data_parallel(2);
  own.mutable_request()->mutable_manifest()->add_lengths(100);
  own.mutable_request()->mutable_manifest()->add_ranks(1);
  const auto whole = WholeRequest(own, answer);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_THAT(whole->manifest().ranks(), ElementsAre(1, 1, 0, 0));

  for (const uint32_t worker : {1, 2}) {
    own.set_worker(worker);
    EXPECT_THAT(std::string(WholeRequest(own, answer).status().message()),
                HasSubstr("which sent 1 sequences"));
  }
}

TEST(WholeRequest, TruncatedSequenceHasItsTrueLength) {
  v1::JoinBatchResponse answer = Answer();
  answer.mutable_plan()->mutable_passes(0)->add_sequence_index(2);
  answer.mutable_plan()->mutable_passes(0)->add_sequence_lengths(8192);
  const auto whole = WholeRequest({}, answer);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->manifest().lengths(2), 9000);
}

TEST(WholeRequest, WhatWaitsHasNoLength) {
  v1::JoinBatchResponse answer = Answer();
  answer.mutable_plan()->clear_excluded();
  answer.mutable_plan()->add_deferred(2);
  const auto whole = WholeRequest({}, answer);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_THAT(whole->manifest().lengths(), ElementsAre(100, 101, 0, 103));
}

TEST(WholeRequest, PlanThatIsNotOfTheWorkersSequencesIsRefused) {
  v1::JoinBatchResponse answer = Answer();
  answer.mutable_plan()->mutable_passes(0)->set_sequence_index(0, 4);
  EXPECT_THAT(std::string(WholeRequest({}, answer).status().message()),
              HasSubstr("has sequence 4, but the workers sent 4"));
  answer.mutable_plan()->mutable_passes(0)->set_sequence_index(0, 0);
  EXPECT_THAT(std::string(WholeRequest({}, answer).status().message()),
              HasSubstr("leaves out sequence 3 of 4"));
  // Nor is memory taken by what the answer says alone.
  for (const uint32_t sequences : {5U, 0x7fffffffU, 0x80000000U, 0xffffffffU}) {
    answer.set_worker_offsets(2, sequences);
    EXPECT_THAT(std::string(WholeRequest({}, answer).status().message()),
                HasSubstr("sequences, but the plan has at most 4"));
  }
  answer.clear_worker_offsets();
  EXPECT_TRUE(absl::IsInvalidArgument(WholeRequest({}, answer).status()));
}

}  // namespace
}  // namespace batchplan::cli
