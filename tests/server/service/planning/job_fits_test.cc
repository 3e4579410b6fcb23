#include "server/service/planning/job_fits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/batchplan/v1/convert.h"
#include "server/planner/make_plan.h"
#include "tests/server/fitting/random_fit.h"
#include "tests/server/service/planning/fake_fit_store.h"
#include "tests/server/service/requests.h"
#include "tests/support/captured_log.h"

namespace batchplan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::RandomStream;

// A report of one to eight micro-batches, with peaks.
v1::ReportStepRequest RandomRequest(RandomStream& random, uint64_t step,
                                    const std::string& job = "job") {
  v1::ReportStepRequest request;
  request.set_job_id(job);
  request.set_step(step);
  for (const ReportedMicrobatch& microbatch : testing::RandomReport(random, step).microbatches) {
    v1::MicrobatchTiming* timing = request.add_microbatches();
    timing->set_tokens(microbatch.tokens);
    timing->set_tokens_squared(microbatch.tokens_squared);
    timing->set_milliseconds(microbatch.milliseconds);
    timing->set_peak_bytes(microbatch.peak_bytes);
  }
  return request;
}

std::string Message(const absl::Status& status) { return std::string(status.message()); }

class ReportStepTest : public ::testing::Test {
 protected:
  v1::ReportStepResponse Report(const v1::ReportStepRequest& request) {
    v1::ReportStepResponse response;
    const auto measured = ReportStep(&fits_, "owner", request, &response);
    EXPECT_TRUE(measured.ok()) << measured.status();
    measured_ = measured.value_or(std::nullopt);
    return response;
  }
  absl::Status Refused(const v1::ReportStepRequest& request) {
    v1::ReportStepResponse response;
    return ReportStep(&fits_, "owner", request, &response).status();
  }
  // Reports steps 0 .. steps - 1; returns the last answer.
  v1::ReportStepResponse ReportSteps(uint64_t steps) {
    v1::ReportStepResponse response;
    for (uint64_t step = 0; step < steps; ++step) response = Report(RandomRequest(random_, step));
    return response;
  }

  // Reports 30 steps with loads of these names, and returns the last answer. A unit of the first
  // load costs 0.05 ms; the others have a value of 0.
  v1::ReportStepResponse ReportLoads(const std::vector<std::string>& names) {
    v1::ReportStepResponse response;
    for (uint64_t step = 0; step < 30; ++step) {
      v1::ReportStepRequest request = ReportOf("job", step);
      for (v1::MicrobatchTiming& timing : *request.mutable_microbatches()) {
        const auto patches = static_cast<double>(256 * random_.Between(0, 8));
        timing.set_milliseconds(timing.milliseconds() + 0.05 * patches);
        for (const std::string& name : names) {
          timing.add_loads(name == names.front() ? patches : 0);
        }
      }
      for (const std::string& name : names) request.add_loads(name);
      response = Report(request);
    }
    return response;
  }

  RandomStream random_{1};
  FakeFitStore store_;
  JobFits fits_{&store_};
  // The result of the last report.
  std::optional<MeasuredStep> measured_;
};

TEST_F(ReportStepTest, CoefficientsComeWithTheThirtySecondMicrobatch) {
  uint64_t samples = 0;
  for (uint64_t step = 0; step < 50; ++step) {
    const v1::ReportStepRequest request = RandomRequest(random_, step);
    samples += static_cast<uint64_t>(request.microbatches_size());
    const v1::ReportStepResponse response = Report(request);
    EXPECT_EQ(response.samples(), samples);
    EXPECT_EQ(response.has_fitted(), samples >= 32);
    EXPECT_FALSE(response.already_counted());
  }
}

TEST_F(ReportStepTest, CoefficientsAreTheJobs) {
  const v1::ReportStepResponse response = ReportSteps(200);
  // The costs of RandomReport's device.
  EXPECT_NEAR(response.fitted().per_token(), 0.01, 0.0003);
  EXPECT_NEAR(response.fitted().per_token_squared(), 1e-6, 4e-8);
  EXPECT_NEAR(response.fitted().per_microbatch(), 30, 1);
  EXPECT_FALSE(response.fitted().fitted());
  EXPECT_GT(response.fit_error(), 0.01);
  EXPECT_LT(response.fit_error(), 0.15);
  EXPECT_LT(response.outlier_share(), 0.2);
}

