// Runs the example against a server, and proves that its check can fail.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "batchplan/client.h"
#include "client/cpp/examples/worker/padded_step.h"
#include "client/cpp/examples/worker/ranks_step.h"
#include "client/cpp/examples/worker/step_results.h"
#include "tests/client/cpp/dynamic_plans.h"
#include "tests/support/test_server.h"

namespace batchplan::examples {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct ProgramRun {
  int exit_code = -1;
  // Standard output and standard error.
  std::string output;
};

ProgramRun RunExample(const std::string& arguments) {
  ProgramRun run;
  const std::string command = std::string(BATCHPLAN_WORKER_EXAMPLE) + " " + arguments + " 2>&1";
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return run;
  char buffer[4096];
  for (size_t read = 0; (read = fread(buffer, 1, sizeof(buffer), pipe)) > 0;) {
    run.output.append(buffer, read);
  }
  const int status = pclose(pipe);
  if (WIFEXITED(status)) run.exit_code = WEXITSTATUS(status);
  return run;
}

TEST(WorkerExample, RanksAgreeWithThePaddedBatchOnALiveServer) {
  const TestServer server;
  for (const char* layout : {"packed", "padded"}) {
    for (const char* ranks : {"--dp 1 --cp 1", "--dp 2 --cp 2", "--dp 4 --cp 1", "--dp 2 --cp 4"}) {
      const std::string arguments =
          "--address " + server.target() + " --layout " + layout + " " + ranks;
      SCOPED_TRACE(arguments);
      const ProgramRun run = RunExample(arguments);
      EXPECT_EQ(run.exit_code, 0) << run.output;
      EXPECT_THAT(run.output, HasSubstr("loss of the batch"));
      EXPECT_THAT(run.output, Not(HasSubstr("MISMATCH")));
    }
  }
}

// A planner that uses groups of every size for requests with dynamic_context.
class HandmadeConnection final : public Connection {
 public:
  absl::StatusOr<v1::PlanBatchResponse> PlanBatch(const v1::PlanBatchRequest& request,
                                                  const CallOptions& /*options*/) override {
    return DynamicPlanOf(request);
  }
  absl::StatusOr<v1::JoinBatchResponse> JoinBatch(const v1::JoinBatchRequest& /*request*/,
                                                  const CallOptions& /*options*/) override {
    return absl::UnimplementedError("joins");
  }
  absl::StatusOr<v1::ReportStepResponse> ReportStep(const v1::ReportStepRequest& /*request*/,
                                                    const CallOptions& /*options*/) override {
    return absl::UnimplementedError("reports");
  }
};

TEST(WorkerExample, GroupsThatDifferInSizeAgreeWithThePaddedBatch) {
  const Batch batch = MakeBatch(30, 200, kVocabulary, 5);
  const Model model = MakeModel(1024, 6);
  const StepResults padded = PaddedStep(batch, model);
  const auto padded_means = PaddedReduction(batch, padded.token_losses);
  ASSERT_TRUE(padded_means.ok()) << padded_means.status();
  for (const auto& [data_parallel, context_parallel] : {std::pair{2U, 4U}, {3U, 2U}, {1U, 4U}}) {
    v1::PlanBatchRequest request;
    request.mutable_manifest()->mutable_lengths()->Assign(batch.lengths.begin(),
                                                          batch.lengths.end());
    request.mutable_topology()->set_data_parallel(data_parallel);
    request.mutable_topology()->set_context_parallel(context_parallel);
    request.mutable_topology()->mutable_dynamic_context();
    request.add_passes()->set_max_tokens_per_microbatch(256);
    const auto ranks =
        RunRanks(Client(std::make_shared<HandmadeConnection>()), request, batch, model);
    ASSERT_TRUE(ranks.ok()) << ranks.status();
    EXPECT_EQ(ranks->largest_group, data_parallel * context_parallel);
    EXPECT_EQ(Disagreement(Compare(ranks->results, padded, *padded_means, false)), "");
  }
}

TEST(WorkerExample, RanksWithoutSequencesAgreeToo) {
  for (const char* layout : {"packed", "padded"}) {
    const ProgramRun run =
        RunExample("--dp 4 --cp 2 --sequences 3 --layout " + std::string(layout));
    EXPECT_EQ(run.exit_code, 0) << run.output;
  }
}

TEST(WorkerExample, GroupsOfALiveServersPlanAgreeWithThePaddedBatch) {
  const TestServer server;
  // The longest sequence needs four ranks of 128 tokens, or of 200.
  for (const char* ranks : {"--dp 2 --cp 4 --budget 512", "--dp 3 --cp 2 --budget 400"}) {
    const ProgramRun run =
        RunExample("--address " + server.target() + " --dynamic_cp " + std::string(ranks));
    EXPECT_EQ(run.exit_code, 0) << run.output;
    EXPECT_THAT(run.output, HasSubstr("in groups of up to 4"));
    EXPECT_THAT(run.output, Not(HasSubstr("MISMATCH")));
  }
}

TEST(WorkerExample, TheDefaultBudgetOfAPoolMakesGroupsOfSeveralSizes) {
  const ProgramRun run = RunExample("--dp 2 --cp 4 --dynamic_cp");
  EXPECT_EQ(run.exit_code, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("in groups of up to 8"));
}

TEST(WorkerExample, WithoutAServerItFailsAndSaysSo) {
  const ProgramRun run = RunExample("--address 127.0.0.1:1 --dp 1 --cp 1 --sequences 1");
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.output, HasSubstr("UNAVAILABLE"));
}

