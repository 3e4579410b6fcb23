// A model of a StepStore, and the test that a store answers random calls like the model.
//
// Instantiated with the contract's tests; included once in a program.

#ifndef BATCHPLAN_TESTS_SERVER_STORE_STEP_STORE_MODEL_H_
#define BATCHPLAN_TESTS_SERVER_STORE_STEP_STORE_MODEL_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/store/step_store.h"
#include "tests/server/store/step_stores.h"
#include "tests/support/generators.h"

namespace batchplan::testing {

// The specification of a step store in its simplest form, for jobs without runs.
class StepStoreModel {
 public:
  PartReceipt PutPart(const StepKey& key, const StepPart& part) {
    PartReceipt receipt;
    if (steps_.contains(key)) {
      const Step& step = steps_[key];
      const bool is_in = step.parts.contains(part.worker);
      if (step.terms != part.terms) {
        receipt.verdict = PartReceipt::Verdict::kOtherTerms;
        receipt.terms = step.terms;
        receipt.terms_worker = step.terms_worker;
      } else if (is_in && step.parts.at(part.worker) != part.content) {
        receipt.verdict = PartReceipt::Verdict::kOtherContent;
      }
      if (receipt.verdict != PartReceipt::Verdict::kAccepted) {
        if (!step.gives_way()) return receipt;
        receipt = {};
        steps_.erase(key);
      }
    }
    if (!steps_.contains(key)) {
      Step& begun = steps_[key];
      begun.terms = part.terms;
      begun.terms_worker = part.worker;
      begun.world_size = part.world_size;
    }
    Step& step = steps_[key];
    step.parts[part.worker] = part.content;
    if (!step.outcome) {
      step.left = kTimeToLive;
      if (!part.waits_at.empty()) step.waits_at.insert(part.waits_at);
    }
    receipt.complete = step.complete();
    receipt.outcome = step.outcome;
    return receipt;
  }

  StepProgress Progress(const StepKey& key, const std::string& waits_at) {
    StepProgress progress;
    if (!steps_.contains(key)) return progress;
    Step& step = steps_[key];
    for (const auto& [worker, content] : step.parts) progress.arrived.push_back(worker);
    progress.complete = step.complete();
    progress.outcome = step.outcome;
    if (step.complete() && !step.outcome) {
      if (step.planner.empty()) step.planner = waits_at;
      progress.planner = step.planner;
    }
    if (!step.outcome && !waits_at.empty()) step.waits_at.insert(waits_at);
    return progress;
  }

  void Leave(const StepKey& key, const std::string& waits_at) {
    if (steps_.contains(key)) steps_[key].waits_at.erase(waits_at);
  }

  std::optional<std::vector<std::string>> Parts(const StepKey& key) {
    if (!steps_.contains(key) || !steps_[key].complete()) return std::nullopt;
    std::vector<std::string> contents;
    for (const auto& [worker, content] : steps_[key].parts) contents.push_back(content);
    return contents;
  }

  std::optional<std::string> PutOutcome(const StepKey& key, const StepOutcome& outcome) {
    if (!steps_.contains(key) || !steps_[key].complete()) return std::nullopt;
    Step& step = steps_[key];
    if (!step.outcome) {
      step.outcome = outcome.bytes;
      step.refusal = outcome.refusal;
      step.left = kRetention;
    }
    return step.outcome;
  }

  void MarkServed(const StepKey& key, uint32_t worker) {
    if (steps_.contains(key) && steps_[key].outcome) steps_[key].served.insert(worker);
  }

  bool Restore(const StepKey& key, const WholeStep& whole) {
    if (steps_.contains(key)) {
      const Step& step = steps_[key];
      if (step.terms != whole.terms) return false;
      for (const auto& [worker, content] : step.parts) {
        if (content != whole.contents[worker]) return false;
      }
      if (step.outcome) return true;
    }
    Step& step = steps_[key];
    if (step.parts.empty()) step.terms = whole.terms;
    step.world_size = static_cast<uint32_t>(whole.contents.size());
    for (uint32_t worker = 0; worker < step.world_size; ++worker) {
      step.parts[worker] = whole.contents[worker];
    }
    step.outcome = whole.outcome;
    step.left = kRetention;
    return true;
  }

