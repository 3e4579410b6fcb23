// The command line in general: help, versions, and errors that come before any work.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <vector>

#include "tests/client/cli/run_cli.h"
#include "tests/support/scratch_directory.h"

namespace batchplan {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

// The list "1,1,...,1".
std::string Ones(int count) {
  std::string list = "1";
  for (int i = 1; i < count; ++i) list += ",1";
  return list;
}

// Nothing from the command line, a file or its name may send a terminal unseen characters.
TEST(Usage, WhatATerminalWouldObeyIsEscapedInErrors) {
  const ScratchDirectory folder;
  const std::string field = folder.Write("field.json", R"({"na\u001b[31mme\u202e": 1})");
  const std::string value = folder.Write("value.json", "{\"effort\": \"\x1b[31m\x07\"}");
  const std::string pass =
      folder.Write("pass.json", R"({"passes": [{"name": "\u001b[31m\u009b1m"}]})");
  const std::vector<std::vector<std::string>> wrong = {
      {"plan", "--request", field}, {"plan", "--request", value},
      {"plan", "--request", pass},  {"plan", "--request", folder.Path("\x1b[31m\xe2\x80\xae")},
      {"plan", "--\x1b[31m"},       {"\x1b[31m\x80"},
  };
  for (const std::vector<std::string>& arguments : wrong) {
    const CliResult result = RunCli(arguments);
    EXPECT_NE(result.exit_code, 0);
    EXPECT_THAT(result.err, StartsWith("batchplan: "));
    EXPECT_THAT(result.err, AnyOf(HasSubstr("[31m"), HasSubstr("Invalid escape")));
    for (const char* obeyed : {"\x1b", "\x07", "\xc2\x9b", "\xe2\x80\xae", "\x80"}) {
      EXPECT_THAT(result.err, Not(HasSubstr(obeyed)));
    }
  }
}

TEST(Usage, HelpTeaches) {
  const CliResult top = RunCli({"--help"});
  EXPECT_EQ(top.exit_code, 0);
  EXPECT_THAT(top.out, AllOf(HasSubstr("plan"), HasSubstr("lengths"), HasSubstr("version")));
  const CliResult plan = RunCli({"plan", "--help"});
  EXPECT_EQ(plan.exit_code, 0);
  EXPECT_THAT(plan.out, AllOf(HasSubstr("Examples:"), HasSubstr("Exit codes:"),
                              HasSubstr("first_fit_decreasing"), HasSubstr("--budget N")));
  const CliResult compare = RunCli({"compare", "--help"});
  EXPECT_EQ(compare.exit_code, 0);
  EXPECT_THAT(compare.out, AllOf(HasSubstr("Examples:"), HasSubstr("Exit codes:"),
                                 HasSubstr("lockstepStepTime"), HasSubstr("--pass NAME")));
  const CliResult sweep = RunCli({"sweep", "--help"});
  EXPECT_EQ(sweep.exit_code, 0);
  EXPECT_THAT(sweep.out, AllOf(HasSubstr("Examples:"), HasSubstr("Exit codes:"),
                               HasSubstr("--budget N,N,..."), HasSubstr("GPU time")));
  const CliResult lengths = RunCli({"lengths", "--help"});
  EXPECT_EQ(lengths.exit_code, 0);
  EXPECT_THAT(lengths.out, AllOf(HasSubstr("Examples:"), HasSubstr("estimate")));
}

TEST(Usage, VersionNamesPlannerAndLibraries) {
  const CliResult flag = RunCli({"--version"});
  EXPECT_EQ(flag.exit_code, 0);
  EXPECT_THAT(flag.out, MatchesRegex("batchplan [0-9]+\\.[0-9]+\\.[0-9]+\n"));
  const CliResult command = RunCli({"version"});
  EXPECT_EQ(command.exit_code, 0);
  EXPECT_THAT(command.out,
              AllOf(StartsWith(flag.out), HasSubstr("\ngRPC "), HasSubstr("\nprotobuf ")));
}

TEST(Usage, WrongCommandLinesAreRefusedByName) {
  const ScratchDirectory directory;
  const std::string lengths = directory.Write("lengths", "1\n2\n");
  struct Case {
    std::vector<std::string> arguments;
    std::string message;
  };
  const std::vector<Case> cases = {
      {{}, "batchplan: A subcommand is required"},
      {{"plane"}, "batchplan: there is no command \"plane\""},
      {{"plan"}, "batchplan: plan: --lengths FILE or --request FILE is required"},
      {{"plan", "--lengths", lengths}, "--lengths requires --budget"},
      {{"plan", "--lengths", lengths, "--budget", "9", "--request", lengths},
       "--request excludes --lengths"},
      {{"plan", "--request", lengths, "--dp", "2"}, "--request excludes --dp"},
      {{"plan", "--request", lengths, "--shuffle"}, "--request excludes --shuffle"},
      {{"plan", "--lengths", lengths, "--budget", "-1"}, "--budget: \"-1\" is not a whole number"},
      {{"plan", "--lengths", lengths, "--budget", "9", "--dp", "4294967296"}, "4294967295"},
      {{"plan", "--lengths", lengths, "--budget", "9", "--packer", "best"},
       "--packer: \"best\" is not one of balanced, concatenative"},
      {{"plan", "--lengths", lengths, "--budget", "9", "--packer", "unspecified"}, "is not one of"},
      {{"plan", "--lengths", lengths, "--budget", "9", "--rows", "none", "--scan", "sorted"},
       "excludes"},
      {{"plan", "--lengths", lengths, "--budget", "9", "--buckets", "1,b"}, "--buckets: \"b\""},
      {{"plan", "--lengths", lengths, "--budget", "9", "--cost", "1,2"}, "--cost: \"1,2\""},
      {{"plan", "--lengths", lengths, "--budget", "9", "--exchange", "8:0.02,0.065"},
       "--exchange: \"0.065\" is not a size and a number"},
      {{"plan", "--lengths", lengths, "--budget", "9", "--load_cost", "patches=2:soon"},
       "--load_cost: \"patches=2:soon\" is not a load and a number"},
      {{"plan", "--lengths", lengths, "--budget", "9", "--load_cost", "patches"},
       "--load_cost: \"patches\" is not a load and a number"},
      {{"plan", "--lengths", lengths, "--budget", "9", "--limit", "patches=many"},
       "--limit: \"patches=many\" is not a load and a number"},
      {{"plan", "--lengths", lengths, "--budget", "9", "--loads", "patches:parts"},
       "--loads: \"patches:parts\" is not the name of a load"},
      {{"plan", "--loads", "patches"}, "--loads requires --lengths"},
      {{"plan", "--lengths", lengths, "--budget", "9", "--exchange_overlaps"},
       "--exchange_overlaps requires --exchange"},
      {{"plan", "--lengths", lengths, "--budget", "9", "--timeout", "5"}, "--timeout: \"5\""},
      {{"plan", "--lengths", lengths, "--budget", "9", "--format", "xml"}, "--format"},
      {{"plan", "--lengths", lengths, "--budget", "9", "--fallback"},
       "--fallback requires --server"},
      {{"plan", "--lengths", lengths, "--budget", "9", "--tls_ca", "ca.pem"},
       "--tls_ca requires --server"},
      {{"plan", "--lengths", lengths, "--budget", "9", "--server", "a:1", "--token_file", "token"},
       "--token_file requires --tls_ca"},
      {{"plan", "--lengths", lengths, "--budget", "9", "--server", "a:1", "--tls_ca", "ca.pem",
        "--tls_certificate", "c.pem"},
       "--tls_certificate requires --tls_key"},
      {{"plan", "--lengths", lengths, "--budget", "9", "--groups", "none"},
       "--groups: \"none\" is not one of ignore, same_mini_batch"},
      {{"compare"}, "batchplan: compare: --lengths FILE or --request FILE is required"},
      {{"compare", "--lengths", lengths}, "--lengths requires --budget"},
      {{"compare", "--lengths", lengths, "--budget", "9", "--preset", "verl"}, "--preset"},
      {{"compare", "--lengths", lengths, "--budget", "9", "--format", "sequences_csv"}, "--format"},
      {{"sweep"}, "batchplan: sweep: --lengths FILE or --request FILE is required"},
      {{"sweep", "--lengths", lengths}, "--lengths requires --budget or --budget_per_gpu"},
      {{"sweep", "--lengths", lengths, "--budget", "8", "--dp", "2", "--gpus", "8"},
       "--dp excludes --gpus"},
      {{"sweep", "--lengths", lengths, "--budget", "8,"}, "--budget: \"\" is not a whole number"},
      {{"sweep", "--lengths", lengths, "--budget", "8", "--dp", "2,x"}, "--dp: \"x\""},
      {{"sweep", "--request", lengths, "--tp", "2"}, "--request excludes --tp"},
      {{"sweep", "--lengths", lengths, "--budget", "8", "--pp", "1,", "--vpp", "2"}, "--pp: \"\""},
      {{"plan", "--lengths", lengths, "--budget", "9", "--stage_shares", "1,b"},
       "--stage_shares: \"b\" is not a number"},
      {{"sweep", "--lengths", lengths, "--budget", Ones(65), "--dp", Ones(64)},
       "these make 4160 points; a sweep has at most 4096"},
      {{"lengths"}, "batchplan: lengths: PATH is required"},
      {{"lengths", "--per", "word", lengths}, "--per"},
      {{"lengths", "--bytes_per_token", "0", lengths}, "--bytes_per_token"},
  };
  for (const Case& wrong : cases) {
    const CliResult result = RunCli(wrong.arguments);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_THAT(result.err, AllOf(StartsWith("batchplan: "), HasSubstr(wrong.message),
                                  HasSubstr("--help'.\n")));
    EXPECT_THAT(result.out, IsEmpty());
  }
}

TEST(Usage, ClosedPipeEndsTheProgramQuietly) {
  const CliResult result = RunCliIntoClosedPipe({"version"});
  EXPECT_EQ(result.signal, SIGPIPE);
  EXPECT_THAT(result.err, IsEmpty());
}

}  // namespace
}  // namespace batchplan
