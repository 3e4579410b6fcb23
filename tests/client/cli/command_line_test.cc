// How command lines may be written, and how errors help to correct them: by suggesting the word
// that was probably meant, and by naming the flag behind a field that the planner refuses.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/cli/input/choice.h"
#include "client/cli/input/count.h"
#include "client/cli/input/flag_names.h"
#include "tests/client/cli/run_cli.h"

namespace batchplan::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kLengths[] = "5\n3\n4\n2\n1\n";

// Runs `batchplan plan` with a few lengths and these flags.
CliResult Plan(std::vector<std::string> flags) {
  flags.insert(flags.begin(), {"plan", "--lengths", "-"});
  return RunCli(flags, kLengths);
}

TEST(DidYouMean, NamesTheNearestWord) {
  const std::vector<std::string> words = {"fast", "default", "thorough"};
  EXPECT_EQ(DidYouMean("fats", words), "; did you mean fast?");
  EXPECT_EQ(DidYouMean("FAST", words), "; did you mean fast?");
  EXPECT_EQ(DidYouMean("thorrogh", words), "; did you mean thorough?");
  EXPECT_EQ(DidYouMean("first-fit", {"first_fit_decreasing", "first_fit"}),
            "; did you mean first_fit?");
  EXPECT_EQ(DidYouMean("-dp", {"--cp", "--dp"}), "; did you mean --dp?");
  for (const char* nothing : {"", "xml", "of", "fstest", "thoroughness of search"}) {
    EXPECT_EQ(DidYouMean(nothing, words), "") << nothing;
  }
}

TEST(CommandLine, UnknownWordsNameTheOneThatWasMeant) {
  struct Case {
    std::vector<std::string> arguments;
    std::string message;
  };
  const std::vector<Case> cases = {
      {{"plane"}, "batchplan: there is no command \"plane\"; did you mean plan?\nTry"},
      {{"tensorboard"}, "batchplan: there is no command \"tensorboard\"\nTry"},
      {{"--verson"}, "batchplan: there is no option \"--verson\"; did you mean --version?\nTry"},
      // The wrong flag is reported, not what follows from it.
      {{"plan", "--lengths", "-", "--budgt", "8"},
       "batchplan: plan: there is no option \"--budgt\"; did you mean --budget?\nTry"},
      {{"plan", "--max-sequence=8"}, "no option \"--max-sequence\"; did you mean --max_sequences?"},
      {{"plan", "--learning_rate", "8"}, "plan: there is no option \"--learning_rate\"\nTry"},
      {{"plan", "--preset", "balancd"}, "\"balancd\" is not one of balanced, "},
      {{"plan", "--preset", "balancd"}, "; did you mean balanced?\nTry"},
      {{"plan", "--effort", "fats"}, "\"fats\" is not one of fast, "},
      {{"plan", "--effort", "fats"}, "; did you mean fast?\nTry"},
      {{"plan", "--format", "jsn"},
       "--format: \"jsn\" is not one of table, json, csv, sequences_csv, html; did you mean json?"},
      {{"plan", "--format", "x"}, "is not one of table, json, csv, sequences_csv, html\nTry"},
      {{"compare", "--format", "htm"}, "; did you mean html?"},
      {{"bench", "--format", "tabel"}, "; did you mean table?"},
      {{"lengths", "--per", "lines", "-"},
       "--per: \"lines\" is not one of file, line, paragraph, record; did you mean line?"},
      {{"completion", "fsh"}, "\"fsh\" is not one of bash, zsh, fish; did you mean "},
  };
  for (const Case& wrong : cases) {
    const CliResult result = RunCli(wrong.arguments, kLengths);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_THAT(result.err, HasSubstr(wrong.message));
  }
}

