#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "server/planner/make_plan.h"
#include "tests/client/cli/run_cli.h"
#include "tests/support/certificates.h"
#include "tests/support/scratch_directory.h"
#include "tests/support/test_server.h"

namespace batchplan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

// 60 lengths from 1 to 400, with everything that the format allows around them.
std::string Lengths() {
  std::string text = "# lengths\n\n";
  for (int i = 0; i < 60; ++i) text += std::to_string(1 + i * 7919 % 400) + "  # tokens\n";
  return text;
}

// Runs `plan` on these lengths with flags that always work, and `more`.
CliResult RunPlan(const std::vector<std::string>& more, const std::string& lengths = Lengths()) {
  std::vector<std::string> arguments = {"plan", "--lengths", "-", "--dp", "4", "--budget", "512"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return RunCli(arguments, lengths);
}

v1::PlanBatchResponse ParseJson(const CliResult& result) {
  EXPECT_EQ(result.exit_code, 0) << result.err;
  v1::PlanBatchResponse response;
  EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(result.out, &response).ok())
      << result.out;
  return response;
}

TEST(PlanCommand, EffortAndSynchronizationReachTheSolver) {
  const auto metrics = [](const std::vector<std::string>& more) {
    std::vector<std::string> flags = {"--verify", "--format", "json"};
    flags.insert(flags.end(), more.begin(), more.end());
    return ParseJson(RunPlan(flags)).passes(0).metrics();
  };
  const double lockstep = metrics({}).predicted_step_time();
  EXPECT_LE(metrics({"--sync", "accumulated"}).predicted_step_time(), lockstep);
  for (const char* effort : {"fast", "thorough"}) {
    const v1::PlanMetrics metrics_of = metrics({"--effort", effort});
    EXPECT_GE(metrics_of.predicted_step_time(), metrics_of.lower_bound_step_time()) << effort;
  }
  EXPECT_LE(lockstep, metrics({"--preset", "nemo_rl_packing"}).predicted_step_time());
}

TEST(PlanCommand, JsonIsTheResponseWithZeroValues) {
  const CliResult result = RunPlan({"--format", "json"});
  const v1::PlanBatchResponse response = ParseJson(result);
  EXPECT_EQ(response.passes(0).sequence_index_size(), 60);
  EXPECT_THAT(result.out, AllOf(HasSubstr("\"perMicrobatch\":0"), HasSubstr("\"excluded\":[]"),
                                HasSubstr("\"certifiedOptimal\":")));
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 1);
}

TEST(PlanCommand, PrintedRequestGivesThePlanOfItsFlags) {
  const std::vector<std::string> flags = {"--cp",
                                          "2",
                                          "--tp",
                                          "2",
                                          "--sequence_parallel",
                                          "--packer",
                                          "best_fit_decreasing",
                                          "--mini_batch_size",
                                          "20",
                                          "--shuffle",
                                          "--seed",
                                          "18446744073709551615",
                                          "--order",
                                          "largest_first",
                                          "--rows",
                                          "buckets",
                                          "--buckets",
                                          "256,512",
                                          "--length_multiple",
                                          "16",
                                          "--cost",
                                          "1,0.001,5,30",
                                          "--exchange",
                                          "8:0.02,0:0.065",
                                          "--exchange_overlaps",
                                          "--sync",
                                          "accumulated",
                                          "--microbatch_count_multiple",
                                          "2",
                                          "--max_sequences",
                                          "8",
                                          "--balance_on",
                                          "cost",
                                          "--pad_to",
                                          "1000",
                                          "--job",
                                          "j",
                                          "--step",
                                          "3",
                                          "--request_id",
                                          "r",
                                          "--overlong",
                                          "truncate",
                                          "--effort",
                                          "fast",
                                          "--min_microbatches",
                                          "1"};
  auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = flags;
    all.insert(all.end(), more.begin(), more.end());
    return RunPlan(all);
  };
  const CliResult request = with({"--print_request"});
  ASSERT_EQ(request.exit_code, 0) << request.err;
  EXPECT_THAT(request.out, AllOf(HasSubstr("PACKER_BEST_FIT_DECREASING"),
                                 HasSubstr("\"seed\": \"18446744073709551615\"")));
  const v1::PlanBatchResponse planned = ParseJson(with({"--format", "json", "--verify"}));
  const v1::PlanBatchResponse again =
      ParseJson(RunCli({"plan", "--request", "-", "--format", "json", "--verify"}, request.out));
  EXPECT_EQ(planned.fingerprint(), again.fingerprint());
  EXPECT_EQ(planned.passes(0).microbatches_per_rank_size(), 3);

  const ScratchDirectory directory;
  const std::string path = directory.Write("request.json", request.out);
  EXPECT_EQ(ParseJson(RunCli({"plan", "--request", path, "--format", "json"})).fingerprint(),
            planned.fingerprint());
}