TEST_F(ReportStepTest, WithSequencesTheirCostIsFittedToo) {
  v1::ReportStepResponse response;
  for (uint64_t step = 0; step < 50; ++step) {
    v1::ReportStepRequest request = ReportOf("job", step);
    for (v1::MicrobatchTiming& timing : *request.mutable_microbatches()) {
      // All sequences have one length.
      const uint64_t length = timing.tokens_squared() / timing.tokens();
      timing.set_sequences(static_cast<uint32_t>(timing.tokens() / length));
      timing.set_milliseconds(timing.milliseconds() + 2.0 * timing.sequences());
    }
    response = Report(request);
  }
  EXPECT_NEAR(response.fitted().per_token(), 0.01, 1e-6);
  EXPECT_NEAR(response.fitted().per_sequence(), 2, 1e-3);
}

// Each of 4 ranks that share a micro-batch, on one of 8 stages.
TEST_F(ReportStepTest, CostsOfAGroupOnAStageAreThoseOfTheWholeModelOnOneRank) {
  v1::ReportStepResponse response;
  for (uint64_t step = 0; step < 50; ++step) {
    v1::ReportStepRequest request = ReportOf("job", step);
    for (v1::MicrobatchTiming& timing : *request.mutable_microbatches()) {
      timing.set_context_parallel(4);
      timing.set_model_share(0.125);
      timing.set_milliseconds(((timing.milliseconds() - 3) / 4 + 3) / 8);
    }
    response = Report(request);
  }
  EXPECT_NEAR(response.fitted().per_token(), 0.01, 1e-5);
  EXPECT_NEAR(response.fitted().per_token_squared(), 2e-6, 2e-9);
  EXPECT_NEAR(response.fitted().per_microbatch(), 3, 3e-3);
}

// Each of two ranks exchanges 0.002 for a token that the other holds.
TEST_F(ReportStepTest, GroupsOfSeveralSizesTellWhatTheyExchange) {
  const auto report = [&](const std::string& job, const std::vector<uint32_t>& sizes) {
    RandomStream random(3);
    v1::ReportStepRequest request;
    request.set_job_id(job);
    for (uint64_t i = 0; i < 48; ++i) {
      const TimingSample sample = testing::VariedMicrobatch(random);
      const uint32_t ranks = sizes[i % sizes.size()];
      v1::MicrobatchTiming* timing = request.add_microbatches();
      timing->set_tokens(static_cast<uint64_t>(sample.tokens));
      timing->set_tokens_squared(static_cast<uint64_t>(sample.tokens_squared));
      timing->set_context_parallel(ranks);
      timing->set_milliseconds((0.01 * sample.tokens + 1e-6 * sample.tokens_squared) / ranks + 30 +
                               (ranks == 2 ? 0.001 * sample.tokens : 0));
    }
    return Report(request);
  };
  const v1::ReportStepResponse several = report("several", {1, 2});
  EXPECT_THAT(several.context_sizes(), ::testing::ElementsAre(1, 2));
  EXPECT_NEAR(several.fitted().per_token(), 0.01, 1e-5);
  ASSERT_EQ(several.fitted().exchange_size(), 1);
  EXPECT_EQ(several.fitted().exchange(0).up_to_size(), 0U);
  EXPECT_NEAR(several.fitted().exchange(0).per_token(), 0.002, 1e-5);

  // If some sizes exchange for nothing, larger sizes than all reported are not taken to be free
  // too.
  const v1::ReportStepResponse uncertain = report("uncertain", {1, 2, 4});
  ASSERT_EQ(uncertain.fitted().exchange_size(), 3);
  EXPECT_EQ(uncertain.fitted().exchange(1).up_to_size(), 4U);
  EXPECT_EQ(uncertain.fitted().exchange(1).per_token(), 0);
  EXPECT_EQ(uncertain.fitted().exchange(2).up_to_size(), 0U);
  EXPECT_NEAR(uncertain.fitted().exchange(2).per_token(), 0.002, 1e-5);

  const v1::ReportStepResponse single = report("single", {2});
  EXPECT_THAT(single.context_sizes(), ::testing::ElementsAre(2));
  EXPECT_EQ(single.fitted().exchange_size(), 0);
  EXPECT_NEAR(single.fitted().per_token(), 0.012, 1e-5);
}

