// The example's program against a live server, and proof that its check can fail.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "batchplan/client.h"
#include "client/cpp/examples/worker/padded_step.h"
#include "client/cpp/examples/worker/ranks_step.h"
#include "client/cpp/examples/worker/step_results.h"
#include "tests/support/test_server.h"

namespace batchplan::examples {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct ProgramRun {
  int exit_code = -1;
  // Of both streams.
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

TEST(WorkerExample, RanksWithoutSequencesAgreeToo) {
  for (const char* layout : {"packed", "padded"}) {
    const ProgramRun run =
        RunExample("--dp 4 --cp 2 --sequences 3 --layout " + std::string(layout));
    EXPECT_EQ(run.exit_code, 0) << run.output;
  }
}

TEST(WorkerExample, WithoutAServerItFailsAndSaysSo) {
  const ProgramRun run = RunExample("--address 127.0.0.1:1 --dp 1 --cp 1 --sequences 1");
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.output, HasSubstr("UNAVAILABLE"));
}

// A step of both kinds, and a way to spoil what the ranks computed.
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
  // As if losses had been unpacked where they were predicted, not where the token stands.
  std::vector<float>& losses = ranks_.token_losses;
  losses.erase(losses.begin());
  losses.push_back(0);
  EXPECT_THAT(Disagreement(), HasSubstr("loss of a token differs"));
}

}  // namespace
}  // namespace batchplan::examples
