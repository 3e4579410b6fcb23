#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "tests/client/cli/run_cli.h"
#include "tests/support/test_server.h"

namespace batchplan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr int kSequences = 60;

// The lengths of one of two workers, who have every other sequence of three; of both with -1.
std::string Lengths(int worker) {
  std::string text;
  for (int i = 0; i < kSequences; ++i) {
    const bool first = i < kSequences / 3;
    if (worker == -1 || first == (worker == 0)) {
      absl::StrAppend(&text, 1 + i * 7919 % 400, "\n");
    }
  }
  return text;
}

std::vector<std::string> Flags(const std::vector<std::string>& more) {
  std::vector<std::string> flags = {"--lengths", "-", "--dp", "4", "--budget", "512"};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

CliResult RunJoin(const TestServer& server, int worker, const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"join",  "--server", server.target(),
                                        "--job", "rl",       "--world_size",
                                        "2",     "--worker", std::to_string(worker)};
  for (const std::string& flag : Flags(more)) arguments.push_back(flag);
  return RunCli(arguments, Lengths(worker));
}

// What both workers of a step print.
std::vector<CliResult> RunBoth(const TestServer& server, const std::vector<std::string>& first,
                               const std::vector<std::string>& second) {
  std::vector<CliResult> results(2);
  std::jthread other([&] { results[0] = RunJoin(server, 0, first); });
  results[1] = RunJoin(server, 1, second);
  other.join();
  return results;
}

template <typename Message>
Message ParseJson(const CliResult& result) {
  EXPECT_EQ(result.exit_code, 0) << "signal " << result.signal << ", " << result.err;
  Message message;
  EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(result.out, &message).ok()) << result.out;
  return message;
}

TEST(JoinCommand, WorkersGetThePlanOfTheWholeBatch) {
  const TestServer server;
  const std::vector<std::string> json = {"--format", "json", "--verify"};
  std::vector<std::string> plan = {"plan"};
  for (const std::string& flag : Flags(json)) plan.push_back(flag);
  const auto whole = ParseJson<v1::PlanBatchResponse>(RunCli(plan, Lengths(-1)));
  for (const CliResult& result : RunBoth(server, json, json)) {
    const auto joined = ParseJson<v1::JoinBatchResponse>(result);
    EXPECT_EQ(joined.plan().fingerprint(), whole.fingerprint());
    EXPECT_THAT(joined.worker_offsets(), ::testing::ElementsAre(0, 20, 60));
  }
}

TEST(JoinCommand, PrintsAsPlanDoes) {
  const TestServer server;
  const std::vector<CliResult> results =
      RunBoth(server, {"--verify"}, {"--format", "sequences_csv"});
  EXPECT_EQ(results[0].exit_code, 0) << results[0].err;
  EXPECT_THAT(results[0].out, AllOf(HasSubstr("60 sequences, "), HasSubstr("rl, step 0"),
                                    HasSubstr("verified"), HasSubstr("step efficiency")));
  EXPECT_THAT(results[1].out, StartsWith("pass,mini_batch,rank,slot,sequence,length,"));
  EXPECT_EQ(std::count(results[1].out.begin(), results[1].out.end(), '\n'), 1 + kSequences);
}

TEST(JoinCommand, TruncatedSequencesAreShownWithTheLengthThatTheirWorkerSent) {
  const TestServer server;
  const CliResult result =
      RunCli({"join", "--server", server.target(), "--job", "rl", "--world_size", "1", "--worker",
              "0", "--lengths", "-", "--budget", "512", "--overlong", "truncate", "--verify"},
             "100\n700\n300\n");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("3 sequences, 1,100 tokens, the longest 700"),
                    HasSubstr("1 sequence of together 700 tokens"), HasSubstr("verified")));
}

TEST(JoinCommand, WhatWaitsIsVerifiedToo) {
  const TestServer server;
  const std::vector<std::string> take = {"--take", "50", "--verify"};
  for (const CliResult& result : RunBoth(server, take, take)) {
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, AllOf(HasSubstr("60 sequences, "), HasSubstr("10 sequences of "),
                                  HasSubstr("verified")));
  }
}

TEST(JoinCommand, SliceHoldsOneRank) {
  const TestServer server;
  const std::vector<std::string> json = {"--format", "json"};
  const std::vector<CliResult> results =
      RunBoth(server, json, {"--format", "json", "--rank", "2", "--own_slice"});
  const auto whole = ParseJson<v1::JoinBatchResponse>(results[0]);
  const auto slice = ParseJson<v1::JoinBatchResponse>(results[1]);
  EXPECT_EQ(slice.plan().fingerprint(), whole.plan().fingerprint());
  EXPECT_EQ(slice.plan().passes(0).row_widths_size() * 4, whole.plan().passes(0).row_widths_size());
}

TEST(JoinCommand, WhatTheServerRefusesNamesTheFlag) {
  const TestServer server;
  EXPECT_THAT(RunJoin(server, 0, {"--format", "json", "--rank", "99", "--own_slice"}).err,
              AllOf(HasSubstr("data_parallel_rank (--rank) is 99"),
                    HasSubstr("below request.topology.data_parallel (--dp) 4")));
}

