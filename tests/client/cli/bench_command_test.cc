#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/client/cli/printed_rows.h"
#include "tests/client/cli/run_cli.h"
#include "tests/support/test_server.h"

namespace batchplan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<std::string> Arguments(const TestServer& server, std::vector<std::string> more) {
  std::vector<std::string> arguments = {
      "bench", "--server",   server.target(), "--budget",  "16384", "--dp",
      "4",     "--duration", "200ms",         "--warm_up", "20ms"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(BenchCommand, CallsAServerAndSaysWhatItTook) {
  TestServer server;
  const std::vector<Row> rows = ParseRows(RunCli(Arguments(
      server, {"--sequences", "64", "--concurrency", "2", "--jobs", "3", "--format", "json"})));
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].at("name").string_value(), "server");
  EXPECT_GT(rows[0].at("calls").number_value(), 0);
  EXPECT_GT(rows[0].at("callsPerSecond").number_value(), 0);
  EXPECT_THAT(rows[0].at("errors").struct_value().fields(), IsEmpty());
  const auto& milliseconds = rows[0].at("milliseconds").struct_value().fields();
  EXPECT_GT(milliseconds.at("p50").number_value(), 0);
  EXPECT_LE(milliseconds.at("p50").number_value(), milliseconds.at("p99.9").number_value());
  EXPECT_LE(milliseconds.at("p99.9").number_value(), milliseconds.at("max").number_value());
}

TEST(BenchCommand, ComparesWithAnEchoAndWithThePlannerHere) {
  TestServer server;
  const CliResult result =
      RunCli(Arguments(server, {"--sequences", "64", "--echo", "--rounds", "2"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("closed loop of 8, 64 sequences a call"), HasSubstr("\nserver "),
                    HasSubstr("\necho "), HasSubstr("\nin process ")));
}

TEST(BenchCommand, IsPlannedAnewEachTimeUnlessItRepeats) {
  ServerOptions options = TestServer::Options();
  options.plan_cache_bytes = 64 << 20;
  const TestServer server(options);
  const std::string hits = "batchplan_plan_cache_hits_total";
  for (int run = 0; run < 2; ++run) {
    EXPECT_EQ(RunCli(Arguments(server, {"--sequences", "64"})).exit_code, 0);
  }
  EXPECT_EQ(server.Metric(hits), 0);
  EXPECT_EQ(RunCli(Arguments(server, {"--sequences", "64", "--repeat"})).exit_code, 0);
  EXPECT_GT(server.Metric(hits), 0);
}

TEST(BenchCommand, AnOpenLoopKeepsItsRate) {
  TestServer server;
  const std::vector<Row> rows =
      ParseRows(RunCli(Arguments(server, {"--lengths", "-", "--rate", "100", "--evenly", "--repeat",
                                          "--format", "json"}),
                       SixtyLengths()));
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_GE(rows[0].at("calls").number_value(), 18);
  EXPECT_LE(rows[0].at("calls").number_value(), 21);
}

TEST(BenchCommand, ARequestThatIsRefusedEndsItAtOnce) {
  TestServer server;
  const CliResult result = RunCli(Arguments(server, {"--sequences", "2"}));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("batchplan: bench: "), HasSubstr("2 sequences")));
}

TEST(BenchCommand, WithoutAServerItSaysSo) {
  const CliResult result = RunCli({"bench", "--server", "127.0.0.1:1", "--timeout", "100ms",
                                   "--sequences", "64", "--budget", "16384"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("batchplan: bench: "));
}

TEST(BenchCommand, WrongFlagsAreUsageErrors) {
  const std::vector<std::vector<std::string>> wrong = {
      {"bench", "--sequences", "64", "--budget", "16384"},
      {"bench", "--server", "x:1", "--budget", "16384"},
      {"bench", "--server", "x:1", "--sequences", "64"},
      {"bench", "--server", "x:1", "--sequences", "64", "--budget", "1", "--lengths", "-"},
      {"bench", "--server", "x:1", "--sequences", "64", "--budget", "1", "--evenly"},
      {"bench", "--server", "x:1", "--sequences", "64", "--budget", "1", "--rounds", "2"},
      {"bench", "--server", "x:1", "--sequences", "64", "--budget", "1", "--duration", "fast"},
      {"bench", "--server", "x:1", "--sequences", "64", "--budget", "1", "--rate", "5",
       "--concurrency", "2"},
  };
  for (const std::vector<std::string>& arguments : wrong) {
    EXPECT_EQ(RunCli(arguments).exit_code, 2) << ::testing::PrintToString(arguments);
  }
}

}  // namespace
}  // namespace batchplan