TEST(PlanCommand, ExchangeComesToTheDefaultCosts) {
  const std::vector<std::string> flags = {"--cp", "2", "--exchange", "8:0.02,0:0.065"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = flags;
    all.insert(all.end(), more.begin(), more.end());
    return RunPlan(all);
  };
  const v1::CostModel costs = ParseJson(with({"--format", "json"})).cost_model_used();
  EXPECT_EQ(costs.per_token(), 1);
  EXPECT_EQ(costs.per_token_squared(), 1.0 / 24576);
  EXPECT_EQ(costs.per_microbatch(), 0);
  ASSERT_EQ(costs.exchange_size(), 2);
  EXPECT_EQ(costs.exchange(0).up_to_size(), 8U);
  EXPECT_EQ(costs.exchange(1).per_token(), 0.065);
  EXPECT_EQ(ParseJson(with({"--pp", "2", "--format", "json"})).cost_model_used().per_microbatch(),
            1024);
  EXPECT_EQ(
      ParseJson(with({"--dynamic_cp", "1", "--format", "json"})).cost_model_used().per_microbatch(),
      1024);
  EXPECT_THAT(with({}).out, HasSubstr("0.02 a token in groups of up to 8, 0.065 in larger ones\n"));
}

TEST(PlanCommand, SecondColumnAndFlagsComeIntoTheRequest) {
  const CliResult request = RunPlan({"--groups", "same_rank", "--allow_empty_microbatches",
                                     "--ignore_mini_batches", "--print_request"},
                                    "5 7\n3 7\n4 8\n");
  ASSERT_EQ(request.exit_code, 0) << request.err;
  v1::PlanBatchRequest parsed;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(request.out, &parsed).ok());
  EXPECT_EQ(parsed.manifest().lengths_size(), 3);
  EXPECT_EQ(parsed.manifest().group_ids_size(), 3);
  EXPECT_EQ(parsed.manifest().group_ids(2), 8U);
  EXPECT_EQ(parsed.mini_batches().groups(), v1::GROUP_POLICY_SAME_RANK);
  EXPECT_TRUE(parsed.allow_empty_microbatches());
  EXPECT_TRUE(parsed.passes(0).ignore_mini_batches());
}

TEST(PlanCommand, SomeOfWhatWaitsIsPlanned) {
  // Lengths, groups and ages.
  const std::string pool = "90 1 0\n10 1 3\n90 2 0\n10 2 0\n400 3 9\n7 3 0\n20 4 1\n30 4 0\n";
  const CliResult result = RunPlan(
      {"--ages", "--take_groups", "2", "--max_age", "4", "--max_overtaking", "1", "--verify"},
      pool);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("expired             2 sequences of together 407 tokens"));
  EXPECT_THAT(result.out, HasSubstr("taken               4 sequences of 50 tokens on average"));
  EXPECT_THAT(result.out, HasSubstr("deferred            2 sequences of 25 tokens on average"));
  EXPECT_THAT(result.out, HasSubstr("age                 0.75 on average, at most 3"));
  EXPECT_THAT(
      RunPlan({"--ages", "--take", "9"}, pool).err,
      HasSubstr("selection.sequences (--take) is 9, but 8 sequences may be taken: 1 missing"));
  EXPECT_THAT(RunPlan({"--take", "9", "--take_tokens", "7"}, pool).err, HasSubstr("--take_tokens"));
}