TEST_F(ReportStepTest, LoadsHaveCostsByName) {
  const v1::ReportStepResponse response = ReportLoads({"patches", "frames"});
  ASSERT_EQ(response.fitted().loads_size(), 2);
  EXPECT_EQ(response.fitted().loads(0).load(), "patches");
  EXPECT_NEAR(response.fitted().loads(0).per_unit(), 0.05, 1e-4);
  EXPECT_FALSE(response.fitted().loads(0).separate() || response.fitted().loads(0).dealt());
  // The request has none of this load.
  EXPECT_EQ(response.fitted().loads(1).load(), "frames");
  EXPECT_EQ(response.fitted().loads(1).per_unit(), 0);
  EXPECT_NEAR(response.fitted().per_token(), 0.01, 1e-5);
}

TEST_F(ReportStepTest, WrongLoadsAreRefusedByName) {
  v1::ReportStepRequest request = RandomRequest(random_, 1);
  request.add_loads("patches");
  EXPECT_THAT(Message(Refused(request)),
              HasSubstr("microbatches[0].loads has 0 sums, but loads has 1 names"));
  for (v1::MicrobatchTiming& timing : *request.mutable_microbatches()) timing.add_loads(-3);
  EXPECT_THAT(Message(Refused(request)), HasSubstr("microbatches[0].loads[0] is -3"));
  request.set_loads(0, "");
  EXPECT_THAT(Message(Refused(request)), HasSubstr("loads[0] has 0 bytes; it must have 1 to 64"));
  EXPECT_EQ(store_.replaces, 0);
}

TEST_F(ReportStepTest, NoSizeOfAGroupAndNoShareOfTheModelAreReadAsOne) {
  v1::ReportStepRequest request = RandomRequest(random_, 1);
  Report(request);
  for (v1::MicrobatchTiming& timing : *request.mutable_microbatches()) {
    timing.set_context_parallel(1);
    timing.set_model_share(1);
  }
  EXPECT_TRUE(Report(request).already_counted());
}

