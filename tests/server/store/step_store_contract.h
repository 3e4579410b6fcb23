// What every StepStore promises, as tests. A program that has a store instantiates them:
//
//   INSTANTIATE_TEST_SUITE_P(Memory, StepStoreContract,
//                            ::testing::Values(StepStoresFactory{"MemoryStepStore", MakeStores}));
//
// Included once in a program.

#ifndef BATCHPLAN_TESTS_SERVER_STORE_STEP_STORE_CONTRACT_H_
#define BATCHPLAN_TESTS_SERVER_STORE_STEP_STORE_CONTRACT_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <latch>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "server/store/step_store.h"
#include "tests/support/generators.h"

namespace batchplan::testing {

// A store with nothing in it, as two replicas see it.
class StepStores {
 public:
  virtual ~StepStores() = default;

  // Of replica 0 or 1; may be the same object.
  virtual StepStore& store(int replica) = 0;

  // Lets time pass, for all that is stored.
  virtual void Advance(absl::Duration by) = 0;

  // Returns once the listeners have been called for all that has happened.
  virtual void AwaitNotifications() = 0;
};

struct StepStoresFactory {
  std::string name;
  std::function<std::unique_ptr<StepStores>(const StepStoreOptions&)> make;

  friend void PrintTo(const StepStoresFactory& factory, std::ostream* out) { *out << factory.name; }
};

// Lifetimes that no sum of kPause equals.
inline constexpr absl::Duration kTimeToLive = absl::Minutes(10);
inline constexpr absl::Duration kRetention = absl::Minutes(25);
inline constexpr absl::Duration kPause = absl::Minutes(7);

class StepStoreContract : public ::testing::TestWithParam<StepStoresFactory> {
 protected:
  StepStore& store(int replica = 0) { return stores_->store(replica); }

  // The receipt, of a call that must succeed.
  PartReceipt Put(const StepPart& part, int replica = 0) { return Put(key_, part, replica); }
  PartReceipt Put(const StepKey& key, const StepPart& part, int replica = 0) {
    absl::StatusOr<PartReceipt> receipt = store(replica).PutPart(key, part);
    EXPECT_TRUE(receipt.ok()) << receipt.status();
    return receipt.ok() ? *receipt : PartReceipt();
  }
  StepProgress Progress(int replica = 0) {
    absl::StatusOr<StepProgress> progress = store(replica).Progress(key_);
    EXPECT_TRUE(progress.ok()) << progress.status();
    return progress.ok() ? *progress : StepProgress();
  }

  static StepPart Part(uint32_t worker, uint32_t world_size, std::string content) {
    return {.worker = worker, .world_size = world_size, .terms = "terms", .content = content};
  }