TEST(PlanCommand, SequencesMoveToALaterMiniBatchIfThatIsAskedFor) {
  const CliResult result = RunPlan(
      {"--mini_batch_size", "2", "--max_delay", "1", "--verify", "--allow_empty_microbatches"},
      "100\n1\n100\n1\n");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out,
              HasSubstr("delayed             50.0 % in another mini-batch, by 0.25 on average"));
}

TEST(PlanCommand, FlagsOfAPipelineComeIntoTheRequest) {
  const CliResult request =
      RunPlan({"--pp", "2", "--vpp", "3", "--pipeline_schedule", "interleaved", "--pipeline_group",
               "4", "--backward_ratio", "1.5", "--stage_shares", "1,2,3,4,5,6", "--transfer", "7",
               "--forward_only", "--order", "pipeline", "--print_request"});
  ASSERT_EQ(request.exit_code, 0) << request.err;
  v1::PlanBatchRequest parsed;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(request.out, &parsed).ok());
  EXPECT_EQ(parsed.topology().pipeline_parallel(), 2U);
  EXPECT_EQ(parsed.topology().virtual_pipeline(), 3U);
  const v1::Pipeline& pipeline = parsed.pipeline();
  EXPECT_EQ(pipeline.schedule(), v1::PIPELINE_SCHEDULE_INTERLEAVED);
  EXPECT_EQ(pipeline.group_size(), 4U);
  EXPECT_EQ(pipeline.backward_ratio(), 1.5);
  EXPECT_THAT(pipeline.stage_shares(), ::testing::ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(pipeline.transfer(), 7);
  EXPECT_TRUE(parsed.passes(0).forward_only());
  EXPECT_EQ(parsed.passes(0).order(), v1::MICROBATCH_ORDER_PIPELINE);
}

TEST(PlanCommand, SequencesStayOnTheRanksOfTheThirdColumn) {
  const v1::PlanBatchResponse plan =
      ParseJson(RunCli({"plan", "--lengths", "-", "--dp", "2", "--budget", "8", "--preset", "verl",
                        "--allow_empty_microbatches", "--format", "json", "--verify"},
                       "5 - 1\n3 - 0\n4 - 1\n2 - 1\n"));
  const v1::PassPlan& pass = plan.passes(0);
  // Rank 0 has the second sequence alone.
  ASSERT_GE(pass.microbatch_offsets_size(), 2);
  EXPECT_EQ(pass.microbatch_offsets(1), 1);
  EXPECT_EQ(pass.sequence_index(0), 1);
}

TEST(PlanCommand, AnswersShareThePromptOfTheirGroup) {
  const std::string lengths = "500 1 400\n450 1 400\n420 1 400\n300 2 250\n310 2 250\n60 3 0\n";
  const std::vector<std::string> shared = {"plan", "--lengths", "-",        "--prompt_lengths",
                                           "--dp", "2",         "--budget", "1024"};
  const auto with = [](std::vector<std::string> flags, const std::vector<std::string>& more) {
    flags.insert(flags.end(), more.begin(), more.end());
    return flags;
  };
  const v1::PlanBatchResponse plan =
      ParseJson(RunCli(with(shared, {"--format", "json", "--verify"}), lengths));
  const v1::PassPlan& pass = plan.passes(0);
  ASSERT_EQ(pass.shared_tokens_size(), 6);
  uint64_t laid = 2040;
  for (const uint32_t tokens : pass.shared_tokens()) laid -= tokens;
  EXPECT_EQ(pass.metrics().laid_tokens(), laid);
  EXPECT_EQ(pass.metrics().unique_tokens(), 2040U - 2 * 400 - 250);

  // Gives the prefixes by positions, and in a JSON request.
  const v1::PlanBatchResponse by_position =
      ParseJson(RunCli({"plan", "--lengths", "-", "--shared_prefixes", "--dp", "2", "--budget",
                        "1024", "--format", "json"},
                       "500 0 0\n450 400 0\n420 400 0\n300 0 0\n310 250 3\n60 0 0\n"));
  EXPECT_EQ(by_position.fingerprint(), plan.fingerprint());
  const v1::PlanBatchResponse by_request = ParseJson(RunCli(
      {"plan", "--request", "-", "--format", "json"},
      R"({"manifest": {"lengths": [500, 450, 420, 300, 310, 60], "groupIds": [1, 1, 1, 2, 2, 3],
                       "sharedPrefixes": [400, 400, 400, 250, 250, 0]},
          "topology": {"dataParallel": 2}, "passes": [{"maxTokensPerMicrobatch": 1024}]})"));
  EXPECT_EQ(by_request.fingerprint(), plan.fingerprint());

  const std::string table = RunCli(shared, lengths).out;
  EXPECT_THAT(table, HasSubstr("2,040 true, "));
  EXPECT_THAT(table, HasSubstr(" laid, "));
  EXPECT_THAT(table, HasSubstr(" of the true tokens, at most 51.5% in any plan"));
  const std::string csv = RunCli(with(shared, {"--format", "sequences_csv"}), lengths).out;
  EXPECT_THAT(csv, HasSubstr(",length,aligned_length,shared_tokens\n"));

  const CliResult whole = RunCli(with(shared, {"--ignore_shared_prefixes"}), lengths);
  EXPECT_THAT(whole.out, HasSubstr(" aligned, "));
  EXPECT_THAT(whole.out, Not(HasSubstr("shared")));
  EXPECT_EQ(RunCli(with(shared, {"--shared_prefixes"}), lengths).exit_code, 2);
  EXPECT_EQ(RunCli(with(shared, {"--scan", "sorted"}), lengths).exit_code, 1);
}