TEST(CommandLine, DashesInFlagsAreAsGoodAsUnderscores) {
  const std::vector<std::string> print = {"--budget", "8", "--print_request"};
  const auto with = [&](std::vector<std::string> flags) {
    flags.insert(flags.end(), print.begin(), print.end());
    const CliResult result = Plan(flags);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  };
  const std::string expected = with({"--max_sequences", "2", "--equal_counts"});
  EXPECT_THAT(expected, HasSubstr("\"maxSequencesPerMicrobatch\": 2"));
  EXPECT_EQ(with({"--max-sequences", "2", "--equal-counts"}), expected);
  EXPECT_EQ(with({"--max-sequences=2", "--equal-counts"}), expected);
  EXPECT_EQ(with({"--max-sequences=2", "--equal_counts", "--job=a-b"}),
            with({"--max_sequences=2", "--equal_counts", "--job", "a-b"}));
  EXPECT_EQ(RunCli({"lengths", "--max-files", "1", "--", "--skip-empty"}).err,
            "batchplan: lengths: --skip-empty: No such file or directory\n");
  // Help and errors have the same form.
  EXPECT_THAT(RunCli({"plan", "--help"}).out,
              AllOf(HasSubstr("--max_sequences N"), Not(HasSubstr("--max-sequences"))));
  EXPECT_THAT(Plan({"--budget", "8", "--max-sequences", "x"}).err,
              HasSubstr("--max_sequences: \"x\" is not a whole number"));
}

TEST(Count, HasBinarySuffixes) {
  EXPECT_EQ(ParseCount("16384"), 16384);
  EXPECT_EQ(ParseCount("4k"), 4096);
  EXPECT_EQ(ParseCount("16K"), 16384);
  EXPECT_EQ(ParseCount("1.5k"), 1536);
  EXPECT_EQ(ParseCount("1m"), 1 << 20);
  EXPECT_EQ(ParseCount("2G"), uint64_t{1} << 31);
  EXPECT_EQ(ParseCount("0k"), 0);
  EXPECT_EQ(ParseCount("17179869183g"), ((uint64_t{1} << 34) - 1) << 30);
  for (const char* wrong :
       {"", "k", ".k", "-1", "-1k", "1.5", "0.3k", "1e3k", "infk", "0x1k", "4kk", "4kb", "4 k",
        "1.2.3k", "4t", "17179869184g", "17179869183.5g"}) {
    EXPECT_EQ(ParseCount(wrong), std::nullopt) << wrong;
  }
}

TEST(CommandLine, CountsTakeSuffixesEverywhere) {
  const CliResult request =
      Plan({"--budget", "16k", "--dp", "1k", "--rows", "buckets", "--buckets", "4k,16K",
            "--take_tokens", "1m", "--dynamic_cp", "1,1k", "--limit", "patches=1.5k", "--loads",
            "patches", "--print_request"});
  EXPECT_EQ(request.exit_code, 1) << "the lengths have no column of patches";
  const CliResult plain = Plan({"--budget", "16k", "--dp", "1k", "--rows", "buckets", "--buckets",
                                "4k,16K", "--take_tokens", "1m", "--dynamic_cp", "1,1k", "--limit",
                                "patches=1.5k", "--print_request"});
  EXPECT_EQ(plain.exit_code, 0) << plain.err;
  EXPECT_THAT(plain.out,
              AllOf(HasSubstr("\"maxTokensPerMicrobatch\": 16384"),
                    HasSubstr("\"dataParallel\": 1024"), HasSubstr("4096"), HasSubstr("1048576"),
                    HasSubstr("\"maxSize\": 1024"), HasSubstr("\"maxPerMicrobatch\": 1536")));
  EXPECT_EQ(RunCli({"sweep", "--lengths", "-", "--budget", "1k", "--gpus", "1q"}, kLengths).err,
            "batchplan: sweep: --gpus: \"1q\" is not a whole number from 0 to "
            "18446744073709551615, in which 16k stands for 16384\nTry 'batchplan sweep --help'.\n");
  EXPECT_EQ(RunCli({"lengths", "--limit", "0.001k", "-"}, "text").exit_code, 2);
  EXPECT_EQ(RunCli({"lengths", "--limit", "1k", "-"}, "text").out, "1\n");
  for (const char* wrong : {"16q", "4g", "1.5", "0.3k"}) {
    EXPECT_THAT(Plan({"--budget", wrong}).err,
                HasSubstr("batchplan: plan: --budget: \"" + std::string(wrong) +
                          "\" is not a whole number from 0 to 4294967295, in which 16k stands for "
                          "16384\n"));
  }
  EXPECT_THAT(RunCli({"--help"}).out, HasSubstr("16k is 16384"));
}