TEST(JoinCommand, TimeoutNamesTheMissingWorker) {
  const TestServer server;
  const CliResult result = RunJoin(server, 1, {"--timeout", "600ms", "--step", "9"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.out, IsEmpty());
  EXPECT_THAT(result.err, AllOf(StartsWith("batchplan: join: DEADLINE_EXCEEDED: "),
                                HasSubstr("step 9"), HasSubstr("1 of 2"), HasSubstr(": 0")));
}

// Neither loads, kinds and groups of the others are in a plan.
TEST(JoinCommand, VerifiesWhatTheOthersAloneKnow) {
  const TestServer server;
  const auto join = [&](int worker, const std::string& manifest) {
    return RunCli(
        {"join", "--server", server.target(), "--world_size", "2", "--worker",
         std::to_string(worker), "--request", "-", "--verify"},
        R"({"job_id": "rl", "topology": {"data_parallel": 2}, "passes": [)"
        R"({"max_tokens_per_microbatch": 64, "limits": [{"load": "patches", "max_per_microbatch": 16}], )"
        R"("kinds_per_slot": "KINDS_PER_SLOT_ALIKE"}], )"
        R"("mini_batches": {"groups": "GROUP_POLICY_SAME_RANK"}, )"
        R"("cost_model": {"per_token": 1, "loads": [)"
        R"({"load": "images", "per_unit": 2, "separate": true, "dealt": true}]}, )"
        R"("manifest": {)" +
            manifest + "}}");
  };
  CliResult first;
  std::thread other([&] {
    first =
        join(0, R"("lengths": [30, 20, 10], "group_ids": [1, 1, 2], "kinds": [0, 0, 1], )"
                R"("loads": [{"name": "images"}, {"name": "patches", "values": [8, 8, 0]}], )"
                R"("items": [{"load": "images", "sequences": [0, 0, 1], "values": [4, 2, 1]}])");
  });
  const CliResult second =
      join(1, R"("lengths": [40, 9, 11], "group_ids": [3, 2, 3], "kinds": [1, 0, 0], )"
              R"("loads": [{"name": "images"}, {"name": "patches", "values": [16, 0, 0]}], )"
              R"("items": [{"load": "images", "sequences": [0, 2], "values": [3, 5]}])");
  other.join();
  for (const CliResult& result : {first, second}) {
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("verified"));
  }
}

TEST(JoinCommand, AWorkerMayTakeItsOwnPartOfAPlanAlone) {
  const TestServer server;
  const std::vector<std::string> slice = {"--own_slice", "--format", "json"};
  const std::vector<CliResult> results =
      RunBoth(server, slice, {"--own_slice", "--own_part", "--format", "json"});
  EXPECT_THAT(ParseJson<v1::JoinBatchResponse>(results[0]).worker_offsets(),
              ::testing::ElementsAre(0, 20, 60));
  EXPECT_THAT(ParseJson<v1::JoinBatchResponse>(results[1]).worker_offsets(),
              ::testing::ElementsAre(20, 60));
}

TEST(JoinCommand, WorkersShareWhatTheirGroupsBeginWith) {
  const TestServer server;
  const auto join = [&](int worker, const std::string& lengths,
                        const std::vector<std::string>& flags) {
    std::vector<std::string> all = {"join",
                                    "--server",
                                    server.target(),
                                    "--job",
                                    "rl",
                                    "--worker",
                                    std::to_string(worker),
                                    "--world_size",
                                    "2",
                                    "--lengths",
                                    "-",
                                    "--budget",
                                    "1024"};
    all.insert(all.end(), flags.begin(), flags.end());
    return RunCli(all, lengths);
  };
  const std::vector<std::string> json = {"--prompt_lengths", "--format", "json"};
  CliResult first;
  std::thread other([&] { first = join(0, "500 1 400\n450 1 400\n", json); });
  const CliResult second = join(1, "420 1 400\n60 2 0\n", json);
  other.join();
  const auto joined = ParseJson<v1::JoinBatchResponse>(second);
  const auto whole = ParseJson<v1::PlanBatchResponse>(
      RunCli({"plan", "--lengths", "-", "--budget", "1024", "--prompt_lengths", "--format", "json"},
             "500 1 400\n450 1 400\n420 1 400\n60 2 0\n"));
  EXPECT_EQ(joined.plan().fingerprint(), whole.fingerprint());
  EXPECT_EQ(ParseJson<v1::JoinBatchResponse>(first).plan().fingerprint(), whole.fingerprint());
  // A worker without sequences verifies what others share.
  std::thread sharer([&] { first = join(0, "500 1 400\n450 1 400\n", {json[0], "--step", "2"}); });
  const CliResult verified = join(1, "# none\n", {"--step", "2", "--verify"});
  sharer.join();
  EXPECT_THAT(first.out, HasSubstr(" laid, "));
  EXPECT_THAT(verified.out, AllOf(HasSubstr(" laid, "), HasSubstr("verified"))) << verified.err;
}

TEST(JoinCommand, WhatOneWorkerCantDoIsAUsageError) {
  const TestServer server;
  EXPECT_THAT(RunJoin(server, 0, {"--own_slice"}).err, HasSubstr("--format json only"));
  EXPECT_THAT(RunJoin(server, 0, {"--own_slice", "--format", "json", "--verify"}).err,
              HasSubstr("without --verify"));
  EXPECT_EQ(RunJoin(server, 0, {"--rank", "1"}).exit_code, 2);
  EXPECT_EQ(RunJoin(server, 0, {"--own_part"}).exit_code, 2);
  EXPECT_EQ(
      RunCli({"join", "--lengths", "-", "--budget", "512", "--worker", "0", "--world_size", "1"})
          .exit_code,
      2);
}

}  // namespace
}  // namespace batchplan