TEST(PlanCommand, MicrobatchesHaveAMultipleOfSequences) {
  const std::vector<std::string> flags = {"plan",     "--lengths", "-",
                                          "--budget", "1000",      "--sequence_count_multiple",
                                          "3",        "--format",  "json"};
  const v1::PlanBatchResponse plan =
      ParseJson(RunCli(flags, "500\n450\n20\n300\n310\n60\n40\n30\n10\n"));
  ASSERT_EQ(plan.passes_size(), 1);
  const auto& offsets = plan.passes(0).microbatch_offsets();
  ASSERT_GT(offsets.size(), 1);
  for (const uint32_t offset : offsets) EXPECT_EQ(offset % 3, 0u);
}

TEST(PlanCommand, LoadsComeIntoTheRequestAndTheTable) {
  const std::string lengths = "500 100,50\n450 -\n420 80\n300 -\n310 20,20,20\n60 -\n";
  const std::vector<std::string> flags = {
      "plan",    "--lengths",     "-",       "--dp",        "2",           "--budget",       "1024",
      "--loads", "patches:items", "--limit", "patches=400", "--load_cost", "patches=2:dealt"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = flags;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const v1::PlanBatchResponse plan = ParseJson(RunCli(with({"--format", "json"}), lengths));
  const v1::PassPlan& pass = plan.passes(0);
  ASSERT_EQ(pass.item_ranks_size(), 1);
  EXPECT_EQ(pass.item_ranks(0).ranks_size(), 6);
  ASSERT_EQ(pass.metrics().loads_size(), 1);
  ASSERT_EQ(plan.cost_model_used().loads_size(), 1);
  EXPECT_EQ(plan.cost_model_used().per_token(), 1) << "on top of the default costs";
  const v1::PlanBatchResponse by_request = ParseJson(RunCli(
      {"plan", "--request", "-", "--format", "json"},
      R"({"manifest": {"lengths": [500, 450, 420, 300, 310, 60], "loads": [{"name": "patches"}],
                       "items": [{"load": "patches", "sequences": [0, 0, 2, 4, 4, 4],
                                  "values": [100, 50, 80, 20, 20, 20]}]},
          "costModel": {"perToken": 1, "perTokenSquared": 4.069010416666667e-05,
                        "loads": [{"load": "patches", "perUnit": 2, "dealt": true}]},
          "topology": {"dataParallel": 2},
          "passes": [{"maxTokensPerMicrobatch": 1024,
                      "limits": [{"load": "patches", "maxPerMicrobatch": 400}]}]})"));
  EXPECT_EQ(by_request.fingerprint(), plan.fingerprint());

  const std::string table = RunCli(flags, lengths).out;
  EXPECT_THAT(table, HasSubstr("load patches"));
  EXPECT_THAT(table, HasSubstr(" of at most 400, mean "));
  EXPECT_THAT(table, HasSubstr(" of the step time\n"));
  const CliResult html = RunCli(with({"--format", "html"}), lengths);
  EXPECT_THAT(html.out, HasSubstr("\"rankImbalance\""));
  EXPECT_THAT(html.out, Not(HasSubstr("\"ranks\"")));

  const CliResult over = RunCli(with({"--limit", "patches=90"}), lengths);
  EXPECT_NE(over.exit_code, 0);
  const CliResult unknown =
      RunCli({"plan", "--lengths", "-", "--budget", "1024", "--limit", "frames=9"}, "5\n");
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_THAT(unknown.err, HasSubstr("passes[0].limits[0].load (--limit) is \"frames\""));
  EXPECT_EQ(
      ParseJson(RunCli({"plan", "--lengths", "-", "--budget", "9", "--kinds", "--format", "json"},
                       "5 1\n4 0\n"))
          .passes(0)
          .sequence_index_size(),
      2);
}