  const StepKey key_ = {.job_id = "job", .step = 7};
  std::unique_ptr<StepStores> stores_ =
      GetParam().make({.time_to_live = kTimeToLive, .retention = kRetention});
};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(StepStoreContract);

TEST_P(StepStoreContract, AnUnknownStepHasNothing) {
  const StepProgress progress = Progress();
  EXPECT_TRUE(progress.arrived.empty());
  EXPECT_FALSE(progress.complete);
  EXPECT_FALSE(progress.outcome.has_value());
  EXPECT_EQ(store().Parts(key_).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store().PutOutcome(key_, "o").status().code(), absl::StatusCode::kNotFound);
}

TEST_P(StepStoreContract, AStepIsCompleteWithItsLastPartAndEveryReplicaSeesIt) {
  EXPECT_FALSE(Put(Part(2, 3, "two")).complete);
  EXPECT_FALSE(Put(Part(0, 3, "zero"), 1).complete);
  EXPECT_THAT(Progress(1).arrived, ::testing::ElementsAre(0, 2));
  EXPECT_FALSE(Progress(0).complete);
  EXPECT_EQ(store().Parts(key_).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store().PutOutcome(key_, "o").status().code(), absl::StatusCode::kNotFound);

  EXPECT_TRUE(Put(Part(1, 3, "one"), 1).complete);
  for (int replica : {0, 1}) {
    EXPECT_THAT(Progress(replica).arrived, ::testing::ElementsAre(0, 1, 2));
    EXPECT_TRUE(Progress(replica).complete);
    EXPECT_THAT(store(replica).Parts(key_).value(), ::testing::ElementsAre("zero", "one", "two"));
  }
}

TEST_P(StepStoreContract, AWorldOfOneIsCompleteAtOnce) {
  EXPECT_TRUE(Put(Part(0, 1, "")).complete);
  EXPECT_THAT(store().Parts(key_).value(), ::testing::ElementsAre(""));
}

TEST_P(StepStoreContract, PartsComeInTheOrderOfTheirWorkersAsNumbers) {
  std::vector<std::string> contents;
  for (uint32_t worker = 0; worker < 25; ++worker) contents.push_back(std::to_string(worker));
  for (uint32_t i = 0; i < 25; ++i) {
    const uint32_t worker = (i * 7 + 3) % 25;
    EXPECT_EQ(Put(Part(worker, 25, contents[worker])).complete, i == 24);
  }
  EXPECT_EQ(store().Parts(key_).value(), contents);
}

TEST_P(StepStoreContract, BytesAreKeptAsTheyAre) {
  std::string every_byte;
  for (int byte = 0; byte < 256; ++byte) every_byte += static_cast<char>(byte);
  const StepKey key = {.job_id = every_byte + "{}:*/ \r\n", .step = ~uint64_t{0}};
  StepPart part = {.worker = 0, .world_size = 1, .terms = every_byte, .content = every_byte};
  EXPECT_TRUE(Put(key, part).complete);
  EXPECT_THAT(store(1).Parts(key).value(), ::testing::ElementsAre(every_byte));
  EXPECT_EQ(store(1).PutOutcome(key, every_byte).value(), every_byte);
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
  ASSERT_TRUE(store().PutOutcome(key_, "outcome").ok());
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
  EXPECT_THAT(store().Parts(key_).value(), ::testing::ElementsAre("a", "b"));
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
  // Terms come before content.
  other = Part(1, 2, "B");
  other.terms = "other terms";
  EXPECT_EQ(Put(other).verdict, PartReceipt::Verdict::kOtherTerms);
}

TEST_P(StepStoreContract, TheFirstOutcomeStands) {
  Put(Part(0, 1, "a"));
  EXPECT_EQ(store(0).PutOutcome(key_, "first").value(), "first");
  EXPECT_EQ(store(1).PutOutcome(key_, "second").value(), "first");
  EXPECT_EQ(store(0).PutOutcome(key_, "third").value(), "first");
  EXPECT_EQ(Progress(1).outcome, "first");
}

TEST_P(StepStoreContract, StepsAndJobsAreApart) {
  for (const char* job : {"a", "b"}) {
    for (uint64_t step : {1, 2}) {
      const std::string content = job + std::to_string(step);
      EXPECT_TRUE(Put({.job_id = job, .step = step}, Part(0, 1, content)).complete);
    }
  }
  EXPECT_EQ(store().PutOutcome({.job_id = "a", .step = 1}, "o").value(), "o");
  EXPECT_THAT(store().Parts({.job_id = "a", .step = 2}).value(), ::testing::ElementsAre("a2"));
  EXPECT_THAT(store().Parts({.job_id = "b", .step = 1}).value(), ::testing::ElementsAre("b1"));
  EXPECT_FALSE(store().Progress({.job_id = "b", .step = 1})->outcome.has_value());
}

TEST_P(StepStoreContract, AStepIsForgottenWhenNoPartHasComeForItsTimeToLive) {
  Put(Part(0, 3, "a"));
  stores_->Advance(kPause);
  Put(Part(1, 3, "b"));
  stores_->Advance(kPause);
  EXPECT_THAT(Progress().arrived, ::testing::ElementsAre(0, 1));
  // A part that is in already has come all the same, but one that is refused has not.
  Put(Part(0, 3, "a"));
  stores_->Advance(kPause);
  EXPECT_THAT(Progress(1).arrived, ::testing::ElementsAre(0, 1));
  EXPECT_EQ(Put(Part(0, 3, "A")).verdict, PartReceipt::Verdict::kOtherContent);
  stores_->Advance(kPause);
  EXPECT_TRUE(Progress().arrived.empty());
  // It begins anew, with other terms if need be.
  StepPart other = Part(2, 3, "c");
  other.terms = "other terms";
  EXPECT_EQ(Put(other).verdict, PartReceipt::Verdict::kAccepted);
  EXPECT_THAT(Progress(1).arrived, ::testing::ElementsAre(2));
}

TEST_P(StepStoreContract, AStepWithAnOutcomeLivesForItsRetentionWhateverComes) {
  Put(Part(0, 2, "a"));
  Put(Part(1, 2, "b"));
  stores_->Advance(kPause);
  ASSERT_TRUE(store().PutOutcome(key_, "outcome").ok());
  stores_->Advance(3 * kPause);
  EXPECT_EQ(Put(Part(0, 2, "a"), 1).outcome, "outcome");
  EXPECT_EQ(store().PutOutcome(key_, "late").value(), "outcome");
  EXPECT_EQ(store().Parts(key_)->size(), 2);
  stores_->Advance(kPause);
  EXPECT_TRUE(Progress().arrived.empty());
  EXPECT_FALSE(Progress().outcome.has_value());
  EXPECT_EQ(store().Parts(key_).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store().PutOutcome(key_, "o").status().code(), absl::StatusCode::kNotFound);
}

TEST_P(StepStoreContract, ListenersOfAllReplicasHearOfTheLastPartAndOfTheOutcome) {
  std::atomic<int> heard = 0;
  store(1).SetListener([this, &heard](const StepKey& key) {
    if (key == key_) ++heard;
  });
  Put(Part(0, 2, "a"));
  Put(Part(1, 2, "b"));
  stores_->AwaitNotifications();
  const int after_last_part = heard;
  EXPECT_GE(after_last_part, 1);
  ASSERT_TRUE(store(0).PutOutcome(key_, "outcome").ok());
  stores_->AwaitNotifications();
  EXPECT_GT(heard, after_last_part);

  store(1).SetListener(nullptr);
  const int before = heard;
  Put({.job_id = "job", .step = 8}, Part(0, 1, "a"));
  Put(Part(0, 2, "a"));
  stores_->AwaitNotifications();
  EXPECT_EQ(heard, before);
}

TEST_P(StepStoreContract, AListenerMayCallTheStore) {
  std::atomic<bool> complete = false;
  store(0).SetListener([this, &complete](const StepKey& key) {
    const absl::StatusOr<StepProgress> progress = store(0).Progress(key);
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
          outcomes[worker] = mine.PutOutcome(key, std::to_string(worker)).value_or("failed");
        });
      }
    }
    // Nobody offers twice, so whoever sees the step complete brought the last part.
    EXPECT_EQ(saw_complete, 1);
    const absl::StatusOr<StepProgress> progress = store().Progress(key);
    ASSERT_TRUE(progress.ok() && progress->complete);
    for (const std::string& outcome : outcomes) {
      if (outcome.empty()) continue;
      EXPECT_EQ(outcome, progress->outcome);
    }
  }
}

