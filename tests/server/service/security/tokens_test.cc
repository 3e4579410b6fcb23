#include "server/service/security/tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/scratch_directory.h"

namespace batchplan {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kOne[] = "one-token-of-some-length";
constexpr char kTwo[] = "another-token-of-a-length";

std::string Line(const std::string& token, const std::string& prefix) {
  return token + " " + prefix + "\n";
}

std::string ErrorOf(const std::string& content) {
  const absl::Status status = TokenTable::Parse(content).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << content;
  return std::string(status.message());
}

TEST(TokenTableTest, ATokenHasANameThatIsNotTheToken) {
  const auto table = TokenTable::Parse(Line(kOne, "grpo-") + Line(kTwo, "grpo-"));
  const auto turned = TokenTable::Parse(Line(kTwo, "*") + Line(kOne, "sft-"));
  ASSERT_TRUE(table.ok() && turned.ok());
  ASSERT_TRUE(table->NameOf(kOne).has_value());
  EXPECT_EQ(table->NameOf(kOne), turned->NameOf(kOne));
  EXPECT_NE(table->NameOf(kOne), table->NameOf(kTwo));
  EXPECT_THAT(*table->NameOf(kOne), Not(HasSubstr("one")));
  EXPECT_EQ(table->NameOf("a token of none of the lines"), std::nullopt);
}

TEST(TokenTableTest, ATokenStandsForItsPrefix) {
  const auto table =
      TokenTable::Parse("# comment\n\n" + Line(kOne, "grpo-") + "  \t" + Line(kTwo, "\t *  "));
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->size(), 2U);
  EXPECT_EQ(table->JobPrefixOf(kOne), "grpo-");
  EXPECT_EQ(table->JobPrefixOf(kTwo), "");
  for (const std::string& wrong : {std::string(), std::string(kOne) + "x", std::string(kOne, 5),
                                   std::string("#"), std::string(1 << 20, 'a')}) {
    EXPECT_EQ(table->JobPrefixOf(wrong), std::nullopt);
  }
}

TEST(TokenTableTest, WhatIsWrongIsNamedByLineAndNeverShowsAToken) {
  EXPECT_THAT(ErrorOf("# a\nshort *\n"), HasSubstr("line 2: the token has 5 characters"));
  EXPECT_THAT(ErrorOf(Line(std::string(2000, 'a'), "*")), HasSubstr("2000 characters"));
  EXPECT_THAT(ErrorOf(std::string(kOne) + "\n"), HasSubstr("line 1: must be two words"));
  EXPECT_THAT(ErrorOf(Line(kOne, "a b")), HasSubstr("must be two words"));
  EXPECT_THAT(ErrorOf(Line(kOne, "a") + Line(kTwo, "b") + Line(kOne, "c")),
              HasSubstr("line 3: the token is there twice"));
  EXPECT_THAT(ErrorOf(Line("token\xffwith-a-strange-byte", "*")), HasSubstr("not visible ASCII"));
  EXPECT_THAT(ErrorOf("# nothing\n\n"), HasSubstr("there is no token"));
  for (const std::string& content : {Line(kOne, "a") + Line(kOne, "b"), Line(kOne, "a b c")}) {
    EXPECT_THAT(ErrorOf(content), Not(HasSubstr("one-token")));
  }
}

TEST(TokenTableTest, EveryTokenOfAnyTableIsFoundAndNoOther) {
  std::mt19937 random(11);
  const auto random_token = [&random] {
    std::string token(kMinTokenBytes + random() % 8, ' ');
    for (char& c : token) c = static_cast<char>('a' + random() % 2);
    return token;
  };
  for (int round = 0; round < 50; ++round) {
    std::map<std::string, std::string> model;
    std::string content;
    for (size_t i = 0, count = 1 + random() % 100; i < count; ++i) {
      const std::string token = random_token();
      const std::string prefix = "job-" + std::to_string(i);
      if (model.emplace(token, prefix).second) content += Line(token, prefix);
    }
    const auto table = TokenTable::Parse(content);
    ASSERT_TRUE(table.ok()) << table.status();
    EXPECT_EQ(table->size(), model.size());
    for (const auto& [token, prefix] : model) EXPECT_EQ(table->JobPrefixOf(token), prefix);
    for (int i = 0; i < 100; ++i) {
      const std::string token = random_token();
      EXPECT_EQ(table->JobPrefixOf(token).has_value(), model.count(token) > 0);
    }
  }
}

TEST(TokensTest, AFileIsReadAgainWhenItChanges) {
  const ScratchDirectory directory;
  const std::string path = directory.Write("tokens", Line(kOne, "a"));
  auto tokens = Tokens::Load(path);
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  EXPECT_EQ((*tokens)->Reload().value(), false);
  directory.Write("tokens", Line(kTwo, "b"));
  EXPECT_EQ((*tokens)->Reload().value(), true);
  EXPECT_EQ((*tokens)->table()->JobPrefixOf(kOne), std::nullopt);
  EXPECT_EQ((*tokens)->table()->JobPrefixOf(kTwo), "b");
  EXPECT_EQ((*tokens)->Reload().value(), false);
}

TEST(TokensTest, BadContentLeavesTheTableAsItIs) {
  const ScratchDirectory directory;
  const std::string path = directory.Write("tokens", Line(kOne, "a"));
  auto tokens = Tokens::Load(path);
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  for (const char* bad : {"", "short *\n", "\xff\xfe"}) {
    directory.Write("tokens", bad);
    const absl::Status status = (*tokens)->Reload().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr("--auth_tokens=" + path + ": "));
    EXPECT_EQ((*tokens)->table()->JobPrefixOf(kOne), "a");
  }
  std::filesystem::remove(path);
  EXPECT_THAT(std::string((*tokens)->Reload().status().message()), HasSubstr("can't be read"));
  EXPECT_EQ((*tokens)->table()->JobPrefixOf(kOne), "a");
}

TEST(TokensTest, AFileThatCantBeUsedIsNotLoaded) {
  const ScratchDirectory directory;
  for (const std::string& path :
       {directory.Path("missing"), directory.Path(), directory.Write("empty", "")}) {
    EXPECT_EQ(Tokens::Load(path).status().code(), absl::StatusCode::kFailedPrecondition) << path;
  }
}

TEST(TokensTest, AFileThatEverybodyReadsIsToldApart) {
  const ScratchDirectory directory;
  const std::string path = directory.Write("tokens", Line(kOne, "a"));
  auto tokens = Tokens::Load(path);
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  EXPECT_FALSE((*tokens)->IsWorldReadable());
  chmod(path.c_str(), 0644);
  EXPECT_TRUE((*tokens)->IsWorldReadable());
}

TEST(TokensTest, ManyThreadsMayLookUpWhileTheTableChanges) {
  const ScratchDirectory directory;
  const std::string path = directory.Write("tokens", Line(kOne, "a") + Line(kTwo, "b"));
  auto tokens = Tokens::Load(path);
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  std::vector<std::jthread> threads;
  threads.reserve(3);
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&tokens] {
      for (int j = 0; j < 2000; ++j) EXPECT_EQ((*tokens)->table()->JobPrefixOf(kOne), "a");
    });
  }
  for (int i = 0; i < 50; ++i) {
    directory.Write("tokens", Line(kOne, "a") + "# " + std::to_string(i) + "\n");
    EXPECT_TRUE((*tokens)->Reload().value());
  }
}

}  // namespace
}  // namespace batchplan
