#include "server/telemetry/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/time/time.h"

namespace batchplan {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Line(LogField field) {
  return FormatLogLine(absl::UnixEpoch(), Severity::kInfo, "e", {std::move(field)});
}

TEST(LogTest, ALineHasTimeSeverityEventAndFields) {
  const absl::Time time = absl::UnixEpoch() + absl::Milliseconds(1500);
  EXPECT_EQ(FormatLogLine(time, Severity::kWarning, "plan",
                          {{"job", "grpo"}, {"step", 7}, {"seconds", 0.25}, {"sliced", true}}),
            "1970-01-01T00:00:01.500Z WARNING event=plan job=grpo step=7 seconds=0.25 "
            "sliced=true\n");
}

TEST(LogTest, AValueThatIsNotPlainIsQuotedAndEscaped) {
  EXPECT_THAT(Line({"k", "two words"}), EndsWith(" k=\"two words\"\n"));
  EXPECT_THAT(Line({"k", "a=b"}), EndsWith(" k=\"a=b\"\n"));
  EXPECT_THAT(Line({"k", "it's \\'"}), EndsWith(" k=\"it's \\\\'\"\n"));
  EXPECT_THAT(Line({"k", "say \"hi\""}), EndsWith(" k=\"say \\\"hi\\\"\"\n"));
}

TEST(LogTest, AClientCannotStartALineOfItsOwn) {
  const std::string line = Line({"job", "x\n1970-01-01 ERROR event=forged\x1b[31m\xff"});
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  EXPECT_THAT(line, HasSubstr("\\n"));
  EXPECT_THAT(line, HasSubstr("\\x1b[31m\\xff\""));
}

TEST(LogTest, ALongValueIsCut) {
  const std::string line = Line({"k", std::string(100'000, 'a')});
  EXPECT_LT(line.size(), 2 * kMaxLogValueBytes);
  EXPECT_THAT(line, EndsWith("a...\"\n"));
}

TEST(LogTest, AFieldWithoutAValueIsLeftOut) { EXPECT_THAT(Line({"k", ""}), Not(HasSubstr("k="))); }

TEST(LogTest, LogWritesOneLineToStandardError) {
  testing::internal::CaptureStderr();
  Log(Severity::kError, "broken", {{"why", "test"}});
  EXPECT_THAT(testing::internal::GetCapturedStderr(), EndsWith("Z ERROR event=broken why=test\n"));
}

}  // namespace
}  // namespace batchplan
