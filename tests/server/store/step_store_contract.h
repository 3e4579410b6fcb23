// The promises of every StepStore, as tests. A program with a store instantiates them:
//
//   INSTANTIATE_TEST_SUITE_P(Memory, StepStoreContract,
//                            ::testing::Values(StepStoresFactory{"MemoryStepStore", MakeStores}));
//
// With step_store_model.h, there is also a test with random calls. Include each only once in a
// program.

#ifndef BATCHPLAN_TESTS_SERVER_STORE_STEP_STORE_CONTRACT_H_
#define BATCHPLAN_TESTS_SERVER_STORE_STEP_STORE_CONTRACT_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <latch>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "server/store/step_store.h"
#include "tests/server/store/step_stores.h"

namespace batchplan::testing {

TEST_P(StepStoreContract, AnUnknownStepHasNothing) {
  const StepProgress progress = Progress();
  EXPECT_TRUE(progress.arrived.empty());
  EXPECT_FALSE(progress.complete);
  EXPECT_FALSE(progress.outcome.has_value());
  EXPECT_EQ(store().Parts(key_).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(PutOutcome(key_, "o").status().code(), absl::StatusCode::kNotFound);
}

TEST_P(StepStoreContract, AStepIsCompleteWithItsLastPartAndEveryReplicaSeesIt) {
  EXPECT_FALSE(Put(Part(2, 3, "two")).complete);
  EXPECT_FALSE(Put(Part(0, 3, "zero"), 1).complete);
  EXPECT_THAT(Progress(1).arrived, ::testing::ElementsAre(0, 2));
  EXPECT_FALSE(Progress(0).complete);
  EXPECT_EQ(store().Parts(key_).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(PutOutcome(key_, "o").status().code(), absl::StatusCode::kNotFound);

  EXPECT_TRUE(Put(Part(1, 3, "one"), 1).complete);
  for (int replica : {0, 1}) {
    EXPECT_THAT(Progress(replica).arrived, ::testing::ElementsAre(0, 1, 2));
    EXPECT_TRUE(Progress(replica).complete);
    EXPECT_THAT(Contents(key_, replica), ::testing::ElementsAre("zero", "one", "two"));
  }
}

TEST_P(StepStoreContract, AWorldOfOneIsCompleteAtOnce) {
  EXPECT_TRUE(Put(Part(0, 1, "")).complete);
  EXPECT_THAT(Contents(key_), ::testing::ElementsAre(""));
}

TEST_P(StepStoreContract, PartsComeInTheOrderOfTheirWorkersAsNumbers) {
  std::vector<std::string> contents;
  for (uint32_t worker = 0; worker < 25; ++worker) contents.push_back(std::to_string(worker));
  for (uint32_t i = 0; i < 25; ++i) {
    const uint32_t worker = (i * 7 + 3) % 25;
    EXPECT_EQ(Put(Part(worker, 25, contents[worker])).complete, i == 24);
  }
  EXPECT_EQ(Contents(key_), contents);
}

TEST_P(StepStoreContract, BytesAreKeptAsTheyAre) {
  std::string every_byte;
  for (int byte = 0; byte < 256; ++byte) every_byte += static_cast<char>(byte);
  const StepKey key = {.job_id = every_byte + "{}:*/ \r\n", .step = ~uint64_t{0}};
  StepPart part = {.worker = 0, .world_size = 1, .terms = every_byte, .content = every_byte};
  EXPECT_TRUE(Put(key, part).complete);
  EXPECT_THAT(Contents(key, 1), ::testing::ElementsAre(every_byte));
  EXPECT_EQ(PutOutcome(key, every_byte).value(), every_byte);
  part.terms = "other terms";
  const PartReceipt refused = Put(key, part);
  EXPECT_EQ(refused.verdict, PartReceipt::Verdict::kOtherTerms);
  EXPECT_EQ(refused.terms, every_byte);
}

TEST_P(StepStoreContract, ARepeatedPartIsAcceptedAndHearsHowFarTheStepIs) {
  Put(Part(0, 2, "a"));
  PartReceipt receipt = Put(Part(0, 2, "a"), 1);
  EXPECT_EQ(receipt.verdict, PartReceipt::Verdict::kAccepted);
  EXPECT_FALSE(receipt.complete);
  Put(Part(1, 2, "b"));
  receipt = Put(Part(0, 2, "a"));
  EXPECT_TRUE(receipt.complete);
  EXPECT_FALSE(receipt.outcome.has_value());
  ASSERT_TRUE(PutOutcome(key_, "outcome").ok());
  receipt = Put(Part(1, 2, "b"), 1);
  EXPECT_EQ(receipt.verdict, PartReceipt::Verdict::kAccepted);
  EXPECT_TRUE(receipt.complete);
  EXPECT_EQ(receipt.outcome, "outcome");
}

TEST_P(StepStoreContract, OtherContentForAWorkerIsRefusedAndChangesNothing) {
  Put(Part(0, 2, "a"));
  EXPECT_EQ(Put(Part(0, 2, "A"), 1).verdict, PartReceipt::Verdict::kOtherContent);
  Put(Part(1, 2, "b"));
  EXPECT_EQ(Put(Part(1, 2, "B")).verdict, PartReceipt::Verdict::kOtherContent);
  EXPECT_THAT(Contents(key_), ::testing::ElementsAre("a", "b"));
}

TEST_P(StepStoreContract, OtherTermsAreRefusedWithThoseOfTheStepAndWhoBroughtThem) {
  Put(Part(1, 2, "b"));
  StepPart other = Part(0, 3, "a");
  other.terms = "other terms";
  const PartReceipt refused = Put(other, 1);
  EXPECT_EQ(refused.verdict, PartReceipt::Verdict::kOtherTerms);
  EXPECT_EQ(refused.terms, "terms");
  EXPECT_EQ(refused.terms_worker, 1);
  EXPECT_THAT(Progress().arrived, ::testing::ElementsAre(1));
  // Terms are checked before content.
  other = Part(1, 2, "B");
  other.terms = "other terms";
  EXPECT_EQ(Put(other).verdict, PartReceipt::Verdict::kOtherTerms);
}

TEST_P(StepStoreContract, TheFirstOutcomeStands) {
  Put(Part(0, 1, "a"));
  EXPECT_EQ(PutOutcome(key_, "first", false, 0).value(), "first");
  EXPECT_EQ(PutOutcome(key_, "second", false, 1).value(), "first");
  EXPECT_EQ(PutOutcome(key_, "third", false, 0).value(), "first");
  EXPECT_EQ(Progress(1).outcome, "first");
}

TEST_P(StepStoreContract, TheFirstReplicaThatWaitsForACompleteStepIsItsPlanner) {
  Put(Part(0, 2, "a"));
  EXPECT_EQ(store(1).Progress(key_, "1")->planner, "") << "it is not complete";
  Put(Part(1, 2, "b"));
  EXPECT_EQ(store(0).Progress(key_, "")->planner, "") << "nobody waits there";
  EXPECT_EQ(store(1).Progress(key_, "1")->planner, "1");
  EXPECT_EQ(store(0).Progress(key_, "0")->planner, "1");
  EXPECT_EQ(store(0).Progress(key_, "")->planner, "1");
  // It has a while for that.
  stores_->Advance(StepStoreOptions().planning);
  EXPECT_EQ(store(0).Progress(key_, "")->planner, "");
  EXPECT_EQ(store(0).Progress(key_, "0")->planner, "0");
  EXPECT_EQ(store(1).Progress(key_, "1")->planner, "0");
  const std::string incarnation = Progress().incarnation;
  ASSERT_TRUE(PutOutcome(key_, "outcome").ok());
  EXPECT_EQ(store(0).Progress(key_, "0")->planner, "");
  // The step that begins in its place has none yet.
  ASSERT_TRUE(store().MarkServed(key_, incarnation, {0, 1}).ok());
  Put(Part(0, 2, "A"));
  Put(Part(1, 2, "b"));
  EXPECT_EQ(store(0).Progress(key_, "0")->planner, "0");
}

TEST_P(StepStoreContract, ThePlanOfTheOutcomeThatStandsIsKeptForAWhile) {
  Put(Part(0, 1, "a"));
  const std::string incarnation = Progress().incarnation;
  std::string plan;
  for (int byte = 0; byte < 256; ++byte) plan += static_cast<char>(byte);
  EXPECT_EQ(store(1).Plan(key_, incarnation).value(), std::nullopt);
  ASSERT_TRUE(store(0).PutOutcome(key_, incarnation, {.bytes = "first", .plan = plan}).ok());
  ASSERT_TRUE(store(1).PutOutcome(key_, incarnation, {.bytes = "second", .plan = "late"}).ok());
  for (int replica : {0, 1}) EXPECT_EQ(store(replica).Plan(key_, incarnation).value(), plan);
  EXPECT_EQ(store().Plan(key_, "another incarnation").value(), std::nullopt);
  EXPECT_THAT(Contents(key_, 1), ::testing::ElementsAre("a"));
  stores_->Advance(kPause);
  EXPECT_EQ(Progress(1).outcome, "first");
  EXPECT_EQ(store(1).Plan(key_, incarnation).value(), std::nullopt);

  const StepKey without = {.job_id = "job", .step = 8};
  const PartReceipt receipt = Put(without, Part(0, 1, "a"));
  ASSERT_TRUE(PutOutcome(without, "outcome").ok());
  EXPECT_EQ(store().Plan(without, receipt.incarnation).value(), std::nullopt);
}

TEST_P(StepStoreContract, AStepThatBeginsInAnothersPlaceDropsItsPlan) {
  Put(Part(0, 1, "a"));
  const std::string incarnation = Progress().incarnation;
  ASSERT_TRUE(store().PutOutcome(key_, incarnation, {.bytes = "first", .plan = "plan"}).ok());
  ASSERT_TRUE(store().MarkServed(key_, incarnation, {0}).ok());
  Put(Part(0, 1, "A"));
  EXPECT_EQ(store().Plan(key_, incarnation).value(), std::nullopt);
}

TEST_P(StepStoreContract, StepsAndJobsAreApart) {
  for (const char* job : {"a", "b"}) {
    for (uint64_t step : {1, 2}) {
      const std::string content = job + std::to_string(step);
      EXPECT_TRUE(Put({.job_id = job, .step = step}, Part(0, 1, content)).complete);
    }
  }
  EXPECT_EQ(PutOutcome({.job_id = "a", .step = 1}, "o").value(), "o");
  EXPECT_THAT(Contents({.job_id = "a", .step = 2}), ::testing::ElementsAre("a2"));
  EXPECT_THAT(Contents({.job_id = "b", .step = 1}), ::testing::ElementsAre("b1"));
  EXPECT_FALSE(store().Progress({.job_id = "b", .step = 1}, "")->outcome.has_value());
}

TEST_P(StepStoreContract, AStepIsForgottenWhenNoPartHasComeForItsTimeToLive) {
  Put(Part(0, 3, "a"));
  stores_->Advance(kPause);
  Put(Part(1, 3, "b"));
  stores_->Advance(kPause);
  EXPECT_THAT(Progress().arrived, ::testing::ElementsAre(0, 1));
  // A worker whose part was stored already has come; one whose part was refused has not.
  Put(Part(0, 3, "a"));
  stores_->Advance(kPause);
  ASSERT_TRUE(store().Progress(key_, "0").ok());
  EXPECT_THAT(Progress(1).arrived, ::testing::ElementsAre(0, 1));
  EXPECT_EQ(Put(Part(0, 3, "A")).verdict, PartReceipt::Verdict::kOtherContent);
  stores_->Advance(kPause);
  EXPECT_TRUE(Progress().arrived.empty());
  // The step begins anew, with other terms if necessary.
  StepPart other = Part(2, 3, "c");
  other.terms = "other terms";
  EXPECT_EQ(Put(other).verdict, PartReceipt::Verdict::kAccepted);
  EXPECT_THAT(Progress(1).arrived, ::testing::ElementsAre(2));
}

TEST_P(StepStoreContract, AStepWithAnOutcomeLivesForItsRetentionWhateverComes) {
  Put(Part(0, 2, "a"));
  Put(Part(1, 2, "b"));
  stores_->Advance(kPause);
  ASSERT_TRUE(PutOutcome(key_, "outcome").ok());
  stores_->Advance(3 * kPause);
  EXPECT_EQ(Put(Part(0, 2, "a"), 1).outcome, "outcome");
  EXPECT_EQ(PutOutcome(key_, "late").value(), "outcome");
  EXPECT_EQ(Contents(key_).size(), 2);
  stores_->Advance(kPause);
  EXPECT_TRUE(Progress().arrived.empty());
  EXPECT_FALSE(Progress().outcome.has_value());
  EXPECT_EQ(store().Parts(key_).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(PutOutcome(key_, "o").status().code(), absl::StatusCode::kNotFound);
}

TEST_P(StepStoreContract, ListenersOfAllReplicasHearOfTheLastPartAndOfTheOutcome) {
  std::atomic<int> heard = 0;
  store(1).SetListener([this, &heard](const StepKey& key, StepEvent event) {
    if (key == key_ && event == StepEvent::kChanged) ++heard;
  });
  Put(Part(0, 2, "a"));
  Put(Part(1, 2, "b"));
  stores_->AwaitNotifications();
  const int after_last_part = heard;
  EXPECT_GE(after_last_part, 1);
  ASSERT_TRUE(PutOutcome(key_, "outcome").ok());
  stores_->AwaitNotifications();
  EXPECT_GT(heard, after_last_part);

  store(1).SetListener(nullptr);
  const int before = heard;
  Put({.job_id = "job", .step = 8}, Part(0, 1, "a"));
  Put(Part(0, 2, "a"));
  stores_->AwaitNotifications();
  EXPECT_EQ(heard, before);
}

TEST_P(StepStoreContract, AStepThatAllWorkersHadGivesWayToAnotherPartAndToNoOther) {
  Put(Part(0, 2, "a"));
  Put(Part(1, 2, "b"));
  const std::string incarnation = Progress().incarnation;
  // Has no effect before there is an outcome.
  ASSERT_TRUE(store().MarkServed(key_, incarnation, {0, 1}).ok());
  ASSERT_TRUE(PutOutcome(key_, "outcome").ok());
  ASSERT_TRUE(store(0).MarkServed(key_, incarnation, {1}).ok());
  ASSERT_TRUE(store(1).MarkServed(key_, incarnation, {1, 1}).ok());
  ASSERT_TRUE(store(1).MarkServed(key_, "another incarnation", {0}).ok());
  EXPECT_EQ(Put(Part(0, 2, "A")).verdict, PartReceipt::Verdict::kOtherContent);
  ASSERT_TRUE(store(1).MarkServed(key_, incarnation, {0}).ok());
  // The same part again belongs to the same step.
  EXPECT_EQ(Put(Part(0, 2, "a")).outcome, "outcome");
  EXPECT_EQ(Progress().incarnation, incarnation);

  const PartReceipt begun = Put(Part(0, 2, "A"), 1);
  EXPECT_EQ(begun.verdict, PartReceipt::Verdict::kAccepted);
  EXPECT_NE(begun.incarnation, incarnation);
  EXPECT_FALSE(begun.complete);
  EXPECT_FALSE(begun.outcome.has_value());
  EXPECT_THAT(Progress().arrived, ::testing::ElementsAre(0));
  EXPECT_TRUE(Put(Part(1, 2, "b")).complete);
  EXPECT_THAT(Contents(key_), ::testing::ElementsAre("A", "b"));
  // A late call for the last incarnation does not change this one.
  EXPECT_EQ(store().PutOutcome(key_, incarnation, {.bytes = "late"}).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(PutOutcome(key_, "new").value(), "new");
  ASSERT_TRUE(store().MarkServed(key_, incarnation, {0, 1}).ok());
  EXPECT_EQ(Put(Part(0, 2, "a")).verdict, PartReceipt::Verdict::kOtherContent);
}

TEST_P(StepStoreContract, ARefusedStepGivesWayToOtherTermsAndContents) {
  Put(Part(0, 2, "a"));
  Put(Part(1, 2, "b"));
  ASSERT_TRUE(PutOutcome(key_, "refused", /*refusal=*/true).ok());
  EXPECT_EQ(Put(Part(1, 2, "b")).outcome, "refused");
  StepPart other = Part(1, 3, "b");
  other.terms = "other terms";
  EXPECT_EQ(Put(other, 1).verdict, PartReceipt::Verdict::kAccepted);
  EXPECT_THAT(Progress().arrived, ::testing::ElementsAre(1));
  EXPECT_EQ(Put(Part(0, 2, "a")).terms, "other terms");

  const StepKey key = {.job_id = "job", .step = 8};
  Put(key, Part(0, 1, "a"));
  ASSERT_TRUE(PutOutcome(key, "refused", /*refusal=*/true).ok());
  EXPECT_EQ(Put(key, Part(0, 1, "A")).verdict, PartReceipt::Verdict::kAccepted);
  EXPECT_THAT(Contents(key), ::testing::ElementsAre("A"));
}

TEST_P(StepStoreContract, AStepWithoutAnOutcomeGivesWayOnceNobodyWaitsForItAtAnyReplica) {
  StepPart other = Part(0, 3, "a");
  other.terms = "other terms";
  other.waits_at = "1";
  Put(Part(1, 2, "b"));
  ASSERT_TRUE(store(1).Progress(key_, "1").ok());
  ASSERT_TRUE(store(0).Leave(key_, "0").ok());
  EXPECT_EQ(Put(other, 1).verdict, PartReceipt::Verdict::kOtherTerms) << "replica 1 waits";
  ASSERT_TRUE(store(1).Leave(key_, "1").ok());
  ASSERT_TRUE(store(1).Leave(key_, "1").ok());
  EXPECT_EQ(Put(other, 1).verdict, PartReceipt::Verdict::kAccepted);
  EXPECT_THAT(Progress().arrived, ::testing::ElementsAre(0));

  // A complete step gives way too; and a replica that says nothing no longer counts after its time.
  EXPECT_EQ(Put(Part(1, 2, "b")).verdict, PartReceipt::Verdict::kOtherTerms);
  stores_->Advance(kWaiting);
  Put(Part(1, 2, "b"));
  EXPECT_TRUE(Put(Part(0, 2, "a")).complete);
  EXPECT_EQ(Put(other).verdict, PartReceipt::Verdict::kOtherTerms);
  stores_->Advance(kWaiting);
  EXPECT_EQ(Put(other).verdict, PartReceipt::Verdict::kAccepted);
}

TEST_P(StepStoreContract, APlannedStepThatAWorkerHasNotHadStandsThoughNobodyWaits) {
  Put(Part(0, 2, "a"));
  Put(Part(1, 2, "b"));
  ASSERT_TRUE(PutOutcome(key_, "outcome").ok());
  ASSERT_TRUE(store().Leave(key_, "0").ok());
  stores_->Advance(kWaiting);
  EXPECT_EQ(Put(Part(0, 2, "A")).verdict, PartReceipt::Verdict::kOtherContent);
  EXPECT_EQ(Put(Part(1, 2, "b")).outcome, "outcome");
}

TEST_P(StepStoreContract, PartsOfDifferentRunsNeverMeet) {
  StepKey first = key_;
  StepKey second = key_;
  first.run_id = "first";
  second.run_id = "second";
  Put(key_, Part(0, 2, "a"));
  EXPECT_FALSE(Put(first, Part(1, 2, "b")).complete);
  EXPECT_FALSE(Put(second, Part(0, 2, "a")).complete);
  EXPECT_TRUE(Put(second, Part(1, 2, "c")).complete);
  EXPECT_THAT(Contents(second, 1), ::testing::ElementsAre("a", "c"));
  EXPECT_TRUE(Put(key_, Part(1, 2, "d")).complete) << "no run supersedes calls without one";
  EXPECT_THAT(Contents(key_, 1), ::testing::ElementsAre("a", "d"));
  // Ids that could be confused.
  const StepKey odd[] = {{.job_id = "a/b", .step = 1, .run_id = "c"},
                         {.job_id = "a", .step = 1, .run_id = "b/c"},
                         {.job_id = "a/b/c", .step = 1}};
  for (const StepKey& key : odd) EXPECT_TRUE(Put(key, Part(0, 1, key.job_id)).complete);
  for (const StepKey& key : odd) {
    EXPECT_THAT(Contents(key), ::testing::ElementsAre(key.job_id));
  }
}

TEST_P(StepStoreContract, ARunThatIsSeenLaterSupersedesThoseBeforeItForGood) {
  const auto in_run = [&](const std::string& run, uint64_t step, const std::string& job = "job") {
    return StepKey{.job_id = job, .step = step, .run_id = run};
  };
  Put(in_run("1", 5), Part(0, 2, "a"));
  EXPECT_FALSE(store().Progress(in_run("1", 5), "0")->current_run.has_value());
  // Its first part may be on the way.
  EXPECT_FALSE(store().Progress(in_run("2", 5), "0")->current_run.has_value());
  Put(in_run("2", 3), Part(0, 1, "a"), 1);
  Put(in_run("other", 3, "another job"), Part(0, 1, "a"));
  for (int i = 0; i < 3; ++i) {
    for (const uint64_t step : {5, 6}) {
      const PartReceipt refused = Put(in_run("1", step), Part(1, 2, "b"), i % 2);
      EXPECT_EQ(refused.verdict, PartReceipt::Verdict::kSuperseded);
      EXPECT_EQ(refused.current_run, "2");
      EXPECT_EQ(store(i % 2).Progress(in_run("1", step), "0")->current_run, "2");
    }
    EXPECT_EQ(Put(in_run("2", 4 + i), Part(0, 1, "a")).verdict, PartReceipt::Verdict::kAccepted);
    stores_->Advance(kPause);
  }
  EXPECT_EQ(Put(in_run("3", 1), Part(0, 1, "a")).verdict, PartReceipt::Verdict::kAccepted);
  EXPECT_EQ(Put(in_run("2", 1), Part(0, 1, "a")).current_run, "3");
  EXPECT_EQ(Put(in_run("1", 1), Part(0, 1, "a")).current_run, "3");
  // Not forever: only while somebody asks for the job.
  stores_->Advance(StepStoreOptions().run_lifetime);
  EXPECT_EQ(Put(in_run("1", 1), Part(0, 1, "a")).verdict, PartReceipt::Verdict::kAccepted);
}

TEST_P(StepStoreContract, TheLatestRunsOfAJobAreKnown) {
  const auto in_run = [](size_t run) {
    return StepKey{.job_id = "job", .step = 1, .run_id = std::to_string(run)};
  };
  for (size_t run = 0; run < 2 * kMaxRunsOfAJob; ++run) Put(in_run(run), Part(0, 1, "a"));
  const std::string last = std::to_string(2 * kMaxRunsOfAJob - 1);
  for (size_t run = kMaxRunsOfAJob; run + 1 < 2 * kMaxRunsOfAJob; ++run) {
    EXPECT_EQ(Put(in_run(run), Part(0, 1, "a")).current_run, last);
  }
}

TEST_P(StepStoreContract, AStepThatWasLostIsPutBackWithItsOutcome) {
  const WholeStep whole = {.terms = "terms", .contents = {"a", "b", "c"}, .outcome = "outcome"};
  EXPECT_TRUE(store().Restore(key_, whole).value());
  EXPECT_EQ(Progress(1).outcome, "outcome");
  EXPECT_THAT(Contents(key_, 1), ::testing::ElementsAre("a", "b", "c"));
  EXPECT_EQ(Put(Part(1, 3, "b")).outcome, "outcome");
  EXPECT_EQ(Put(Part(1, 3, "B")).verdict, PartReceipt::Verdict::kOtherContent);

  // A step that began anew with the same parts continues as it is.
  const StepKey begun = {.job_id = "job", .step = 8};
  const PartReceipt receipt = Put(begun, Part(2, 3, "c"));
  EXPECT_TRUE(store().Restore(begun, whole).value());
  EXPECT_EQ(store().Progress(begun, "")->incarnation, receipt.incarnation);
  EXPECT_EQ(Put(begun, Part(0, 3, "a")).outcome, "outcome");
  // A step with an outcome keeps it.
  const StepKey planned = {.job_id = "job", .step = 9};
  for (uint32_t worker = 0; worker < 3; ++worker) {
    Put(planned, Part(worker, 3, whole.contents[worker]));
  }
  ASSERT_TRUE(PutOutcome(planned, "another").ok());
  EXPECT_TRUE(store().Restore(planned, whole).value());
  EXPECT_EQ(store().Progress(planned, "")->outcome, "another");
  // Both live for their retention from now on.
  stores_->Advance(3 * kPause);
  EXPECT_EQ(store().Progress(begun, "")->outcome, "outcome");
  stores_->Advance(kPause);
  EXPECT_TRUE(store().Progress(begun, "")->arrived.empty());
}

TEST_P(StepStoreContract, AStepIsNotPutBackInTheWayOfAnother) {
  const WholeStep whole = {.terms = "terms", .contents = {"a", "b"}, .outcome = "outcome"};
  Put(Part(1, 2, "B"));
  EXPECT_FALSE(store().Restore(key_, whole).value());
  EXPECT_THAT(Progress().arrived, ::testing::ElementsAre(1));
  EXPECT_FALSE(Progress().outcome.has_value());
  const StepKey key = {.job_id = "job", .step = 8};
  StepPart other = Part(1, 2, "b");
  other.terms = "other terms";
  Put(key, other);
  EXPECT_FALSE(store().Restore(key, whole).value());
}

TEST_P(StepStoreContract, ListenersOfAllReplicasHearThatAStepIsWaitedForAndIncomplete) {
  std::atomic<int> heard = 0;
  store(1).SetListener([this, &heard](const StepKey& key, StepEvent event) {
    if (key == key_ && event == StepEvent::kIncomplete) ++heard;
  });
  Put(Part(0, 2, "a"));
  stores_->AwaitNotifications();
  EXPECT_EQ(heard, 0);
  ASSERT_TRUE(store(0).Progress(key_, "").ok());
  stores_->AwaitNotifications();
  EXPECT_EQ(heard, 0) << "nobody waits";
  ASSERT_TRUE(store(0).Progress(key_, "0").ok());
  stores_->AwaitNotifications();
  EXPECT_EQ(heard, 1);
  Put(Part(1, 2, "b"));
  ASSERT_TRUE(store(0).Progress(key_, "0").ok());
  stores_->AwaitNotifications();
  EXPECT_EQ(heard, 1) << "it is complete";
  store(1).SetListener(nullptr);
}

TEST_P(StepStoreContract, AListenerMayCallTheStore) {
  std::atomic<bool> complete = false;
  store(0).SetListener([this, &complete](const StepKey& key, StepEvent) {
    const absl::StatusOr<StepProgress> progress = store(0).Progress(key, "");
    if (progress.ok() && progress->complete) complete = true;
  });
  Put(Part(0, 1, "a"), 1);
  stores_->AwaitNotifications();
  EXPECT_TRUE(complete);
  store(0).SetListener(nullptr);
}

TEST_P(StepStoreContract, OfConcurrentWritersOneCompletesAndOneOutcomeStands) {
  constexpr uint32_t kWorkers = 8;
  for (uint64_t step = 0; step < 20; ++step) {
    const StepKey key = {.job_id = "race", .step = step};
    std::array<std::string, kWorkers> outcomes;
    std::atomic<uint32_t> saw_complete = 0;
    std::latch start(kWorkers);
    {
      std::vector<std::jthread> threads;
      for (uint32_t worker = 0; worker < kWorkers; ++worker) {
        threads.emplace_back([&, worker] {
          StepStore& mine = store(static_cast<int>(worker % 2));
          start.arrive_and_wait();
          const auto receipt = mine.PutPart(key, Part(worker, kWorkers, std::to_string(worker)));
          if (!receipt.ok() || !receipt->complete) return;
          ++saw_complete;
          const auto stands =
              mine.PutOutcome(key, receipt->incarnation, {.bytes = std::to_string(worker)});
          outcomes[worker] = stands.ok() ? stands->bytes : "failed";
        });
      }
    }
    // Nobody offers a part twice, so whoever sees the step complete brought the last one.
    EXPECT_EQ(saw_complete, 1);
    const absl::StatusOr<StepProgress> progress = store().Progress(key, "");
    ASSERT_TRUE(progress.ok() && progress->complete);
    for (const std::string& outcome : outcomes) {
      if (outcome.empty()) continue;
      EXPECT_EQ(outcome, progress->outcome);
    }
  }
}

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SERVER_STORE_STEP_STORE_CONTRACT_H_