TEST(PlanCommand, ServerGivesTheSamePlan) {
  const TestServer server;
  const v1::PlanBatchResponse here = ParseJson(RunPlan({"--format", "json"}));
  const v1::PlanBatchResponse there = ParseJson(
      RunPlan({"--format", "json", "--server", server.target(), "--verify", "--timeout", "20s"}));
  EXPECT_EQ(here.fingerprint(), there.fingerprint());
  EXPECT_THAT(RunPlan({"--server", server.target()}).out, HasSubstr("by " + server.target()));
}

TEST(PlanCommand, ServerMayWantTlsACertificateAndAToken) {
  const ScratchDirectory directory;
  const CertificateAuthority authority("authority");
  const PemPair server_pair = authority.Issue("server");
  const PemPair client_pair = authority.Issue("client");
  const std::string ca = directory.Write("ca.pem", authority.certificate());
  ServerOptions options = TestServer::Options();
  options.tls_certificate = directory.Write("server.pem", server_pair.certificate);
  options.tls_key = directory.Write("server.key", server_pair.key);
  options.tls_client_ca = ca;
  options.auth_tokens = directory.Write("tokens", "a-token-of-0123456789 *\n");
  const TestServer server(options);
  const std::vector<std::string> tls = {
      "--server",          server.target(),
      "--tls_ca",          ca,
      "--tls_certificate", directory.Write("client.pem", client_pair.certificate),
      "--tls_key",         directory.Write("client.key", client_pair.key)};
  std::vector<std::string> with_token = tls;
  with_token.insert(with_token.end(),
                    {"--token_file", directory.Write("token", "a-token-of-0123456789")});
  EXPECT_THAT(RunPlan(with_token).out, HasSubstr("by " + server.target()));
  const CliResult without = RunPlan(tls);
  EXPECT_EQ(without.exit_code, 1);
  EXPECT_THAT(without.err, HasSubstr("UNAUTHENTICATED"));
  const CliResult missing =
      RunPlan({"--server", server.target(), "--tls_ca", directory.Path("missing.pem")});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.err, HasSubstr("missing.pem, which can't be read"));
}

TEST(PlanCommand, UnreachableServerExitsWith3UnlessThereIsAFallback) {
  const std::string nowhere = "unix:/nonexistent/batchplan.sock";
  const CliResult unreachable = RunPlan({"--server", nowhere, "--timeout", "1s"});
  EXPECT_EQ(unreachable.exit_code, 3);
  EXPECT_THAT(unreachable.err, StartsWith("batchplan: plan: UNAVAILABLE: "));
  EXPECT_THAT(unreachable.out, IsEmpty());
  const CliResult fallback = RunPlan({"--server", nowhere, "--fallback"});
  EXPECT_EQ(fallback.exit_code, 0) << fallback.err;
  EXPECT_THAT(fallback.err, HasSubstr("planning in process instead"));
  EXPECT_THAT(fallback.out, HasSubstr("planned             in process"));
}

