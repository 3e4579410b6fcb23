#include "server/service/limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace batchplan {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

OutlinedString Id(const std::string& text) { return {.text = text, .bytes = text.size()}; }

RequestOutline Outline(const std::string& job, const std::string& request, uint64_t sequences) {
  RequestOutline outline;
  outline.job_id = Id(job);
  outline.request_id = Id(request);
  outline.sequences = sequences;
  return outline;
}

TEST(LimitsTest, WhatIsWithinThemIsWelcome) {
  const RequestLimits limits = {.max_sequences = 100};
  EXPECT_TRUE(CheckLimits(Outline("", "", 0), limits).ok());
  EXPECT_TRUE(CheckLimits(Outline("grpo 7B \"run\" \xc3\xa9", "r/1", 100), limits).ok());
  EXPECT_TRUE(CheckLimits(Outline(std::string(128, 'x'), std::string(128, 'y'), 1), limits).ok());
}

TEST(LimitsTest, TooManySequencesAreRefusedByName) {
  const absl::Status status = CheckLimits(Outline("a", "b", 101), {.max_sequences = 100});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "manifest.lengths has 101 sequences, more than the server's max_sequences=100");
}

TEST(LimitsTest, ALongIdIsRefusedByNameAndNotRepeated) {
  const absl::Status job = CheckLimits(Outline(std::string(129, 'x'), "b", 1), {});
  EXPECT_EQ(job.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(job.message(), "job_id has 129 bytes, must have at most 128");
  const absl::Status request = CheckLimits(Outline("a", std::string(200, 'x'), 1), {});
  EXPECT_EQ(request.message(), "request_id has 200 bytes, must have at most 128");
}

TEST(LimitsTest, AnIdWithControlCharactersIsRefused) {
  for (const char* id : {"forged\nline", "tab\t", "\x7f", "\x1b[0m"}) {
    const absl::Status status = CheckLimits(Outline(id, "b", 1), {});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << id;
    EXPECT_THAT(std::string(status.message()), HasSubstr("job_id \""));
    EXPECT_FALSE(CheckLimits(Outline("a", id, 1), {}).ok()) << id;
  }
  const absl::Status nul = CheckLimits(Outline(std::string("a\0b", 3), "b", 1), {});
  EXPECT_THAT(std::string(nul.message()), HasSubstr("at byte 1"));
}

TEST(LimitsTest, AnIdWithWhatIsNotSeenIsRefusedByPlace) {
  for (const auto& [character, name] :
       std::vector<std::pair<std::string, std::string>>{{"\xc2\x85", "U+0085"},
                                                        {"\xc2\xad", "U+00AD"},
                                                        {"\xe2\x80\x8b", "U+200B"},
                                                        {"\xe2\x80\xa8", "U+2028"},
                                                        {"\xe2\x80\xae", "U+202E"},
                                                        {"\xe2\x81\xa6", "U+2066"},
                                                        {"\xef\xbb\xbf", "U+FEFF"},
                                                        {"\xf3\xa0\x81\x81", "U+E0041"}}) {
    const absl::Status status = CheckLimits(Outline("ab" + character + "c", "b", 1), {});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(std::string(status.message()), HasSubstr("has " + name + " at byte 2,"));
    // Not repeated as it is, where it would do what it does.
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr(character)));
    EXPECT_FALSE(CheckLimits(Outline("a", character, 1), {}).ok()) << name;
  }
  // Letters, marks and signs of any script.
  for (const char* id :
       {"h\xc3\xa9", "\xe4\xbd\xa0\xe5\xa5\xbd", "\xf0\x9f\x98\x80", "e\xcc\x81"}) {
    EXPECT_TRUE(CheckLimits(Outline(id, id, 1), {}).ok()) << id;
  }
}

TEST(LimitsTest, AnIdThatIsNotUtf8IsRefused) {
  EXPECT_THAT(std::string(CheckLimits(Outline("a\xff", "b", 1), {}).message()),
              HasSubstr("job_id \"a\\377\" has no character at byte 1"));
}

TEST(LimitsTest, EntriesThatWouldTakeMemoryOnceParsedAreCountedBefore) {
  RequestOutline outline;
  outline.passes = 64;
  outline.microbatches = 65536;
  EXPECT_TRUE(CheckLimits(outline, {}).ok());
  outline.passes = 65;
  EXPECT_EQ(std::string(CheckLimits(outline, {}).message()),
            "passes has 65 entries; the limit is 64");
  outline.passes = 0;
  outline.microbatches = 65537;
  EXPECT_EQ(std::string(CheckLimits(outline, {}).message()),
            "microbatches has 65537 entries; the limit is 65536");
}

}  // namespace
}  // namespace batchplan