// Random h, or gradients of m, of a sequence.
std::vector<Hidden> RandomHidden(size_t tokens, uint64_t seed) {
  const Model model = MakeModel(tokens, seed);
  std::vector<Hidden> hidden;
  for (size_t t = 0; t < tokens; ++t) {
    hidden.push_back(Embed(model, {.token = static_cast<int64_t>(t % kVocabulary),
                                   .position = static_cast<int64_t>(t)}));
  }
  return hidden;
}

// Otherwise a missing or duplicate shard would not change the result.
TEST(ToyModel, TokenSeesEveryTokenUpToItself) {
  const std::vector<Hidden> hidden = RandomHidden(9, 1);
  for (size_t t = 0; t < hidden.size(); ++t) {
    for (size_t s = 0; s < hidden.size(); ++s) {
      std::vector<Hidden> changed = hidden;
      changed[s][3] += 0.1;
      EXPECT_EQ(Attend(changed, t) != Attend(hidden, t), s <= t) << s << " of " << t;
    }
  }
}

TEST(ToyModel, GradientOfAttentionIsThatOfSmallDifferences) {
  const std::vector<Hidden> hidden = RandomHidden(7, 1);
  const std::vector<Hidden> weights = RandomHidden(7, 2);
  // The weighted sum over all tokens of what they see.
  const auto total = [&](const std::vector<Hidden>& values) {
    double sum = 0;
    for (size_t t = 0; t < values.size(); ++t) {
      const Hidden mixed = Attend(values, t);
      for (size_t i = 0; i < kHidden; ++i) sum += weights[t][i] * mixed[i];
    }
    return sum;
  };
  constexpr double kStep = 1e-5;
  for (size_t t = 0; t < hidden.size(); ++t) {
    const Hidden gradient = AttendBackward(hidden, weights, t);
    for (size_t i = 0; i < kHidden; ++i) {
      std::vector<Hidden> more = hidden;
      std::vector<Hidden> less = hidden;
      more[t][i] += kStep;
      less[t][i] -= kStep;
      EXPECT_NEAR(gradient[i], (total(more) - total(less)) / (2 * kStep), 1e-6) << t << ", " << i;
    }
  }
}

// A step on ranks and a padded one, and a way to spoil the former.
class ComparisonTest : public testing::Test {
 protected:
  ComparisonTest()
      : batch_(MakeBatch(20, 100, kVocabulary, 3)),
        model_(MakeModel(256, 4)),
        padded_(PaddedStep(batch_, model_)),
        padded_means_(*PaddedReduction(batch_, padded_.token_losses)) {
    v1::PlanBatchRequest request;
    request.mutable_manifest()->mutable_lengths()->Assign(batch_.lengths.begin(),
                                                          batch_.lengths.end());
    request.mutable_topology()->set_data_parallel(2);
    request.add_passes()->set_max_tokens_per_microbatch(256);
    auto ranks = RunRanks(Client(MakeInProcessConnection()), request, batch_, model_);
    EXPECT_TRUE(ranks.ok()) << ranks.status();
    if (ranks.ok()) ranks_ = ranks->results;
  }

  std::string Disagreement() const {
    return examples::Disagreement(Compare(ranks_, padded_, padded_means_, true));
  }

  Batch batch_;
  Model model_;
  StepResults padded_;
  std::vector<float> padded_means_;
  StepResults ranks_;
};

TEST_F(ComparisonTest, WhatTheRanksComputeAgrees) { EXPECT_EQ(Disagreement(), ""); }

TEST_F(ComparisonTest, LastBitOfOneTokensLossIsNoticed) {
  float& loss = ranks_.token_losses[1];
  loss = std::nextafter(loss, 100.0F);
  EXPECT_THAT(Disagreement(), HasSubstr("loss of a token differs"));
}

TEST_F(ComparisonTest, LastBitOfOneGradientIsNoticed) {
  float& gradient = ranks_.hidden_gradients[0];
  gradient = std::nextafter(gradient, 100.0F);
  EXPECT_THAT(Disagreement(), HasSubstr("gradient of a hidden state differs"));
}

TEST_F(ComparisonTest, LastBitOfOneMeanIsNoticedWhereSequencesAreWhole) {
  float& mean = ranks_.sequence_means[4];
  mean = std::nextafter(mean, 100.0F);
  EXPECT_THAT(Disagreement(), HasSubstr("the same, padded and reduced differs"));
}

TEST_F(ComparisonTest, SumsThatAreOffByAThousandthAreNoticed) {
  ranks_.loss *= 1.001;
  ranks_.gradients.token_table[0] += 1e-3;
  ranks_.gradients.position_table[0] += 1e-3;
  const std::string disagreement = Disagreement();
  EXPECT_THAT(disagreement, HasSubstr("loss of the batch differs"));
  EXPECT_THAT(disagreement, HasSubstr("gradient of the tokens' table differs"));
  EXPECT_THAT(disagreement, HasSubstr("gradient of the positions' table differs"));
}

TEST_F(ComparisonTest, WhatIsNotANumberOrNotThereNeverAgrees) {
  ranks_.loss = std::numeric_limits<double>::quiet_NaN();
  ranks_.sequence_means.pop_back();
  const std::string disagreement = Disagreement();
  EXPECT_THAT(disagreement, HasSubstr("loss of the batch differs by inf"));
  EXPECT_THAT(disagreement, HasSubstr("mean loss of a sequence differs by inf"));
}

TEST_F(ComparisonTest, ShiftedLabelsWouldBeNoticed) {
  // As if losses were unpacked at the token that predicts, not at the predicted one.
  std::vector<float>& losses = ranks_.token_losses;
  losses.erase(losses.begin());
  losses.push_back(0);
  EXPECT_THAT(Disagreement(), HasSubstr("loss of a token differs"));
}

}  // namespace
}  // namespace batchplan::examples
