// The exact text that commands print for small batches: what they say of the batch and the job, how
// they write figures, and the columns and their order.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "tests/client/cli/run_cli.h"

namespace batchplan {
namespace {

using ::testing::HasSubstr;

// The output without what varies from run to run: times become T, and gaps become two spaces, since
// the widths of columns depend on times.
std::string Output(const std::vector<std::string>& arguments, const std::string& lengths) {
  const CliResult result = RunCli(arguments, lengths);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  std::string text = std::regex_replace(result.out, std::regex("[0-9][0-9.,]* ms"), "T");
  text = std::regex_replace(text, std::regex("batchplan [0-9.]+"), "batchplan V");
  return std::regex_replace(text, std::regex("   +"), "  ");
}

std::vector<std::string> PlanFiveOfSix(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"plan",
                                        "--lengths",
                                        "-",
                                        "--dp",
                                        "2",
                                        "--cp",
                                        "2",
                                        "--budget",
                                        "8",
                                        "--overlong",
                                        "drop",
                                        "--job",
                                        "rl",
                                        "--step",
                                        "7",
                                        "--preset",
                                        "nemo_rl_packing"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

constexpr char kSixLengths[] = "5\n3\n4\n2\n1\n99\n";

TEST(GoldenOutput, PlanAsATable) {
  EXPECT_EQ(Output(PlanFiveOfSix({"--verify"}), kSixLengths), R"(job  rl, step 7
batch  6 sequences, 114 tokens, the longest 99
job size  DP 2 x CP 2
preset  nemo_rl_packing
planned  in process in T, batchplan V, verified
fingerprint  457dccf7ce799adff7e1882a85b2b9e5b242ccadcc7615d39c0b73b52710e275
dropped  1 sequence of together 99 tokens
budget  8 tokens a micro-batch, lengths in multiples of 4
micro-batches  4 (the fewest possible)
slots  2 a rank by nemo_rl_packing, the fewest possible
tokens  15 true, 24 aligned, 24 scheduled
padding removed  4.0% of the 25 tokens of the padded batch
bin utilization  46.9%, waste 53.1%
bin balance  0.664
packing efficiency  50.0%
rank imbalance  tokens 1.000, cost 1.000 (slowest rank / mean rank)
step time  6.00163 predicted, 6.00163 at best, 6.0013 ideal (cost units)
step efficiency  100.0%
why ranks wait  All ranks are busy from the step's beginning to its end.
  Of the work itself 37.5% of the step is lengths rounded up to multiples of 4.
  No plan for this request is shorter.

rank  micro-batches  sequences  tokens  fill  cost / mean
  0  2  2  7  43.8%  1.000  ########################
  1  2  3  8  50.0%  1.000  ########################
)");
}

TEST(GoldenOutput, PlanForManyRanksSumsThemUp) {
  std::string lengths;
  for (int length = 1; length <= 40; ++length) lengths += std::to_string(length) + "\n";
  EXPECT_EQ(Output({"plan", "--lengths", "-", "--dp", "33", "--budget", "64", "--preset",
                    "nemo_rl_packing"},
                   lengths),
            R"(batch  40 sequences, 820 tokens, the longest 40
job size  DP 33
preset  nemo_rl_packing
planned  in process in T, batchplan V
fingerprint  8c1ca8063fe5df39a773d3c8a327c976c9fd9fb320e379ac8091d613cb547614
budget  64 tokens a micro-batch, lengths in multiples of 1
micro-batches  33 (the fewest possible)
slots  1 a rank by nemo_rl_packing, the fewest possible
tokens  820 true, 820 aligned, 820 scheduled
padding removed  48.8% of the 1,600 tokens of the padded batch
bin utilization  38.8%, waste 61.2%
bin balance  0.657
packing efficiency  39.4%
rank imbalance  tokens 1.610, cost 1.611 (slowest rank / mean rank)
step time  40.0651 predicted, 40.0651 at best, 24.8758 ideal (cost units)
step efficiency  62.1%
why ranks wait  37.9% of the step is beyond what its work takes, evenly on all ranks.
  37.9% in any plan, as sequence 39 (40 tokens) takes longer by itself than an even share of all work.
  No plan for this request is shorter.

33 ranks  micro-batches  sequences  tokens  fill  cost / mean
least  1  1  15  23.4%  0.603
median  1  1  24  37.5%  0.966
most  1  2  40  62.5%  1.611
slowest: rank 0
)");
}

// In one slot, a micro-batch of 17 and 7 costs 24 + 33.8 + 2; in two, 45.9 + 6.7 + 4.
TEST(GoldenOutput, PlanSaysWhatOtherNumbersOfSlotsWouldTake) {
  const std::vector<std::string> arguments = {"plan",     "--lengths", "-",      "--dp",   "2",
                                              "--budget", "24",        "--cost", "1,0.1,2"};
  EXPECT_THAT(
      Output(arguments, "4\n17\n14\n1\n7\n4\n"),
      HasSubstr("\nslots  2 a rank by balanced, at least 1 needed; 1 would take 5.7% longer\n"));
  std::vector<std::string> split = arguments;
  split.insert(split.end(), {"--mini_batch_size", "6"});
  EXPECT_THAT(Output(split, "4\n17\n14\n1\n7\n4\n5\n5\n5\n5\n5\n5\n"),
              HasSubstr("\nslots  1 to 2 a rank, the fewest possible in 1 of 2 mini-batches; by "
                        "balanced\n"));
}

// Two stages run forwards of 2 and 1.5 and backwards of 4 and 3 on each rank: 2 + 2 + 4 + 1.5 + 3 +
// 3 one after the other, 10.5 on each stage.
TEST(GoldenOutput, PlanOnPipelinesSaysWhatStagesWaitAndKeep) {
  const std::string plan =
      Output({"plan", "--lengths", "-", "--dp", "2", "--pp", "2", "--budget", "12", "--cost",
              "1,0,0", "--preset", "nemo_rl_packing", "--rows", "none"},
             "12\n12\n9\n9\n");
  EXPECT_THAT(plan, HasSubstr("job size  DP 2 x PP 2\n"));
  EXPECT_THAT(plan, HasSubstr("step time  15.5 predicted, "));
  EXPECT_THAT(
      plan,
      HasSubstr(
          "step efficiency  67.7%\n"
          "pipeline bubble  32.3% of the slowest rank's time, in which the busiest stage waits\n"
          "tokens in flight  at most 21, on the first stage\n"));
}

TEST(GoldenOutput, PlanAsCsv) {
  EXPECT_EQ(
      Output(PlanFiveOfSix({"--format", "csv"}), kSixLengths),
      R"(pass,mini_batch,rank,slot,sequences,true_tokens,aligned_tokens,scheduled_tokens,row_width
0,0,0,0,1,5,8,8,8
0,0,0,1,1,2,4,4,4
0,0,1,0,2,4,8,8,8
0,0,1,1,1,4,4,4,4
)");
  EXPECT_EQ(Output(PlanFiveOfSix({"--format", "sequences_csv"}), kSixLengths),
            R"(pass,mini_batch,rank,slot,sequence,length,aligned_length
0,0,0,0,0,5,8
0,0,0,1,3,2,4
0,0,1,0,1,3,4
0,0,1,0,4,1,4
0,0,1,1,2,4,4
)");
}

TEST(GoldenOutput, PaddedMicrobatchesAreScheduledAsWideAsTheirLongest) {
  EXPECT_EQ(
      Output({"plan", "--lengths", "-", "--budget", "8", "--preset", "nemo_rl_dynamic", "--scan",
              "sorted", "--format", "csv"},
             "5\n3\n4\n2\n"),
      R"(pass,mini_batch,rank,slot,sequences,true_tokens,aligned_tokens,scheduled_tokens,row_width
0,0,0,0,2,5,5,6,3
0,0,0,1,1,4,4,4,4
0,0,0,2,1,5,5,5,5
)");
}

// For a batch that is equally easy for every algorithm.
TEST(GoldenOutput, ComparisonBeginsWithTheBatchAndBalancedAndEndsWithWhatIsBest) {
  const std::vector<std::string> lines = absl::StrSplit(
      Output({"compare", "--lengths", "-", "--dp", "2", "--budget", "32"}, "16\n16\n16\n16\n"),
      '\n');
  ASSERT_GT(lines.size(), 8U);
  EXPECT_EQ(
      std::vector<std::string>(lines.begin(), lines.begin() + 7),
      (std::vector<std::string>{
          "batch  4 sequences, 64 tokens, the longest 16", "job size  DP 2",
          "budget  32 tokens a micro-batch", "",
          "  micro-  lower  bin  padding  rank  step time,  step time,  above  planning",
          "  candidate  batches  bound  utilization  removed  imbalance  lockstep  accumulated"
          "  bound  time",
          "*  preset  balanced  2  2  100.0%  0.0%  1.000  32.0208  32.0208  0.00%  T"}));
  EXPECT_EQ(lines[lines.size() - 2], "* least predicted step time, lockstep");
}

TEST(GoldenOutput, SweepSaysWhyAPointIsInfeasible) {
  EXPECT_EQ(
      Output({"sweep", "--lengths", "-", "--dp", "2,1", "--budget", "15,32"}, "16\n16\n16\n16\n"),
      R"(batch  4 sequences, 64 tokens, the longest 16
preset  balanced (the default)

  micro-  lower  bin  padding  rank  step time,  step time,  above  planning  GPU time
  budget  DP  CP  PP  VPP  GPUs  batches  bound  utilization  removed  imbalance  lockstep  accumulated  bound  time  / token
  15  2  1  1  1  2  -  -  -  -  -  -  -  -  -  -  [1]
  15  1  1  1  1  1  -  -  -  -  -  -  -  -  -  -  [1]
*  32  2  1  1  1  2  2  2  100.0%  0.0%  1.000  32.0208  32.0208  0.00%  T  1.00065
  32  1  1  1  1  1  2  2  100.0%  0.0%  1.000  64.0417  64.0417  0.00%  T  1.00065
* least GPU time a true token: predicted step time (lockstep) x DP x CP x PP / true tokens
[1] manifest.lengths[0] is 16, but passes[0].max_tokens_per_microbatch (--budget) is 15 and holds sequences of up to 15 tokens; raise it, or set overlong to truncate, drop or alone
)");
}

}  // namespace
}  // namespace batchplan
