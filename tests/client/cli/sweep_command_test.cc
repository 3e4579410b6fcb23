#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/client/cli/printed_rows.h"
#include "tests/client/cli/run_cli.h"

namespace batchplan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

CliResult RunSweep(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"sweep", "--lengths", "-"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return RunCli(arguments, SixtyLengths());
}

TEST(SweepCommand, EveryPointIsARowAndOneIsBest) {
  const std::vector<Row> rows = ParseRows(
      RunSweep({"--budget", "256,512,1024", "--dp", "2,4", "--cp", "1,2", "--format", "json"}));
  ASSERT_THAT(rows, SizeIs(12));
  EXPECT_EQ(rows[11].at("budget").number_value(), 1024);
  EXPECT_EQ(rows[11].at("dataParallel").number_value(), 4);
  EXPECT_EQ(rows[11].at("contextParallel").number_value(), 2);
  EXPECT_EQ(rows[11].at("gpus").number_value(), 8);
  ASSERT_THAT(BestOf(rows), SizeIs(1));
  EXPECT_EQ(BestOf(rows)[0].at("gpuTimePerToken").number_value(), Least(rows, "gpuTimePerToken"));
  // Lengths reach 400: no point of budget 256 is feasible.
  for (int i = 0; i < 4; ++i) {
    EXPECT_THAT(rows[i].at("error").struct_value().fields().at("message").string_value(),
                HasSubstr("max_tokens_per_microbatch (--budget) is 256"));
  }
}

TEST(SweepCommand, SizesOfOneMachineCompareWithWhatTheirRanksExchange) {
  const std::vector<std::string> flags = {
      "--budget_per_gpu", "512", "--gpus", "8", "--cp", "1,2,3,4", "--exchange", "2:0.02,0:9"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = flags;
    all.insert(all.end(), more.begin(), more.end());
    return RunSweep(all);
  };
  EXPECT_THAT(with({}).out, HasSubstr("left out, as they do not divide 8 GPUs: CP 3\n"));
  const CliResult json = with({"--format", "json"});
  EXPECT_THAT(json.err, HasSubstr("left out, as they do not divide 8 GPUs: CP 3"));
  const std::vector<Row> rows = ParseRows(json);
  ASSERT_THAT(rows, SizeIs(3));
  for (const Row& row : rows) {
    EXPECT_EQ(row.at("gpus").number_value(), 8);
    EXPECT_EQ(row.at("budget").number_value(), 512 * row.at("contextParallel").number_value());
  }
  EXPECT_EQ(rows[2].at("dataParallel").number_value(), 2);
  // A token on four ranks costs a quarter, and 9 * 3 / 4 for the exchange.
  EXPECT_GT(rows[2].at("gpuTimePerToken").number_value(), 27);
  EXPECT_LT(rows[1].at("gpuTimePerToken").number_value(), 2);

  const CliResult none = RunSweep({"--budget", "512", "--gpus", "7", "--cp", "2,4"});
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_THAT(none.err, HasSubstr("--gpus is 7, which none of CP 2, CP 4 divides"));
}

TEST(SweepCommand, APoolIsSweptWithTheExchangeThatIsItsDefault) {
  const auto times = [](const std::vector<std::string>& more) {
    std::vector<std::string> flags = {"--budget", "512",          "--dp", "4,8",      "--pp",
                                      "1,2",      "--dynamic_cp", "1",    "--format", "json"};
    flags.insert(flags.end(), more.begin(), more.end());
    const std::vector<Row> rows = ParseRows(RunSweep(flags));
    std::vector<double> each(rows.size());
    std::ranges::transform(rows, each.begin(),
                           [](const Row& row) { return row.at("gpuTimePerToken").number_value(); });
    return each;
  };
  EXPECT_THAT(times({}), SizeIs(4));
  EXPECT_EQ(times({}), times({"--exchange", "8:0.02,0:0.065"}));
  EXPECT_NE(times({}), times({"--exchange", "0:0"}));
}

TEST(SweepCommand, SavedRequestsKeepWhatIsNotSwept) {
  const CliResult saved = RunCli({"plan", "--lengths", "-", "--dp", "4", "--cp", "2", "--budget",
                                  "512", "--preset", "nemo_rl_packing", "--print_request"},
                                 SixtyLengths());
  const std::vector<Row> rows =
      ParseRows(RunCli({"sweep", "--request", "-", "--dp", "2,4", "--format", "json"}, saved.out));
  ASSERT_THAT(rows, SizeIs(2));
  for (const Row& row : rows) {
    EXPECT_EQ(row.at("budget").number_value(), 512);
    EXPECT_EQ(row.at("contextParallel").number_value(), 2);
  }
  EXPECT_EQ(rows[0].at("dataParallel").number_value(), 2);
}

TEST(SweepCommand, PlansOfWhatWaitsAreOfOneBatch) {
  const std::vector<std::string> sizes = {"--budget", "512", "--dp", "2"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), sizes.begin(), sizes.end());
    return RunSweep(more);
  };
  EXPECT_EQ(with({"--take", "40"}).exit_code, 0);
  EXPECT_THAT(with({"--take", "40", "--max_overtaking", "2"}).err,
              HasSubstr("selection.max_overtaking is 2; it must be 0"));
}

TEST(SweepCommand, WithoutAnyPlanItExitsWith1AndTheReasons) {
  const CliResult result = RunSweep({"--budget", "100,200"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, IsEmpty());
  EXPECT_THAT(result.err, AllOf(StartsWith("batchplan: sweep: manifest."), HasSubstr("is 100"),
                                HasSubstr("is 200")));
}

}  // namespace
}  // namespace batchplan
