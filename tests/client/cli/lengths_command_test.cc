#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/client/cli/run_cli.h"
#include "tests/support/scratch_directory.h"

namespace batchplan {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(LengthsCommand, FileIsOneDocumentRoundedUp) {
  const ScratchDirectory directory;
  const CliResult result = RunCli({"lengths", directory.Write("a.txt", std::string(9, 'x'))});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "3\n");
  EXPECT_THAT(result.err, IsEmpty());
  EXPECT_EQ(RunCli({"lengths", "--bytes_per_token", "2.5", directory.Path("a.txt")}).out, "4\n");
}

TEST(LengthsCommand, LineAndParagraphAreDocumentsWhenAskedFor) {
  const ScratchDirectory directory;
  // Bytes: lines of 4, 8, 4; paragraphs of 5 + 9 and of 5.
  const std::string path = directory.Write("a.txt", "\n1234\n12345678\n \n\n1234");
  EXPECT_EQ(RunCli({"lengths", "--per", "line", path}).out, "1\n2\n1\n");
  EXPECT_EQ(RunCli({"lengths", "--per", "paragraph", path}).out, "4\n2\n");
}

TEST(LengthsCommand, StdinIsTextOrWithFieldJsonLines) {
  EXPECT_EQ(RunCli({"lengths", "-"}, "12345").out, "2\n");
  EXPECT_EQ(RunCli({"lengths", "--field", "t", "-"}, "{\"t\": \"12345\"}\n\n{\"t\": \"1\"}\n").out,
            "2\n1\n");
}

TEST(LengthsCommand, JsonLinesGiveTextTokensOrLengths) {
  const ScratchDirectory directory;
  const std::string path = directory.Write("a.jsonl",
                                           "{\"text\": \"12345\", \"a\": {\"b\": 17}}\n"
                                           "{\"text\": [5, 6, 7, 8], \"a\": {\"b\": 3}}\n");
  EXPECT_EQ(RunCli({"lengths", path}).out, "2\n4\n");
  EXPECT_EQ(RunCli({"lengths", "--field", "a.b", path}).out, "17\n3\n");
}

TEST(LengthsCommand, WrongJsonLineIsNamed) {
  const ScratchDirectory directory;
  const std::string path = directory.Write(
      "a.jsonl", "{\"text\": \"12345\"}\n{\"text\": true, \"n\": 1.5}\n{\"text\"\n");
  const CliResult missing = RunCli({"lengths", "--field", "prompt", path});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.err, HasSubstr(path + ":1: has no field \"prompt\""));
  EXPECT_THAT(RunCli({"lengths", path}).err,
              HasSubstr(path + ":2: field \"text\" is not a string, a list or a number"));
  EXPECT_THAT(RunCli({"lengths", "--field", "-", "-"}, "{\"-\": 1.5}\n").err,
              HasSubstr("stdin:1: field \"-\" is 1.5, not a length"));
  EXPECT_THAT(RunCli({"lengths", "--field", "text", "-"}, "[1]\n").err,
              HasSubstr("stdin:1: not a JSON object"));
}

TEST(LengthsCommand, DirectoryIsReadInOrderAndSkippedFilesAreCounted) {
  const ScratchDirectory directory;
  directory.Write("tree/b.txt", std::string(8, 'x'));
  directory.Write("tree/a/z.txt", std::string(4, 'x'));
  directory.Write("tree/c.jsonl", "{\"text\": \"123456789012\"}\n");
  directory.Write("tree/binary", std::string("ab\0c", 4));
  directory.Write("tree/empty", "");
  directory.Write("elsewhere/d.txt", std::string(400, 'x'));
  std::filesystem::create_directory_symlink(directory.Path("elsewhere"),
                                            directory.Path("tree/link"));
  std::filesystem::create_symlink("missing", directory.Path("tree/dangling"));
  const CliResult result = RunCli({"lengths", directory.Path("tree")});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "1\n2\n3\n");
  EXPECT_EQ(result.err, "batchplan: lengths: skipped 1 binary, 1 empty and 0 unreadable files\n");
  EXPECT_EQ(RunCli({"lengths", "--max_files", "2", directory.Path("tree")}).out, "1\n2\n");
  EXPECT_EQ(RunCli({"lengths", "--limit", "1", directory.Path("tree")}).out, "1\n");
}

TEST(LengthsCommand, MissingPathIsAnErrorAndSoIsNothingFound) {
  const ScratchDirectory directory;
  const CliResult missing = RunCli({"lengths", directory.Path("missing")});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.err, HasSubstr("batchplan: lengths: " + directory.Path("missing") +
                                     ": No such file or directory"));
  const CliResult nothing = RunCli({"lengths", directory.Write("empty", "")});
  EXPECT_EQ(nothing.exit_code, 1);
  EXPECT_THAT(nothing.err, HasSubstr("no document found"));
}

TEST(LengthsCommand, LengthsFeedPlan) {
  const CliResult lengths =
      RunCli({"lengths", "--per", "line", "-"}, "abcd\nabcdefgh\nab\nabcde\n");
  const CliResult plan =
      RunCli({"plan", "--lengths", "-", "--budget", "4", "--preset", "nemo_rl_packing", "--verify"},
             lengths.out);
  EXPECT_EQ(plan.exit_code, 0) << plan.err;
}

}  // namespace
}  // namespace batchplan