TEST_F(ReportStepTest, ABudgetIsSuggestedForTheLimitThatIsAskedFor) {
  v1::ReportStepRequest request = RandomRequest(random_, 1000);
  ReportSteps(200);
  EXPECT_EQ(Report(request).suggested_max_tokens_per_microbatch(), 0);
  // RandomReport's device needs 20 GB, and 1 MB a token.
  request.clear_microbatches();
  request.set_memory_limit_bytes(60'000'000'000);
  const uint32_t suggested = Report(request).suggested_max_tokens_per_microbatch();
  EXPECT_LE(suggested, 40000);
  EXPECT_GE(suggested, 36000);
}

TEST_F(ReportStepTest, WithoutPeaksNoBudgetIsKnown) {
  v1::ReportStepRequest request = RandomRequest(random_, 1);
  for (v1::MicrobatchTiming& timing : *request.mutable_microbatches()) timing.clear_peak_bytes();
  request.set_memory_limit_bytes(60'000'000'000);
  EXPECT_EQ(Report(request).suggested_max_tokens_per_microbatch(), 0);
}

TEST_F(ReportStepTest, AReportSentAgainIsToldSoAndNotCounted) {
  ReportSteps(40);
  const v1::ReportStepRequest request = RandomRequest(random_, 40);
  const v1::ReportStepResponse first = Report(request);
  const int replaces = store_.replaces;
  v1::ReportStepResponse second = Report(request);
  EXPECT_EQ(store_.replaces, replaces);
  EXPECT_TRUE(second.already_counted());
  second.clear_already_counted();
  EXPECT_EQ(second.SerializeAsString(), first.SerializeAsString());
}

// One mini-batch on two ranks with two slots each.
v1::ReportStepRequest WholeStep() {
  v1::ReportStepRequest request = ReportOf("job", 7);
  for (int i = 0; i < 4; ++i) {
    v1::MicrobatchTiming* timing = request.mutable_microbatches(i);
    timing->set_rank(static_cast<uint32_t>(i % 2));
    timing->set_slot(static_cast<uint32_t>(i / 2));
    timing->set_milliseconds(10 * (i + 1));
  }
  request.set_data_parallel(2);
  return request;
}

TEST_F(ReportStepTest, AWholeStepIsMeasuredAsRanksWaitForEachOther) {
  v1::ReportStepRequest request = WholeStep();
  request.set_predicted_step_time(50);
  Report(request);
  ASSERT_TRUE(measured_.has_value());
  EXPECT_DOUBLE_EQ(measured_->milliseconds, 20 + 40);
  EXPECT_DOUBLE_EQ(measured_->waited_share, 20.0 / 120);
  EXPECT_EQ(measured_->predicted_milliseconds, 50);

  request.set_step(8);
  request.set_synchronization(v1::SYNCHRONIZATION_ACCUMULATED);
  request.mutable_microbatches(0)->set_milliseconds(30);
  Report(request);
  ASSERT_TRUE(measured_.has_value());
  // One rank needs 30 and 30, the other one 20 and 40.
  EXPECT_DOUBLE_EQ(measured_->milliseconds, 60);
  EXPECT_DOUBLE_EQ(measured_->waited_share, 0);
}

TEST_F(ReportStepTest, AStepIsMeasuredOnce) {
  v1::ReportStepRequest request = WholeStep();
  Report(request);
  EXPECT_TRUE(measured_.has_value());
  EXPECT_TRUE(Report(request).already_counted());
  EXPECT_FALSE(measured_.has_value());
  // Times that were counted already are not counted again, even if reported from elsewhere.
  for (v1::MicrobatchTiming& timing : *request.mutable_microbatches()) {
    timing.set_rank(1 - timing.rank());
  }
  EXPECT_TRUE(Report(request).already_counted());
  EXPECT_FALSE(measured_.has_value());
}

TEST_F(ReportStepTest, ASynchronizationOfAnotherVersionIsUnimplemented) {
  v1::ReportStepRequest request = WholeStep();
  request.set_synchronization(static_cast<v1::Synchronization>(9));
  const absl::Status status = Refused(request);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(Message(status), HasSubstr("synchronization is 9"));
}

TEST_F(ReportStepTest, AReportOfNothingOnlyAsks) {
  const v1::ReportStepResponse last = ReportSteps(40);
  const int replaces = store_.replaces;
  v1::ReportStepRequest request;
  request.set_job_id("job");
  EXPECT_EQ(Report(request).SerializeAsString(), last.SerializeAsString());
  EXPECT_EQ(store_.replaces, replaces);
}

TEST_F(ReportStepTest, JobsHaveNothingToDoWithOneAnother) {
  ReportSteps(40);
  EXPECT_LE(Report(RandomRequest(random_, 0, "another")).samples(), 8);
}

TEST_F(ReportStepTest, WrongInputIsRefusedByNameAndNothingIsCounted) {
  v1::ReportStepRequest request = RandomRequest(random_, 1);
  request.mutable_microbatches(0)->set_milliseconds(std::nan(""));
  absl::Status status = Refused(request);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), HasSubstr("microbatches[0].milliseconds is nan"));

  request = RandomRequest(random_, 1);
  request.mutable_microbatches(0)->set_context_parallel(65537);
  EXPECT_THAT(Message(Refused(request)),
              HasSubstr("microbatches[0].context_parallel is 65537; the limit is 65536"));

  request = RandomRequest(random_, 1);
  request.mutable_microbatches(0)->set_model_share(-0.25);
  EXPECT_THAT(Message(Refused(request)),
              HasSubstr("microbatches[0].model_share is -0.25; it must be between 0 and 1"));

  request = RandomRequest(random_, 1, "");
  status = Refused(request);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), HasSubstr("job_id is empty"));
  EXPECT_EQ(store_.replaces, 0);
}