// The contract once more, as simply as it can be said.
class StepStoreModel {
 public:
  PartReceipt PutPart(const StepKey& key, const StepPart& part) {
    if (steps_.contains(key) && steps_[key].terms != part.terms) {
      PartReceipt refused;
      refused.verdict = PartReceipt::Verdict::kOtherTerms;
      refused.terms = steps_[key].terms;
      refused.terms_worker = steps_[key].terms_worker;
      return refused;
    }
    if (!steps_.contains(key)) {
      Step& begun = steps_[key];
      begun.terms = part.terms;
      begun.terms_worker = part.worker;
      begun.world_size = part.world_size;
    }
    Step& step = steps_[key];
    if (step.parts.contains(part.worker) && step.parts[part.worker] != part.content) {
      PartReceipt refused;
      refused.verdict = PartReceipt::Verdict::kOtherContent;
      return refused;
    }
    step.parts[part.worker] = part.content;
    if (!step.outcome) step.left = kTimeToLive;
    PartReceipt receipt;
    receipt.complete = step.complete();
    receipt.outcome = step.outcome;
    return receipt;
  }

  StepProgress Progress(const StepKey& key) {
    StepProgress progress;
    if (!steps_.contains(key)) return progress;
    for (const auto& [worker, content] : steps_[key].parts) progress.arrived.push_back(worker);
    progress.complete = steps_[key].complete();
    progress.outcome = steps_[key].outcome;
    return progress;
  }

