#include "server/recent/recent_plans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

namespace batchplan {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

const absl::Time kStart = absl::FromUnixSeconds(1'700'000'000);

// A whole plan of `bytes` bytes; its step identifies it.
WholePlan Whole(uint64_t step, size_t bytes) {
  auto request = std::make_shared<v1::PlanBatchRequest>();
  request->set_step(step);
  return {.request = request,
          .response = [] { return std::make_shared<const v1::PlanBatchResponse>(); },
          .bytes = bytes};
}

class RecentPlansTest : public testing::Test {
 protected:
  void Record(const std::string& job, uint64_t step, absl::Duration after, size_t bytes = 1) {
    recent_.Record({.job_id = job}, step, kStart + after, [&] { return Whole(step, bytes); });
  }

  std::vector<std::string> Ids() const {
    std::vector<std::string> ids;
    for (const RecentPlans::Job& job : recent_.Jobs()) ids.push_back(job.id);
    return ids;
  }

  // The step of the job's whole plan; -1 if there is none.
  int64_t WholeStep(const std::string& job) const {
    const auto whole = recent_.Whole(job);
    return whole ? static_cast<int64_t>(whole->request->step()) : -1;
  }

  RecentPlans recent_{{.plans_a_job = 3, .max_jobs = 2, .max_bytes = 10}};
};

TEST_F(RecentPlansTest, NothingWasPlanned) {
  EXPECT_THAT(Ids(), ElementsAre());
  EXPECT_FALSE(recent_.Whole("").has_value());
}

TEST_F(RecentPlansTest, TheLastPlansOfAJobAreKept) {
  for (uint64_t step = 0; step < 10; ++step) Record("a", step, absl::Seconds(step));
  const std::vector<RecentPlans::Job> jobs = recent_.Jobs();
  ASSERT_THAT(jobs, SizeIs(1));
  ASSERT_THAT(jobs[0].plans, SizeIs(3));
  EXPECT_EQ(jobs[0].plans[0].step, 7U);
  EXPECT_EQ(jobs[0].plans[2].step, 9U);
  EXPECT_EQ(jobs[0].plans[2].time, kStart + absl::Seconds(9));
}

TEST_F(RecentPlansTest, PassesAreTakenTogether) {
  const PassRecord train = {.metrics = {.microbatches = 4,
                                        .lower_bound_microbatches = 3,
                                        .true_tokens = 300,
                                        .scheduled_tokens = 320,
                                        .naive_tokens = 900,
                                        .step_efficiency = 0.9},
                            .budget_tokens = 400};
  const PassRecord logprobs = {.metrics = {.microbatches = 1,
                                           .lower_bound_microbatches = 1,
                                           .true_tokens = 600,
                                           .scheduled_tokens = 300,
                                           .naive_tokens = 900,
                                           .step_efficiency = 0.7,
                                           .laid_tokens = 300},
                               .budget_tokens = 800};
  recent_.Record({.job_id = "a",
                  .preset = "balanced",
                  .sequences = 20,
                  .planning_seconds = 0.25,
                  .passes = std::vector{train, logprobs}},
                 7, kStart, [] { return Whole(7, 1); });
  const RecentPlan plan = recent_.Jobs().at(0).plans.at(0);
  EXPECT_EQ(plan.preset, "balanced");
  EXPECT_EQ(plan.sequences, 20U);
  EXPECT_EQ(plan.planning_seconds, 0.25);
  EXPECT_EQ(plan.microbatches, 5U);
  EXPECT_EQ(plan.lower_bound_microbatches, 4U);
  EXPECT_DOUBLE_EQ(plan.bin_utilization, 0.5);
  EXPECT_DOUBLE_EQ(plan.step_efficiency, 0.7);
  EXPECT_DOUBLE_EQ(plan.padding_removed, 1 - 620.0 / 1800);
}

TEST_F(RecentPlansTest, WhatAStepTookStandsWithItsLatestPlan) {
  Record("a", 1, absl::Seconds(1));
  Record("a", 1, absl::Seconds(2));
  Record("a", 2, absl::Seconds(3));
  recent_.RecordStep("a", 1, {.measured_seconds = 2.5, .predicted_seconds = 2});
  // No plans are kept for these.
  recent_.RecordStep("a", 7, {.measured_seconds = 1});
  recent_.RecordStep("b", 1, {.measured_seconds = 1});
  EXPECT_THAT(Ids(), ElementsAre("a"));
  const std::vector<RecentPlan> plans = recent_.Jobs().at(0).plans;
  ASSERT_THAT(plans, SizeIs(3));
  EXPECT_FALSE(plans[0].measured.has_value());
  EXPECT_FALSE(plans[2].measured.has_value());
  ASSERT_TRUE(plans[1].measured.has_value());
  EXPECT_EQ(plans[1].measured->measured_seconds, 2.5);
  EXPECT_EQ(plans[1].measured->predicted_seconds, 2);
}

TEST_F(RecentPlansTest, TheIdleJobGivesWay) {
  Record("a", 1, absl::Seconds(1));
  Record("b", 1, absl::Seconds(2));
  Record("a", 2, absl::Seconds(3));
  EXPECT_THAT(Ids(), ElementsAre("a", "b"));
  Record("c", 1, absl::Seconds(4));
  EXPECT_THAT(Ids(), ElementsAre("c", "a"));
  EXPECT_EQ(WholeStep("b"), -1);
}

TEST_F(RecentPlansTest, AWholePlanIsRenewedOnceASecond) {
  Record("a", 1, absl::ZeroDuration());
  EXPECT_EQ(WholeStep("a"), 1);
  Record("a", 2, absl::Milliseconds(999));
  EXPECT_EQ(WholeStep("a"), 1);
  Record("a", 3, absl::Milliseconds(1000));
  EXPECT_EQ(WholeStep("a"), 3);
  // The clock was set back.
  Record("a", 4, absl::Seconds(-100));
  EXPECT_EQ(WholeStep("a"), 4);
}

TEST_F(RecentPlansTest, WholePlansGiveWayByBytes) {
  Record("a", 1, absl::Seconds(1), 6);
  Record("b", 1, absl::Seconds(2), 4);
  EXPECT_EQ(WholeStep("a"), 1);
  Record("b", 2, absl::Seconds(4), 5);
  EXPECT_EQ(WholeStep("a"), -1);
  EXPECT_EQ(WholeStep("b"), 2);
  // A plan that is too large leaves no plan, not an outdated one.
  Record("b", 3, absl::Seconds(6), 11);
  EXPECT_EQ(WholeStep("b"), -1);
  Record("a", 2, absl::Seconds(7), 10);
  EXPECT_EQ(WholeStep("a"), 2);
  EXPECT_THAT(recent_.Jobs().at(1).plans, SizeIs(3));
}

TEST_F(RecentPlansTest, ALargePlanIsNotKept) {
  RecentPlans recent({.max_bytes = 10, .max_plan_bytes = 4});
  recent.Record({.job_id = "a"}, 1, kStart, [] { return Whole(1, 5); });
  EXPECT_FALSE(recent.Whole("a").has_value());
  recent.Record({.job_id = "b"}, 1, kStart, [] { return Whole(1, 4); });
  EXPECT_TRUE(recent.Whole("b").has_value());
}

TEST_F(RecentPlansTest, ALaterPlanThatIsFasterStays) {
  recent_.Record({.job_id = "a"}, 1, kStart, [&] {
    Record("a", 2, absl::Seconds(2));
    return Whole(1, 1);
  });
  EXPECT_EQ(WholeStep("a"), 2);
}

TEST_F(RecentPlansTest, ManyThreadsRecordAndLook) {
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([this, thread] {
      for (uint64_t step = 0; step < 500; ++step) {
        Record(absl::StrCat("job-", (step + thread) % 5), step, absl::Seconds(step), step % 12);
        for (const RecentPlans::Job& job : recent_.Jobs()) recent_.Whole(job.id);
      }
    });
  }
  threads.clear();
  EXPECT_THAT(Ids(), SizeIs(2));
}

}  // namespace
}  // namespace batchplan
