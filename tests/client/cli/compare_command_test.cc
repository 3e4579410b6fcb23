#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "batchplan/v1/batch_planner.pb.h"
#include "tests/client/cli/printed_rows.h"
#include "tests/client/cli/run_cli.h"

namespace batchplan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

CliResult RunCompare(const std::vector<std::string>& more,
                     const std::string& lengths = SixtyLengths()) {
  std::vector<std::string> arguments = {"compare", "--lengths", "-",  "--dp",
                                        "4",       "--budget",  "512"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return RunCli(arguments, lengths);
}

TEST(CompareCommand, BestHasTheLeastStepTimeUnderTheRequestsSynchronization) {
  for (const auto& [sync, field] : {std::pair{"lockstep", "lockstepStepTime"},
                                    std::pair{"accumulated", "accumulatedStepTime"}}) {
    const std::vector<Row> rows = ParseRows(RunCompare({"--sync", sync, "--format", "json"}));
    ASSERT_THAT(BestOf(rows), SizeIs(1));
    EXPECT_EQ(BestOf(rows)[0].at(field).number_value(), Least(rows, field));
    for (const Row& row : rows) {
      if (row.count("error") > 0) continue;
      EXPECT_GE(row.at("lockstepStepTime").number_value() * (1 + 1e-9),
                row.at("accumulatedStepTime").number_value());
      EXPECT_EQ(row.at("metrics").struct_value().fields().at("predictedStepTime").number_value(),
                row.at(field).number_value());
    }
  }
}

TEST(CompareCommand, RowsAreThePlansThatTheirFlagsGive) {
  for (const Row& row : ParseRows(RunCompare({"--format", "json"}))) {
    if (row.at("kind").string_value() != "packer" || row.count("error") > 0) continue;
    const CliResult planned =
        RunCli({"plan", "--lengths", "-", "--dp", "4", "--budget", "512", "--packer",
                row.at("candidate").string_value(), "--sharding", "deal_bins", "--format", "json"},
               SixtyLengths());
    v1::PlanBatchResponse response;
    ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(planned.out, &response).ok())
        << planned.err;
    const v1::PlanMetrics& metrics = response.passes(0).metrics();
    EXPECT_EQ(row.at("microbatches").number_value(), metrics.microbatches());
    EXPECT_EQ(row.at("lockstepStepTime").number_value(), metrics.predicted_step_time());
    EXPECT_EQ(row.at("binUtilization").number_value(), metrics.bin_utilization());
  }
}

TEST(CompareCommand, SavedRequestsCompareLikeTheirFlags) {
  const CliResult saved = RunCli({"plan", "--lengths", "-", "--dp", "4", "--budget", "512",
                                  "--packer", "concatenative", "--print_request"},
                                 SixtyLengths());
  const std::vector<Row> here = ParseRows(RunCompare({"--format", "json"}));
  const std::vector<Row> there =
      ParseRows(RunCli({"compare", "--request", "-", "--format", "json"}, saved.out));
  ASSERT_EQ(here.size(), there.size());
  for (size_t i = 0; i < here.size(); ++i) {
    EXPECT_EQ(here[i].at("candidate").string_value(), there[i].at("candidate").string_value());
    ASSERT_EQ(here[i].count("error"), there[i].count("error"));
    if (here[i].count("error") > 0) continue;
    EXPECT_EQ(here[i].at("lockstepStepTime").number_value(),
              there[i].at("lockstepStepTime").number_value());
  }
  const CliResult unknown = RunCli({"compare", "--request", "-", "--pass", "logprobs"}, saved.out);
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_THAT(unknown.err, HasSubstr("no pass \"logprobs\""));
}

TEST(CompareCommand, PlansOfWhatWaitsAreOfOneBatch) {
  const std::string pool = "90\n10\n80\n20\n70\n30\n60\n40\n";
  EXPECT_EQ(RunCompare({"--take", "6"}, pool).exit_code, 0);
  EXPECT_THAT(RunCompare({"--take", "6", "--max_overtaking", "2"}, pool).err,
              HasSubstr("selection.max_overtaking is 2; it must be 0"));
}

TEST(CompareCommand, WithoutAnyPlanItExitsWith1AndTheReason) {
  const CliResult result = RunCompare({}, "5000\n1\n2\n3\n");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, IsEmpty());
  EXPECT_THAT(result.err,
              AllOf(StartsWith("batchplan: compare: "), HasSubstr("5000"), HasSubstr("512")));
  EXPECT_EQ(RunCompare({}, "x\n").err,
            "batchplan: compare: stdin:1: \"x\" is not a length: a whole number of tokens, 1 to "
            "4294967295\n");
  EXPECT_EQ(RunCli({"compare", "--request", "-"}, "{}").exit_code, 1);
}

}  // namespace
}  // namespace batchplan