TEST(FlagNames, StandBehindTheFirstMentionOfTheirFields) {
  FlagNames names;
  names.Add("passes.max_tokens_per_microbatch", "--budget");
  names.Add("topology.data_parallel", "--dp");
  names.Add("topology.dynamic_context", "--dynamic_cp");
  names.Add("passes.kinds_per_slot", "--kinds_per_slot");
  names.Add("mini_batches.groups", "--groups");
  names.Add("selection.groups", "--take_groups");
  CLI::App app;
  for (const char* flag : {"--budget", "--dynamic_cp", "--kinds_per_slot", "--groups"}) {
    app.add_option(flag);
  }
  app.get_option("--groups")->excludes(app.add_option("--ungrouped"));
  const auto annotate = [&](const char* text) { return names.Annotate(text, app); };

  EXPECT_EQ(
      annotate("passes[0].max_tokens_per_microbatch is 8, and max_tokens_per_microbatch 8."),
      "passes[0].max_tokens_per_microbatch (--budget) is 8, and max_tokens_per_microbatch 8.");
  EXPECT_EQ(annotate("of max_tokens_per_microbatch, as"),
            "of max_tokens_per_microbatch (--budget), as");
  EXPECT_EQ(annotate("topology.dynamic_context.min_size is 3"),
            "topology.dynamic_context.min_size (--dynamic_cp) is 3");
  EXPECT_EQ(annotate("mini_batches.groups is it. 3 groups"),
            "mini_batches.groups (--groups) is it. 3 groups");
  for (const char* unchanged :
       {"", "topology.data_parallel is 2: the command has no --dp", "a kinds_per_slot of 3",
        "load \"max_tokens_per_microbatch\"", "its_max_tokens_per_microbatch", "passes[0]",
        "passes[0] and [1", "3.5 groups[x]...", "passes.max_tokens"}) {
    EXPECT_EQ(annotate(unchanged), unchanged);
  }
  app.parse("--ungrouped 1", false);
  EXPECT_EQ(annotate("mini_batches.groups is it"), "mini_batches.groups is it");
}

TEST(CommandLine, WhatThePlannerRefusesNamesItsFlags) {
  const CliResult budget = Plan({"--budget", "4"});
  EXPECT_EQ(budget.exit_code, 1);
  EXPECT_THAT(budget.err, HasSubstr("passes[0].max_tokens_per_microbatch (--budget) is 4 "));
  EXPECT_THAT(Plan({"--budget", "8", "--dp", "2000000"}).err,
              HasSubstr("topology.data_parallel (--dp) is 2000000"));
  // A flag of the command that replaces the request's flag and excludes it.
  EXPECT_THAT(RunCli({"sweep", "--lengths", "-", "--budget", "4"}, kLengths).err,
              HasSubstr("passes[0].max_tokens_per_microbatch (--budget) is 4 "));
  EXPECT_THAT(RunCli({"sweep", "--lengths", "-", "--budget_per_gpu", "4"}, kLengths).err,
              HasSubstr("passes[0].max_tokens_per_microbatch is 4 "));
  EXPECT_THAT(RunCli({"compare", "--lengths", "-", "--budget", "4"}, kLengths).err,
              HasSubstr("passes[0].max_tokens_per_microbatch (--budget) is 4 "));
  // A request from a file has no flags to name.
  const std::string request = Plan({"--budget", "4", "--print_request"}).out;
  EXPECT_THAT(RunCli({"plan", "--request", "-"}, request).err,
              HasSubstr("passes[0].max_tokens_per_microbatch is 4 "));
}

}  // namespace
}  // namespace batchplan::cli
