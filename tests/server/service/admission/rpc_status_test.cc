#include "server/service/admission/rpc_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <string>

namespace batchplan {
namespace {

using ::testing::HasSubstr;

std::string CleanMessage(const std::string& message) {
  return std::string(CleanStatus(absl::InvalidArgumentError(message)).message());
}

TEST(CleanStatusTest, AGoodMessageStaysAsItIs) {
  EXPECT_EQ(CleanMessage("passes[0] is 5, not \"6\": größer, 批次, 🙂"),
            "passes[0] is 5, not \"6\": größer, 批次, 🙂");
  EXPECT_EQ(CleanMessage(std::string(kMaxStatusMessageBytes, 'x')),
            std::string(kMaxStatusMessageBytes, 'x'));
  EXPECT_TRUE(CleanStatus(absl::OkStatus()).ok());
}

TEST(CleanStatusTest, TheCodeStays) {
  EXPECT_EQ(CleanStatus(absl::AbortedError("a\nb")).code(), absl::StatusCode::kAborted);
}

TEST(CleanStatusTest, ControlCharactersAreReplaced) {
  EXPECT_EQ(CleanMessage(std::string("a\nb\0c\x7f\x1b[m", 9)), "a?b?c??[m");
}

TEST(CleanStatusTest, BytesThatAreNotUtf8AreReplaced) {
  EXPECT_EQ(CleanMessage("a\xff"
                         "b\xc3"),
            "a?b?");
  EXPECT_EQ(CleanMessage("\xc0\xaf"), "??");            // overlong
  EXPECT_EQ(CleanMessage("\xed\xa0\x80"), "???");       // a surrogate
  EXPECT_EQ(CleanMessage("\xf4\x90\x80\x80"), "????");  // beyond U+10FFFF
}

TEST(CleanStatusTest, ALongMessageIsCutBetweenCharacters) {
  std::string umlauts;
  for (size_t i = 0; i < kMaxStatusMessageBytes; ++i) umlauts += "ü";
  for (const std::string shift : {"", "a"}) {
    const std::string clean = CleanMessage(shift + umlauts);
    EXPECT_LE(clean.size(), kMaxStatusMessageBytes);
    EXPECT_GT(clean.size(), kMaxStatusMessageBytes - 4);
    EXPECT_EQ(clean.substr(clean.size() - 5), "ü...");
  }
}

TEST(CatchExceptionsTest, AStatusPasses) {
  EXPECT_TRUE(CatchExceptions([] { return absl::OkStatus(); }).ok());
  EXPECT_EQ(CatchExceptions([] { return absl::AbortedError("x"); }), absl::AbortedError("x"));
}

TEST(RetryAfterTest, IsWhatWasSet) {
  absl::Status status = absl::ResourceExhaustedError("full");
  EXPECT_EQ(RetryAfter(status), std::nullopt);
  SetRetryAfter(absl::Milliseconds(250), &status);
  EXPECT_EQ(RetryAfter(status), absl::Milliseconds(250));
  SetRetryAfter(absl::Microseconds(1), &status);
  EXPECT_EQ(RetryAfter(status), absl::Milliseconds(1)) << "never 0 for want of digits";
  SetRetryAfter(-absl::InfiniteDuration(), &status);
  EXPECT_LT(*RetryAfter(status), absl::ZeroDuration());
  EXPECT_EQ(RetryAfter(absl::OkStatus()), std::nullopt);
}

TEST(CatchExceptionsTest, OutOfMemoryIsResourceExhausted) {
  EXPECT_EQ(CatchExceptions([]() -> absl::Status { throw std::bad_alloc(); }).code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(CatchExceptionsTest, AnythingElseIsInternal) {
  const absl::Status known =
      CatchExceptions([]() -> absl::Status { throw std::runtime_error("broken"); });
  EXPECT_EQ(known.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(known.message()), HasSubstr("broken"));
  EXPECT_EQ(CatchExceptions([]() -> absl::Status { throw 42; }).code(),
            absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace batchplan