TEST_F(ReportStepTest, ErrorsOfTheStoreAreTheCallers) {
  store_.failure = absl::UnavailableError("the store is away");
  EXPECT_EQ(Refused(RandomRequest(random_, 1)), store_.failure);
}

TEST_F(ReportStepTest, OvertakenTooOftenItGivesUp) {
  store_.always_overtaken = true;
  const absl::Status status = Refused(RandomRequest(random_, 1));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Message(status), AllOf(HasSubstr("\"job\""), HasSubstr("64 times")));
  EXPECT_EQ(store_.replaces, JobFits::kMaxAttempts);
}

TEST_F(ReportStepTest, AReportThatWasOvertakenIsCountedOnTopOfTheOther) {
  JobFits other(&store_);
  const v1::ReportStepRequest mine = RandomRequest(random_, 1);
  const v1::ReportStepRequest theirs = RandomRequest(random_, 1);
  store_.after_get = [&] {
    v1::ReportStepResponse response;
    EXPECT_TRUE(ReportStep(&other, "owner", theirs, &response).ok());
  };
  const v1::ReportStepResponse response = Report(mine);
  EXPECT_EQ(response.samples(),
            static_cast<uint64_t>(mine.microbatches_size() + theirs.microbatches_size()));
}

// A report is sent to a second replica because the first one's answer was late.
TEST_F(ReportStepTest, ARetryElsewhereIsNotCountedTwiceEvenAtTheSameTime) {
  JobFits other(&store_);
  const v1::ReportStepRequest request = RandomRequest(random_, 1);
  store_.after_get = [&] {
    v1::ReportStepResponse response;
    EXPECT_TRUE(ReportStep(&other, "owner", request, &response).ok());
  };
  const v1::ReportStepResponse response = Report(request);
  EXPECT_TRUE(response.already_counted());
  EXPECT_EQ(response.samples(), static_cast<uint64_t>(request.microbatches_size()));
}

TEST_F(ReportStepTest, ReplicasLoseNoReport) {
  constexpr int kReplicas = 3;
  constexpr int kThreads = 2;
  constexpr uint64_t kSteps = 25;
  std::vector<uint64_t> counts(kReplicas * kThreads, 0);
  {
    std::vector<std::unique_ptr<JobFits>> replicas;
    for (int i = 0; i < kReplicas; ++i) replicas.push_back(std::make_unique<JobFits>(&store_));
    std::vector<std::jthread> threads;
    for (size_t worker = 0; worker < counts.size(); ++worker) {
      threads.emplace_back([&, worker] {
        RandomStream random(worker);
        for (uint64_t step = 0; step < kSteps; ++step) {
          const v1::ReportStepRequest request = RandomRequest(random, step);
          v1::ReportStepResponse response;
          absl::Status status;
          do {
            status = ReportStep(replicas[worker % kReplicas].get(), "owner", request, &response)
                         .status();
          } while (absl::IsUnavailable(status));
          EXPECT_TRUE(status.ok()) << status;
          counts[worker] += static_cast<uint64_t>(request.microbatches_size());
        }
      });
    }
    threads.clear();
  }
  uint64_t total = 0;
  for (const uint64_t count : counts) total += count;
  EXPECT_EQ(fits_.Get("job")->costs.samples, total);
}

TEST_F(ReportStepTest, ADamagedStateIsReplacedAndLogged) {
  ASSERT_TRUE(*store_.Replace("job", 0, "rubbish", "owner"));
  CaptureLog();
  const v1::ReportStepRequest request = RandomRequest(random_, 1);
  EXPECT_EQ(Report(request).samples(), static_cast<uint64_t>(request.microbatches_size()));
  EXPECT_THAT(CapturedLog(), HasSubstr("ERROR event=fit_state_damaged job=job"));
  EXPECT_TRUE(Report(request).already_counted());
}

