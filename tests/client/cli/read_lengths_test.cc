#include "client/cli/input/read_lengths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace batchplan::cli {
namespace {

using ::testing::ElementsAre;

absl::Status Read(const std::string& text, v1::Manifest* manifest,
                  const LengthColumns& columns = {}) {
  std::istringstream stream(text);
  return ReadLengths(stream, "file", columns, manifest);
}

std::string ErrorOf(const std::string& text, const LengthColumns& columns = {}) {
  v1::Manifest manifest;
  const absl::Status status = Read(text, &manifest, columns);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

TEST(ReadLengths, OneColumnIsLengths) {
  v1::Manifest manifest;
  ASSERT_TRUE(Read("# lengths\n5\n\n 7 # tokens\r\n4294967295", &manifest).ok());
  EXPECT_EQ(std::vector<uint32_t>(manifest.lengths().begin(), manifest.lengths().end()),
            (std::vector<uint32_t>{5, 7, 4294967295}));
  EXPECT_EQ(manifest.group_ids_size(), 0);
}

TEST(ReadLengths, SecondColumnIsTheGroup) {
  v1::Manifest manifest;
  ASSERT_TRUE(Read("5 0\n7\t 4294967295 # a pair\n6 0\n", &manifest).ok());
  EXPECT_EQ(manifest.lengths_size(), 3);
  EXPECT_EQ(std::vector<uint32_t>(manifest.group_ids().begin(), manifest.group_ids().end()),
            (std::vector<uint32_t>{0, 4294967295, 0}));
}

TEST(ReadLengths, ThirdColumnIsTheRank) {
  v1::Manifest manifest;
  ASSERT_TRUE(Read("5 9 1\n7 9 0\n", &manifest).ok());
  EXPECT_EQ(manifest.group_ids_size(), 2);
  EXPECT_EQ(std::vector<uint32_t>(manifest.ranks().begin(), manifest.ranks().end()),
            (std::vector<uint32_t>{1, 0}));
}

TEST(ReadLengths, ADashStandsForNoGroupBeforeARank) {
  v1::Manifest manifest;
  ASSERT_TRUE(Read("5 - 3\n7\t-\t0\n", &manifest).ok());
  EXPECT_EQ(manifest.group_ids_size(), 0);
  EXPECT_EQ(manifest.lengths_size(), 2);
  EXPECT_EQ(std::vector<uint32_t>(manifest.ranks().begin(), manifest.ranks().end()),
            (std::vector<uint32_t>{3, 0}));
}

TEST(ReadLengths, TheLastColumnIsThePromptsLength) {
  const LengthColumns prompts = {.has_prompt = true};
  v1::Manifest manifest;
  ASSERT_TRUE(Read("5 9 3\n7 9 3 # of the same prompt\n4 2 0\n", &manifest, prompts).ok());
  EXPECT_THAT(manifest.group_ids(), ElementsAre(9, 9, 2));
  EXPECT_THAT(manifest.shared_prefixes(), ElementsAre(3, 3, 0));
  EXPECT_EQ(manifest.ranks_size() + manifest.shared_with_size(), 0);
  v1::Manifest of_ranks;
  ASSERT_TRUE(Read("5 9 1 3\n7 9 0 3\n", &of_ranks, prompts).ok());
  EXPECT_THAT(of_ranks.ranks(), ElementsAre(1, 0));
  EXPECT_THAT(of_ranks.shared_prefixes(), ElementsAre(3, 3));
  v1::Manifest of_ages;
  ASSERT_TRUE(Read("5 9 1 3\n", &of_ages, {.is_age = true, .has_prompt = true}).ok());
  EXPECT_THAT(of_ages.ages(), ElementsAre(1));
}

TEST(ReadLengths, TheLastTwoColumnsAreAPrefixAndWhoHasItToo) {
  const LengthColumns prefixes = {.has_prefix = true};
  v1::Manifest manifest;
  ASSERT_TRUE(Read("5 0 0\n7 3 0\n4 2 1\n", &manifest, prefixes).ok());
  EXPECT_THAT(manifest.lengths(), ElementsAre(5, 7, 4));
  EXPECT_THAT(manifest.shared_prefixes(), ElementsAre(0, 3, 2));
  EXPECT_THAT(manifest.shared_with(), ElementsAre(0, 0, 1));
  EXPECT_EQ(manifest.group_ids_size(), 0);
  v1::Manifest with_groups;
  ASSERT_TRUE(Read("5 8 0 0\n7 8 3 0\n", &with_groups, prefixes).ok());
  EXPECT_THAT(with_groups.group_ids(), ElementsAre(8, 8));
  EXPECT_EQ(
      ErrorOf("5 0\n", prefixes),
      "file:1: \"5 0\" has 2 columns; behind the length it must have a prefix and the earlier "
      "sequence that it is shared with");
  EXPECT_EQ(ErrorOf("5\n", {.has_prompt = true}),
            "file:1: \"5\" has 1 column; behind the length it must have the prompt's length");
  EXPECT_EQ(ErrorOf("5 1 2 3 4\n", {.has_prompt = true}),
            "file:1: \"5 1 2 3 4\" has 5 columns; a line is a length, a length and a group, or a "
            "length, a group and a rank, and then the prompt's length");
  EXPECT_EQ(ErrorOf("5 0 0\n7 x 0\n", prefixes),
            "file:2: \"7 x 0\": \"x\" is not a prefix: a whole number, 0 to 4294967295");
  EXPECT_EQ(ErrorOf("5 0 0\n7 1 -1\n", prefixes),
            "file:2: \"7 1 -1\": \"-1\" is not a sequence: a whole number, 0 to 4294967295");
}

TEST(ReadLengths, LoadsAndKindsComeLast) {
  const LengthColumns columns = {
      .has_kind = true,
      .loads = {{.name = "frames"}, {.name = "patches", .has_items = true}, {.name = "cost"}}};
  v1::Manifest manifest;
  ASSERT_TRUE(Read("5 9 0 2.5 - 1e3\n7 9 2 0 64,32.5 7\n4 3 1 8 16 .5\n", &manifest, columns).ok());
  EXPECT_THAT(manifest.group_ids(), ElementsAre(9, 9, 3));
  EXPECT_THAT(manifest.kinds(), ElementsAre(0, 2, 1));
  ASSERT_EQ(manifest.loads_size(), 3);
  EXPECT_EQ(manifest.loads(0).name(), "frames");
  EXPECT_THAT(manifest.loads(0).values(), ElementsAre(2.5, 0, 8));
  EXPECT_EQ(manifest.loads(1).name(), "patches");
  EXPECT_TRUE(manifest.loads(1).values().empty());
  EXPECT_THAT(manifest.loads(2).values(), ElementsAre(1000, 7, 0.5));
  ASSERT_EQ(manifest.items_size(), 1);
  EXPECT_EQ(manifest.items(0).load(), "patches");
  EXPECT_THAT(manifest.items(0).sequences(), ElementsAre(1, 1, 2));
  EXPECT_THAT(manifest.items(0).values(), ElementsAre(64, 32.5, 16));
  v1::Manifest behind_prompts;
  ASSERT_TRUE(Read("5 9 1 3 2\n", &behind_prompts,
                   {.is_age = true, .has_prompt = true, .loads = {{.name = "a"}}})
                  .ok());
  EXPECT_THAT(behind_prompts.ages(), ElementsAre(1));
  EXPECT_THAT(behind_prompts.shared_prefixes(), ElementsAre(3));
  EXPECT_THAT(behind_prompts.loads(0).values(), ElementsAre(2));
  EXPECT_EQ(ErrorOf("5 1 2\n", columns),
            "file:1: \"5 1 2\" has 3 columns; behind the length it must have a kind, frames, "
            "patches, cost");
  EXPECT_EQ(ErrorOf("5 1 x - 2\n", columns),
            "file:1: \"5 1 x - 2\": \"x\" is not a number of \"frames\"");
  EXPECT_EQ(ErrorOf("5 1 2 3,,4 2\n", columns),
            "file:1: \"5 1 2 3,,4 2\": \"\" is not a number of \"patches\"");
  EXPECT_EQ(ErrorOf("5 -1 2 - 2\n", columns),
            "file:1: \"5 -1 2 - 2\": \"-1\" is not a kind: a whole number, 0 to 4294967295");
}

TEST(ReadLengths, ErrorsNameFileLineAndText) {
  EXPECT_EQ(ErrorOf("1\nx 2\n"),
            "file:2: \"x 2\" is not a length: a whole number of tokens, 1 to 4294967295");
  EXPECT_EQ(ErrorOf("1 a\n"),
            "file:1: \"1 a\": \"a\" is not a group: a whole number, 0 to 4294967295");
  EXPECT_EQ(ErrorOf("1 -1\n"),
            "file:1: \"1 -1\": \"-1\" is not a group: a whole number, 0 to 4294967295");
  EXPECT_EQ(ErrorOf("1 2 3 4\n"),
            "file:1: \"1 2 3 4\" has 4 columns; a line is a length, a length and a group, or a "
            "length, a group and a rank");
  EXPECT_EQ(ErrorOf("1 -\n"),
            "file:1: \"1 -\": \"-\" is not a group: a whole number, 0 to 4294967295");
  EXPECT_EQ(ErrorOf("1 - x\n"),
            "file:1: \"1 - x\": \"x\" is not a rank: a whole number, 0 to 4294967295");
  EXPECT_EQ(ErrorOf("1 - 2\n3 4 5\n"),
            "file:2: \"3 4 5\" has a group, but the lines before have none");
  EXPECT_EQ(ErrorOf("1 2 3\n3 4\n"), "file:2: \"3 4\" has no rank, but the lines before have one");
  EXPECT_EQ(ErrorOf("1 2\n\n3\n"), "file:3: \"3\" has no group, but the lines before have one");
  EXPECT_EQ(ErrorOf("1\n3 4\n"), "file:2: \"3 4\" has a group, but the lines before have none");
}

}  // namespace
}  // namespace batchplan::cli