  // Advances by kPause, which is longer than kWaiting and than a replica is believed to plan.
  void Pause() {
    for (auto& [key, step] : steps_) {
      step.left -= kPause;
      step.waits_at.clear();
      step.planner.clear();
    }
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
    bool refusal = false;
    std::string planner;
    std::set<uint32_t> served;
    std::set<std::string> waits_at;
    absl::Duration left;

    bool complete() const { return parts.size() == world_size; }
    bool gives_way() const {
      if (outcome) return refusal || served.size() == world_size;
      return waits_at.empty();
    }
  };
  std::map<StepKey, Step> steps_;
};

TEST_P(StepStoreContract, RandomCallsAreAnsweredAsTheModelAnswersThem) {
  for (uint64_t seed = 0; seed < Cases(20); ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    RandomStream random(seed);
    stores_ = GetParam().make(
        {.time_to_live = kTimeToLive, .retention = kRetention, .waiting = kWaiting});
    StepStoreModel model;
    for (int call = 0; call < 200; ++call) {
      StepStore& any = store(static_cast<int>(random.Between(0, 1)));
      const StepKey key = {.job_id = random.Chance(50) ? "a" : "b", .step = random.Between(1, 2)};
      // Steps of job a have three workers, those of job b have two.
      const uint32_t world_size = key.job_id == "a" ? 3 : 2;
      const std::string terms = key.job_id + (random.Chance(10) ? " other" : " terms");
      const auto content = [&] { return random.Chance(10) ? "other" : "content"; };
      const std::string replica = random.Chance(50) ? "0" : "1";
      const uint64_t kind = random.Between(0, 99);
      if (kind < 45) {
        const StepPart part = {.worker = static_cast<uint32_t>(random.Between(0, world_size - 1)),
                               .world_size = world_size,
                               .terms = terms,
                               .content = content(),
                               .waits_at = random.Chance(70) ? replica : ""};
        const absl::StatusOr<PartReceipt> receipt = any.PutPart(key, part);
        const PartReceipt expected = model.PutPart(key, part);
        ASSERT_TRUE(receipt.ok()) << receipt.status();
        ASSERT_EQ(receipt->verdict, expected.verdict);
        ASSERT_EQ(receipt->terms, expected.terms);
        ASSERT_EQ(receipt->terms_worker, expected.terms_worker);
        ASSERT_EQ(receipt->complete, expected.complete);
        ASSERT_EQ(receipt->outcome, expected.outcome);
      } else if (kind < 55) {
        const std::string waits_at = random.Chance(50) ? replica : "";
        const absl::StatusOr<StepProgress> progress = any.Progress(key, waits_at);
        const StepProgress expected = model.Progress(key, waits_at);
        ASSERT_TRUE(progress.ok()) << progress.status();
        ASSERT_EQ(progress->arrived, expected.arrived);
        ASSERT_EQ(progress->complete, expected.complete);
        ASSERT_EQ(progress->outcome, expected.outcome);
        ASSERT_EQ(progress->planner, expected.planner);
      } else if (kind < 60) {
        ASSERT_TRUE(any.Leave(key, replica).ok());
        model.Leave(key, replica);
      } else if (kind < 65) {
        const absl::StatusOr<StepParts> parts = any.Parts(key);
        const std::optional<std::vector<std::string>> expected = model.Parts(key);
        ASSERT_EQ(parts.ok(), expected.has_value()) << parts.status();
        if (expected) {
          ASSERT_EQ(parts->contents, *expected);
        } else {
          ASSERT_EQ(parts.status().code(), absl::StatusCode::kNotFound);
        }
      } else if (kind < 75) {
        const StepOutcome outcome = {.bytes = random.Chance(50) ? "x" : "y",
                                     .refusal = random.Chance(30)};
        const std::string incarnation = any.Progress(key, "")->incarnation;
        const absl::StatusOr<StandingOutcome> stands = any.PutOutcome(key, incarnation, outcome);
        const std::optional<std::string> expected = model.PutOutcome(key, outcome);
        ASSERT_EQ(stands.ok(), expected.has_value()) << stands.status();
        if (expected) {
          ASSERT_EQ(stands->bytes, *expected);
        } else {
          ASSERT_EQ(stands.status().code(), absl::StatusCode::kNotFound);
        }
      } else if (kind < 90) {
        const auto worker = static_cast<uint32_t>(random.Between(0, world_size - 1));
        const std::string incarnation = any.Progress(key, "")->incarnation;
        ASSERT_TRUE(any.MarkServed(key, incarnation, {worker}).ok());
        model.MarkServed(key, worker);
      } else if (kind < 95) {
        WholeStep whole = {.terms = terms, .contents = {}, .outcome = "restored"};
        for (uint32_t i = 0; i < world_size; ++i) whole.contents.emplace_back(content());
        const absl::StatusOr<bool> restored = any.Restore(key, whole);
        ASSERT_TRUE(restored.ok()) << restored.status();
        ASSERT_EQ(*restored, model.Restore(key, whole));
      } else {
        stores_->Advance(kPause);
        model.Pause();
      }
    }
  }
}

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SERVER_STORE_STEP_STORE_MODEL_H_