TEST(PlanCommand, PassedTimeoutExitsWith3) {
  // Plans until told to stop, which the server does at the call's deadline.
  const TestServer server(
      TestServer::Options(),
      [](const Manifest&, const PlanOptions&, const std::stop_token& stop) -> absl::StatusOr<Plan> {
        absl::Notification stopped;
        const std::stop_callback notify(stop, [&] { stopped.Notify(); });
        stopped.WaitForNotification();
        return absl::CancelledError("stopped");
      });
  const CliResult result = RunPlan({"--server", server.target(), "--timeout", "50ms"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, StartsWith("batchplan: plan: DEADLINE_EXCEEDED: "));
}

TEST(PlanCommand, WrongPlanExitsWith4) {
  // Removes the last sequence from the planner's plan.
  const TestServer server(
      TestServer::Options(),
      [](const Manifest& manifest, const PlanOptions& options, const std::stop_token& stop) {
        absl::StatusOr<Plan> plan = MakePlan(manifest, options, stop);
        if (plan.ok()) {
          plan->passes[0].sequence_index.back() = plan->passes[0].sequence_index.front();
        }
        return plan;
      });
  const CliResult trusted = RunPlan({"--server", server.target()});
  EXPECT_EQ(trusted.exit_code, 0) << trusted.err;
  const CliResult verified = RunPlan({"--server", server.target(), "--verify"});
  EXPECT_EQ(verified.exit_code, 4);
  EXPECT_THAT(verified.err, HasSubstr("plan check: "));
  EXPECT_THAT(verified.out, IsEmpty());
}

TEST(PlanCommand, WrongFingerprintExitsWith4) {
  const TestServer server(
      TestServer::Options(),
      [](const Manifest& manifest, const PlanOptions& options, const std::stop_token& stop) {
        absl::StatusOr<Plan> plan = MakePlan(manifest, options, stop);
        if (plan.ok()) plan->fingerprint = std::string(64, '0');
        return plan;
      });
  const CliResult verified = RunPlan({"--server", server.target(), "--verify"});
  EXPECT_EQ(verified.exit_code, 4);
  EXPECT_THAT(verified.err, HasSubstr("fingerprint"));
}

TEST(PlanCommand, WrongInputsExitWith1AndNameThePlace) {
  const auto error = [](const CliResult& result) {
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.out, IsEmpty());
    return result.err;
  };
  EXPECT_THAT(error(RunPlan({}, "1\n# fine\n\nx y\n")),
              HasSubstr("stdin:4: \"x y\" is not a length"));
  EXPECT_THAT(error(RunPlan({}, "1\n0\n")), HasSubstr("stdin:2: \"0\" is not a length"));
  EXPECT_THAT(error(RunPlan({}, "4294967296\n")), HasSubstr("stdin:1"));
  EXPECT_THAT(error(RunPlan({}, "")), HasSubstr("manifest.lengths"));
  EXPECT_THAT(error(RunPlan({}, "1\n2\n3\n5000\n")), AllOf(HasSubstr("5000"), HasSubstr("512")));
  EXPECT_THAT(error(RunCli({"plan", "--request", "-"}, "{\"foo\": 1}")),
              HasSubstr("stdin: not a PlanBatchRequest in JSON"));
  EXPECT_THAT(error(RunCli({"plan", "--request", "-"}, R"({"manifest": {"lengths": [5, null]}})")),
              HasSubstr("in JSON: manifest.lengths[1] is null"));
  EXPECT_THAT(error(RunCli({"plan", "--request", "-"}, R"({"manifest": {}, "manifest": {}})")),
              HasSubstr("in JSON: manifest is given twice"));
  EXPECT_THAT(error(RunCli({"plan", "--request", "/nonexistent/request"})),
              HasSubstr("batchplan: plan: /nonexistent/request: No such file or directory"));
  EXPECT_THAT(error(RunCli({"plan", "--lengths", "/", "--budget", "1"})),
              HasSubstr("/: is a directory"));
}

TEST(PlanCommand, TheOrderOfMiniBatchesIsAskedForByName) {
  const auto fingerprint = [](std::vector<std::string> flags) {
    flags.insert(flags.end(), {"--mini_batch_size", "20", "--verify", "--format", "json"});
    return ParseJson(RunPlan(flags)).fingerprint();
  };
  EXPECT_EQ(fingerprint({"--mini_batch_order", "preserved"}), fingerprint({}));
  EXPECT_EQ(fingerprint({"--mini_batch_order", "shuffled"}), fingerprint({"--shuffle"}));
  EXPECT_NE(fingerprint({"--mini_batch_order", "stratified"}), fingerprint({}));
  EXPECT_THAT(RunPlan({"--mini_batch_order", "stratified", "--shuffle"}).err,
              HasSubstr("excludes"));
}

