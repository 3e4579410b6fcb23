#include "client/cli/input/read_lengths.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace batchplan::cli {
namespace {

absl::Status Read(const std::string& text, v1::Manifest* manifest) {
  std::istringstream stream(text);
  return ReadLengths(stream, "file", ThirdColumn::kRank, manifest);
}

std::string ErrorOf(const std::string& text) {
  v1::Manifest manifest;
  const absl::Status status = Read(text, &manifest);
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
