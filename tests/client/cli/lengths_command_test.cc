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
  // In bytes: lines of 4, 8 and 4; paragraphs of 5 + 9 and of 5.
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

TEST(LengthsCommand, ChatsAreTheTextsOfTheirMessages) {
  const ScratchDirectory directory;
  // Contents of 8 and 12 bytes; other fields are not measured.
  const std::string path = directory.Write(
      "a.jsonl",
      R"({"messages": [{"role": "user", "content": "12345678"},)"
      R"( {"role": "assistant", "content": "123456789012", "name": "Somebody"}]})"
      "\n"
      R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "12345678"},)"
      R"( {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAAAAAAAAAAA"}}]},)"
      R"( {"role": "assistant", "content": null, "tool_calls": [{"id": "1"}]},)"
      R"( {"role": "assistant", "content": ["1234", "5678", "9012"]}]})"
      "\n");
  EXPECT_EQ(RunCli({"lengths", path}).out, "5\n5\n");
  EXPECT_EQ(RunCli({"lengths", "--field", "messages", path}).out, "5\n5\n");
  EXPECT_EQ(RunCli({"lengths", directory.Write("share_gpt.json", R"([
    {"conversations": [{"from": "human", "value": "12345678"}, {"from": "gpt", "value": "1234"}]},
    {"conversations": [{"from": "human", "value": "1234"}], "system": "12345678", "tools": "[]"}
  ])")})
                .out,
            "3\n3\n");
}

TEST(LengthsCommand, FieldsAreAddedUpBeforeTheyAreRounded) {
  const ScratchDirectory directory;
  const std::string path = directory.Write("alpaca.json", R"([
    {"instruction": "12345", "input": "", "output": "123", "id": 7},
    {"instruction": "12345", "output": "1234", "system": "1", "history": [["12", "34"], ["5", ""]]},
    {"instruction": "1234", "input": null, "output": "1234", "text": null}])");
  const CliResult result = RunCli({"lengths", path});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "2\n4\n2\n");
  EXPECT_EQ(RunCli({"lengths", "--field", "instruction,id,output", "--limit", "1", path}).out,
            "9\n");
  EXPECT_EQ(RunCli({"lengths", "--field", "instruction", "--field", "output", path}).out,
            "2\n3\n2\n");
  EXPECT_EQ(RunCli({"lengths", "--per", "record", "-"},
                   "{\"prompt\": \"1234\", \"completion\": [{\"content\": \"12345678\"}]}\n")
                .out,
            "3\n");
}

TEST(LengthsCommand, TheFormatIsTheFirstThatARecordHas) {
  const CliResult result = RunCli({"lengths", "--per", "record", "-"},
                                  "{\"text\": \"1\", \"input_ids\": [1, 2, 3]}\n"
                                  "{\"text\": \"12345\", \"messages\": [{\"content\": \"1\"}]}\n"
                                  "{\"text\": null, \"prompt\": \"a\", \"messages\": "
                                  "[{\"content\": \"123456789\"}]}\n"
                                  "{\"tokens\": [1], \"prompt\": \"a\", \"chosen\": \"b\"}\n");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.out, "3\n2\n3\n");
  EXPECT_THAT(result.err, HasSubstr("stdin:4: has the fields of no format that is known (text; "));
  EXPECT_THAT(result.err, HasSubstr("name those to measure by --field"));
  const std::string preferences =
      "{\"conversations\": [{\"value\": \"1234\"}], \"chosen\": {\"value\": \"12345\"}, "
      "\"rejected\": {\"value\": \"1\"}}\n";
  EXPECT_THAT(
      RunCli({"lengths", "--per", "record", "-"}, preferences).err,
      HasSubstr("stdin:1: has fields \"chosen\" and \"rejected\", which are two sequences"));
  EXPECT_EQ(RunCli({"lengths", "--field", "conversations,chosen", "-"}, preferences).out, "3\n");
}

TEST(LengthsCommand, JsonIsAnArrayOrObjectsInAnyLayout) {
  const ScratchDirectory directory;
  const std::string objects = "{\"n\": 12}\n{\n  \"n\": 5,\n  \"m\": [[]]\n}{\"n\":3}";
  const std::string array =
      "\xEF\xBB\xBF [{\"n\": 12}, {\"n\": 5},\n{\"n\": 3, \"m\": {\"a\": []}}]";
  for (const std::string& text : {objects, array}) {
    const CliResult result = RunCli({"lengths", "--field", "n", directory.Write("a.json", text)});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.out, "12\n5\n3\n");
  }
  // An array from a pipe, and records in a file without .json.
  EXPECT_EQ(RunCli({"lengths", "--field", "n", "-"}, "\n[{\"n\": 12}, {\"n\": 5}]").out, "12\n5\n");
  EXPECT_EQ(RunCli({"lengths", "--per", "record", "--field", "n",
                    directory.Write("a", "{\"n\": 4}\n{\"n\": 2}\n")})
                .out,
            "4\n2\n");
  EXPECT_EQ(RunCli({"lengths", "--per", "file", directory.Path("a.json")}).out,
            std::to_string((array.size() + 3) / 4) + "\n");
}