TEST(PlanCommand, GroupsOfAPoolAreAskedForByTheirSizesAndCounted) {
  const std::vector<std::string> flags = {"plan", "--lengths", "-",   "--dp",         "4",  "--cp",
                                          "2",    "--budget",  "200", "--dynamic_cp", "1,4"};
  const CliResult result = RunCli(flags, "400\n50\n60\n70\n80\n");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("DP 4 x CP 2, a pool of 8 ranks in groups of 1 to 4"));
  EXPECT_THAT(result.out,
              HasSubstr("\ngroups              1 of 4 ranks, 4 of 1 rank, in 1 slot\n"));
  EXPECT_THAT(result.out, HasSubstr("\nmicro-batches       5, one a group\n"));
  EXPECT_THAT(result.out, HasSubstr("\nbudget              200 tokens for every 2 ranks of a "
                                    "group, lengths in multiples of 1, in "
                                    "groups of c ranks also of 2 c\n"));
  EXPECT_THAT(result.out, HasSubstr("count on each rank of their group"));
  EXPECT_THAT(result.out, HasSubstr("0.02 a token in groups of up to 8, 0.065 in larger ones\n"));
  EXPECT_THAT(
      RunCli({"plan", "--lengths", "-", "--dp", "6", "--budget", "200", "--dynamic_cp", "4"},
             "400\n50\n")
          .out,
      HasSubstr("DP 6, a pool of 6 ranks in groups of 6\n"));
  EXPECT_EQ(
      RunCli({"plan", "--lengths", "-", "--budget", "8", "--dynamic_cp", "1-4"}, "5\n").exit_code,
      2);
}

TEST(PlanCommand, SequencesOfAPoolAreListedWithTheSizeOfTheirGroup) {
  const CliResult result = RunCli({"plan", "--lengths", "-", "--dp", "4", "--budget", "100",
                                   "--dynamic_cp", "1", "--format", "sequences_csv"},
                                  "390\n");
  EXPECT_EQ(result.out,
            "pass,mini_batch,rank,slot,sequence,length,aligned_length,context_parallel\n"
            "0,0,0,0,0,390,392,4\n");
}

TEST(PlanCommand, APoolHasTheExchangeThatIsItsDefaultUnlessCostsAreGiven) {
  const auto plan = [](const std::vector<std::string>& more) {
    std::vector<std::string> flags = {"--dynamic_cp", "1"};
    flags.insert(flags.end(), more.begin(), more.end());
    return RunPlan(flags);
  };
  const v1::PlanBatchResponse unset = ParseJson(plan({"--format", "json"}));
  const v1::PlanBatchResponse set =
      ParseJson(plan({"--exchange", "8:0.02,0:0.065", "--format", "json"}));
  EXPECT_EQ(set.cost_model_used().per_microbatch(), 1024);
  EXPECT_EQ(set.fingerprint(), unset.fingerprint());
  EXPECT_EQ(set.passes(0).metrics().predicted_step_time(),
            unset.passes(0).metrics().predicted_step_time());
  EXPECT_THAT(plan({}).out, HasSubstr("\nexchange            0.02 a token in groups of up to 8, "
                                      "0.065 in larger ones\n"));
  EXPECT_THAT(plan({"--cost", "1,0,1024"}).out, HasSubstr("\nexchange            none\n"));
}

TEST(PlanCommand, ExcludedSequencesAreSummedUp) {
  EXPECT_THAT(RunPlan({"--overlong", "drop"}, Lengths() + "600\n700\n").out,
              HasSubstr("2 sequences of together 1,300 tokens"));
  EXPECT_THAT(RunPlan({"--overlong", "truncate"}, Lengths() + "600\n").out,
              HasSubstr("truncated           1 sequence of together 600 tokens"));
  EXPECT_THAT(RunPlan({"--overlong", "alone", "--verify"}, Lengths() + "600\n700\n").out,
              HasSubstr("alone               2 sequences of together 1,300 tokens"));
}

}  // namespace
}  // namespace batchplan