TEST_F(ReportStepTest, TheStateOfAnotherVersionIsLeftAlone) {
  std::string state = "BPFT";
  state += '\x07';
  state += std::string(40, '\0');
  ASSERT_TRUE(*store_.Replace("job", 0, state, "owner"));
  const absl::Status status = Refused(RandomRequest(random_, 1));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(status), AllOf(HasSubstr("\"job\""), HasSubstr("version 7")));
  EXPECT_EQ(store_.Get("job")->state, state);
}

class FittedCostModelTest : public ReportStepTest {
 protected:
  FittedCostModelTest() {
    request_ = ValidRequest();
    request_.set_job_id("job");
    request_.mutable_cost_model()->set_fitted(true);
  }

  static void AddLoad(const std::string& name, v1::PlanBatchRequest& request) {
    v1::Load* load = request.mutable_manifest()->add_loads();
    load->set_name(name);
    for (int i = 0; i < request.manifest().lengths_size(); ++i) load->add_values(256.0 * (i % 5));
  }

  // Whether the request is planned with `costs`, as the plan says.
  bool Plans(const v1::CostModel& costs) const {
    v1::PlanBatchRequest request = request_;
    *request.mutable_cost_model() = costs;
    const absl::StatusOr<ParsedRequest> parsed = ParseRequest(request);
    if (!parsed.ok()) return false;
    const absl::StatusOr<Plan> plan = MakePlan(parsed->manifest, parsed->options);
    if (!plan.ok()) return false;
    v1::PlanBatchResponse response;
    FillResponse(*plan, {}, &response);
    return response.cost_model_used().SerializeAsString() == costs.SerializeAsString();
  }

  v1::PlanBatchRequest request_;
};

TEST_F(FittedCostModelTest, IsWhatReportStepSaid) {
  const v1::ReportStepResponse reported = ReportSteps(100);
  const absl::StatusOr<v1::CostModel> costs = FittedCostModel(&fits_, request_);
  ASSERT_TRUE(costs.ok()) << costs.status();
  EXPECT_EQ(costs->SerializeAsString(), reported.fitted().SerializeAsString());
}

TEST_F(FittedCostModelTest, HasTheDefaultExchangeForGroupsThatDifferWhereASingleSizeWasReported) {
  ReportSteps(100);
  request_.mutable_topology()->mutable_dynamic_context();
  const absl::StatusOr<v1::CostModel> costs = FittedCostModel(&fits_, request_);
  ASSERT_TRUE(costs.ok()) << costs.status();
  ASSERT_EQ(costs->exchange_size(), 2);
  EXPECT_EQ(costs->exchange(0).up_to_size(), 8U);
  EXPECT_DOUBLE_EQ(costs->exchange(0).per_token(), 0.02 * costs->per_token());
  EXPECT_EQ(costs->exchange(1).up_to_size(), 0U);
  EXPECT_DOUBLE_EQ(costs->exchange(1).per_token(), 0.065 * costs->per_token());
}

TEST_F(FittedCostModelTest, PlansAndIsRecordedInThePlan) {
  ReportSteps(100);
  const absl::StatusOr<v1::CostModel> costs = FittedCostModel(&fits_, request_);
  ASSERT_TRUE(costs.ok()) << costs.status();
  EXPECT_TRUE(Plans(*costs));
}

TEST_F(FittedCostModelTest, HasTheLoadsThatTheManifestHas) {
  const v1::ReportStepResponse reported = ReportLoads({"patches", "frames"});
  EXPECT_EQ(FittedCostModel(&fits_, request_)->loads_size(), 0);

  AddLoad("patches", request_);
  AddLoad("answers", request_);
  const absl::StatusOr<v1::CostModel> costs = FittedCostModel(&fits_, request_);
  ASSERT_TRUE(costs.ok()) << costs.status();
  ASSERT_EQ(costs->loads_size(), 1);
  EXPECT_EQ(costs->loads(0).SerializeAsString(), reported.fitted().loads(0).SerializeAsString());
  EXPECT_TRUE(Plans(*costs));
}