TEST(LengthsCommand, JsonOfOtherKindsIsADocumentInDirectoriesAlone) {
  const ScratchDirectory directory;
  directory.Write("tree/1.json", "{\n\"name\": 1}");
  directory.Write("tree/2.json", "{// none\n}");
  directory.Write("tree/3.json", R"([{"text": "12345"}, {"text": "1"}])");
  EXPECT_EQ(RunCli({"lengths", directory.Path("tree")}).out, "3\n3\n2\n1\n");
  const CliResult named = RunCli({"lengths", directory.Path("tree/1.json")});
  EXPECT_EQ(named.exit_code, 1);
  EXPECT_THAT(named.err, HasSubstr("1.json: record 1: has the fields of no format"));
  // A file that begins like records has records.
  directory.Write("tree/3.json", R"([{"text": "12345"}, {"test": "1"}])");
  EXPECT_THAT(RunCli({"lengths", directory.Path("tree")}).err, HasSubstr("3.json: record 2: has "));
}

TEST(LengthsCommand, ARecordWithoutALengthIsAnErrorOrPassedOver) {
  const std::string lines = "{\"n\":12}\n\n{\"n\":0}\n{\"n\":5}\n";
  const CliResult result = RunCli({"lengths", "--field", "n", "-"}, lines);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.out, "12\n");
  EXPECT_THAT(result.err, HasSubstr("stdin:3: has length 0, which can't be planned; --skip_empty"));
  const CliResult skipped = RunCli({"lengths", "--skip_empty", "--field", "n", "-"}, lines);
  EXPECT_EQ(skipped.exit_code, 0);
  EXPECT_EQ(skipped.out, "12\n5\n");
  EXPECT_EQ(skipped.err, "batchplan: lengths: skipped 1 records of length 0\n");
  EXPECT_THAT(RunCli({"lengths", "--field", "a,b", "-"}, R"([{"a":1,"b":4294967295}])").err,
              HasSubstr("stdin: record 1: has more tokens than a length can be, 4294967295"));
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
  const auto error_of = [](const std::string& field, const std::string& input) {
    return RunCli({"lengths", "--field", field, "-"}, input).err;
  };
  EXPECT_THAT(error_of("-", "{\"-\": 1.5}\n"),
              HasSubstr("stdin:1: field \"-\" is 1.5, not a length"));
  EXPECT_THAT(error_of("text", "7\n"), HasSubstr("stdin:1: not a JSON object"));
  EXPECT_THAT(error_of("text", "{\"text\": 1}\n{\"text\"\n"),
              HasSubstr("stdin:2: not a JSON object: syntax error while parsing object separator"));
  EXPECT_THAT(error_of("text", "{\"text\": 1, \"text\": 2}"), HasSubstr("is given twice"));
  EXPECT_THAT(error_of("text", "[{\"text\": 1}, 7]"),
              HasSubstr("stdin: record 2: not a JSON object"));
  EXPECT_THAT(error_of("text", "[{\"text\": 1}, {\"text\": 1]"),
              HasSubstr("stdin: record 2: not a JSON object: syntax error while parsing object"));
  EXPECT_THAT(error_of("text", "{\"text\": [{\"content\": 7}]}"),
              HasSubstr("field \"text\" has a message whose content is no text"));
  EXPECT_THAT(RunCli({"lengths", "--per", "line", "--field", "text", path}).err,
              HasSubstr("--field"));
  EXPECT_THAT(RunCli({"lengths", "--field", "text,n,text", path}).err,
              HasSubstr("--field: text is named twice"));
}

TEST(LengthsCommand, LargeAndDeepRecordsTakeLittle) {
  const ScratchDirectory directory;
  constexpr int kMany = 1'000'000;
  std::string tokens = "1";
  std::string deep;
  for (int i = 1; i < kMany; ++i) tokens += ",1";
  for (int i = 0; i < kMany; ++i) deep += "[";
  const std::string closed = deep + std::string(kMany, ']');
  const std::string path =
      directory.Write("a.jsonl", "{\"text\": [" + tokens + "]}\n{\"x\": " + closed +
                                     ", \"text\": \"1\"}\n{\"text\": " + closed + "}\n");
  const CliResult result = RunCli({"lengths", path});
  EXPECT_EQ(result.out, "1000000\n1\n");
  EXPECT_THAT(result.err, HasSubstr(":3: field \"text\" is more than 32 levels deep"));
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