  std::optional<std::vector<std::string>> Parts(const StepKey& key) {
    if (!steps_.contains(key) || !steps_[key].complete()) return std::nullopt;
    std::vector<std::string> contents;
    for (const auto& [worker, content] : steps_[key].parts) contents.push_back(content);
    return contents;
  }

  std::optional<std::string> PutOutcome(const StepKey& key, const std::string& outcome) {
    if (!steps_.contains(key) || !steps_[key].complete()) return std::nullopt;
    Step& step = steps_[key];
    if (!step.outcome) {
      step.outcome = outcome;
      step.left = kRetention;
    }
    return step.outcome;
  }

  void Advance(absl::Duration by) {
    for (auto& [key, step] : steps_) step.left -= by;
    std::erase_if(steps_,
                  [](const auto& entry) { return entry.second.left <= absl::ZeroDuration(); });
  }

 private:
  struct Step {
    std::string terms;
    uint32_t terms_worker = 0;
    uint32_t world_size = 0;
    std::map<uint32_t, std::string> parts;
    std::optional<std::string> outcome;
    absl::Duration left;

    bool complete() const { return parts.size() == world_size; }
  };
  std::map<StepKey, Step> steps_;
};

TEST_P(StepStoreContract, RandomCallsAreAnsweredAsTheModelAnswersThem) {
  for (uint64_t seed = 0; seed < Cases(20); ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    RandomStream random(seed);
    stores_ = GetParam().make({.time_to_live = kTimeToLive, .retention = kRetention});
    StepStoreModel model;
    for (int call = 0; call < 150; ++call) {
      StepStore& any = store(static_cast<int>(random.Between(0, 1)));
      const StepKey key = {.job_id = random.Chance(50) ? "a" : "b", .step = random.Between(1, 2)};
      const uint64_t kind = random.Between(0, 99);
      if (kind < 60) {
        // Steps of job a have three workers, those of job b two.
        const uint32_t world_size = key.job_id == "a" ? 3 : 2;
        const StepPart part = {
            .worker = static_cast<uint32_t>(random.Between(0, world_size - 1)),
            .world_size = world_size,
            .terms = key.job_id + (random.Chance(10) ? " other" : " terms"),
            .content = random.Chance(10) ? "other" : "content",
        };
        const absl::StatusOr<PartReceipt> receipt = any.PutPart(key, part);
        const PartReceipt expected = model.PutPart(key, part);
        ASSERT_TRUE(receipt.ok()) << receipt.status();
        ASSERT_EQ(receipt->verdict, expected.verdict);
        ASSERT_EQ(receipt->terms, expected.terms);
        ASSERT_EQ(receipt->terms_worker, expected.terms_worker);
        ASSERT_EQ(receipt->complete, expected.complete);
        ASSERT_EQ(receipt->outcome, expected.outcome);
      } else if (kind < 75) {
        const absl::StatusOr<StepProgress> progress = any.Progress(key);
        const StepProgress expected = model.Progress(key);
        ASSERT_TRUE(progress.ok()) << progress.status();
        ASSERT_EQ(progress->arrived, expected.arrived);
        ASSERT_EQ(progress->complete, expected.complete);
        ASSERT_EQ(progress->outcome, expected.outcome);
      } else if (kind < 85) {
        const absl::StatusOr<std::vector<std::string>> parts = any.Parts(key);
        const std::optional<std::vector<std::string>> expected = model.Parts(key);
        ASSERT_EQ(parts.ok(), expected.has_value()) << parts.status();
        if (expected) {
          ASSERT_EQ(*parts, *expected);
        } else {
          ASSERT_EQ(parts.status().code(), absl::StatusCode::kNotFound);
        }
      } else if (kind < 95) {
        const std::string outcome = random.Chance(50) ? "x" : "y";
        const absl::StatusOr<std::string> stands = any.PutOutcome(key, outcome);
        const std::optional<std::string> expected = model.PutOutcome(key, outcome);
        ASSERT_EQ(stands.ok(), expected.has_value()) << stands.status();
        if (expected) {
          ASSERT_EQ(*stands, *expected);
        } else {
          ASSERT_EQ(stands.status().code(), absl::StatusCode::kNotFound);
        }
      } else {
        stores_->Advance(kPause);
        model.Advance(kPause);
      }
    }
  }
}

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SERVER_STORE_STEP_STORE_CONTRACT_H_