TEST_F(FittedCostModelTest, TakesFromTheRequestHowLoadsRun) {
  ReportLoads({"patches", "frames"});
  AddLoad("frames", request_);
  AddLoad("patches", request_);
  for (const char* name : {"frames", "patches"}) {
    v1::LoadCost* load = request_.mutable_cost_model()->add_loads();
    load->set_load(name);
    load->set_separate(true);
  }
  const absl::StatusOr<v1::CostModel> costs = FittedCostModel(&fits_, request_);
  ASSERT_TRUE(costs.ok()) << costs.status();
  ASSERT_EQ(costs->loads_size(), 2);
  EXPECT_EQ(costs->loads(0).load(), "frames");
  EXPECT_EQ(costs->loads(0).per_unit(), 0);
  EXPECT_TRUE(costs->loads(0).separate());
  EXPECT_EQ(costs->loads(1).load(), "patches");
  EXPECT_NEAR(costs->loads(1).per_unit(), 0.05, 1e-4);
  EXPECT_TRUE(costs->loads(1).separate());
  EXPECT_TRUE(Plans(*costs));

  request_.mutable_cost_model()->mutable_loads(1)->set_per_unit(3);
  const absl::Status status = FittedCostModel(&fits_, request_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), HasSubstr("loads[1].per_unit 3"));
}

// The planner refuses costs of loads for these.
TEST_F(FittedCostModelTest, HasNoLoadsForGroupsThatDifferAndPaddedRows) {
  ReportLoads({"patches"});
  AddLoad("patches", request_);
  v1::PlanBatchRequest padded = request_;
  padded.set_preset("nemo_rl_dynamic");
  request_.set_preset("");
  request_.mutable_topology()->mutable_dynamic_context();
  for (v1::PlanBatchRequest* request : {&padded, &request_}) {
    const absl::StatusOr<v1::CostModel> costs = FittedCostModel(&fits_, *request);
    ASSERT_TRUE(costs.ok()) << costs.status();
    EXPECT_EQ(costs->loads_size(), 0);
    *request->mutable_cost_model() = *costs;
    const absl::StatusOr<ParsedRequest> parsed = ParseRequest(*request);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    const absl::StatusOr<Plan> plan = MakePlan(parsed->manifest, parsed->options);
    EXPECT_TRUE(plan.ok()) << plan.status();
  }
}

TEST_F(FittedCostModelTest, OfLoadsAloneNeedsThem) {
  for (uint64_t step = 0; step < 30; ++step) {
    v1::ReportStepRequest report = RandomRequest(random_, step);
    report.add_loads("cost");
    for (v1::MicrobatchTiming& timing : *report.mutable_microbatches()) {
      const auto cost = static_cast<double>(random_.Between(1, 1000));
      timing.add_loads(cost);
      timing.set_milliseconds(0.5 * cost);
    }
    Report(report);
  }
  const absl::Status status = FittedCostModel(&fits_, request_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), AllOf(HasSubstr("\"job\""), HasSubstr("manifest.loads")));
  AddLoad("cost", request_);
  const absl::StatusOr<v1::CostModel> costs = FittedCostModel(&fits_, request_);
  ASSERT_TRUE(costs.ok()) << costs.status();
  EXPECT_NEAR(costs->loads(0).per_unit(), 0.5, 1e-6);
  EXPECT_TRUE(Plans(*costs));
}

TEST_F(FittedCostModelTest, IsNotThereBeforeEnoughWasReported) {
  const v1::ReportStepRequest report = RandomRequest(random_, 1);
  Report(report);
  const absl::Status status = FittedCostModel(&fits_, request_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(status),
              AllOf(HasSubstr("\"job\""),
                    HasSubstr(std::to_string(report.microbatches_size()) + " micro-batches"),
                    HasSubstr("32")));
}

TEST_F(FittedCostModelTest, NeedsAJob) {
  request_.clear_job_id();
  const absl::Status status = FittedCostModel(&fits_, request_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), HasSubstr("job_id is empty"));
}

TEST_F(FittedCostModelTest, StandsAlone) {
  request_.mutable_cost_model()->set_per_token(2);
  const absl::Status status = FittedCostModel(&fits_, request_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), HasSubstr("cost_model.fitted is set beside per_token 2"));
  EXPECT_EQ(store_.gets, 0);
}

}  // namespace
}  // namespace batchplan
