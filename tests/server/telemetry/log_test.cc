#include "server/telemetry/log.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "server/telemetry/log_writer.h"
#include "tests/support/captured_log.h"

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

std::string JsonLine(LogField field) {
  return FormatLogLine(absl::UnixEpoch(), Severity::kInfo, "e", {std::move(field)},
                       LogFormat::kJson);
}

TEST(LogTest, AJsonLineHasTheSameFields) {
  const absl::Time time = absl::UnixEpoch() + absl::Milliseconds(1500);
  EXPECT_EQ(FormatLogLine(
                time, Severity::kWarning, "plan",
                {{"job", "grpo"}, {"step", 7}, {"seconds", 0.25}, {"sliced", true}, {"error", ""}},
                LogFormat::kJson),
            "{\"time\":\"1970-01-01T00:00:01.500Z\",\"severity\":\"WARNING\",\"event\":\"plan\","
            "\"job\":\"grpo\",\"step\":7,\"seconds\":0.25,\"sliced\":true}\n");
}

TEST(LogTest, ANumberThatMayBeMissingIsANumber) {
  EXPECT_THAT(JsonLine({"k", std::optional<uint64_t>(12)}), EndsWith(",\"k\":12}\n"));
  EXPECT_THAT(JsonLine({"k", std::optional<uint64_t>()}), EndsWith("\"event\":\"e\"}\n"));
  EXPECT_THAT(Line({"k", std::optional<uint64_t>(12)}), EndsWith(" k=12\n"));
}

TEST(LogTest, JsonHasNoNumbersThatAreNotFinite) {
  EXPECT_THAT(JsonLine({"k", std::numeric_limits<double>::infinity()}), HasSubstr("\"k\":\"inf\""));
  EXPECT_THAT(JsonLine({"k", -std::numeric_limits<double>::infinity()}),
              HasSubstr("\"k\":\"-inf\""));
  EXPECT_THAT(JsonLine({"k", std::numeric_limits<double>::quiet_NaN()}), HasSubstr("nan\""));
  EXPECT_THAT(JsonLine({"k", 1e300}), HasSubstr("\"k\":1e+300}"));
}

// The value of "jobId" in `line`, which must be JSON on one line. protobuf's parser decides, with a
// message that has such a field.
std::string ValueIn(const std::string& line) {
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  v1::PlanBatchRequest parsed;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  const auto status = google::protobuf::util::JsonStringToMessage(line, &parsed, options);
  EXPECT_TRUE(status.ok()) << status.ToString() << line;
  return parsed.job_id();
}

TEST(LogTest, TextThatIsUtf8SurvivesJson) {
  for (const std::string& text :
       {std::string("two words"), std::string("say \"hi\" \\ it's"),
        std::string("x\n\t\x1b[31m\x7f"), std::string("h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"),
        std::string("a\0b", 3)}) {
    EXPECT_EQ(ValueIn(JsonLine({"jobId", text})), text);
  }
}

TEST(LogTest, AnyBytesGiveOneLineOfJson) {
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    std::string bytes(random() % (2 * kMaxLogValueBytes), '\0');
    // Mostly first bytes of longer characters, quotes and control characters.
    for (char& byte : bytes)
      byte = static_cast<char>(random() % 3 == 0 ? random() : 0xe0 + random());
    if (bytes.empty()) continue;
    const std::string value = ValueIn(JsonLine({"jobId", bytes}));
    EXPECT_FALSE(value.empty());
    EXPECT_LT(value.size(), 3 * kMaxLogValueBytes);
  }
}

TEST(LogTest, ALongJsonValueIsCutBetweenCharacters) {
  std::string euros;
  for (int i = 0; i < 1000; ++i) euros += "\xe2\x82\xac";
  const std::string value = ValueIn(JsonLine({"jobId", euros}));
  EXPECT_THAT(value, EndsWith("\xe2\x82\xac..."));
  EXPECT_LE(value.size(), kMaxLogValueBytes + 3);
}

TEST(LogTest, LinesBelowTheLevelAreNotWritten) {
  SetLogOptions({.format = LogFormat::kJson, .lowest = Severity::kWarning});
  CaptureLog();
  Log(Severity::kInfo, "quiet");
  Log(Severity::kWarning, "loud");
  Log(Severity::kError, "louder");
  const std::string written = CapturedLog();
  SetLogOptions({});
  EXPECT_THAT(written, Not(HasSubstr("quiet")));
  EXPECT_THAT(written, HasSubstr("\"event\":\"loud\"}\n"));
  EXPECT_THAT(written, HasSubstr("\"event\":\"louder\"}\n"));
}

TEST(LogTest, LogWritesOneLineToStandardError) {
  CaptureLog();
  Log(Severity::kError, "broken", {{"why", "test"}});
  EXPECT_THAT(CapturedLog(), EndsWith("Z ERROR event=broken why=test\n"));
}

// Standard error as a pipe that nobody reads until ReadToEnd.
class UnreadStandardError {
 public:
  UnreadStandardError() : before_(dup(STDERR_FILENO)) {
    FlushLog(absl::Minutes(1));
    EXPECT_EQ(pipe(ends_.data()), 0);
    dup2(ends_[1], STDERR_FILENO);
    close(ends_[1]);
  }

  // Reads until everything logged has been written.
  std::string ReadToEnd() {
    std::string text;
    std::jthread reader([&] {
      std::array<char, 65536> bytes;
      for (ssize_t count = 0; (count = read(ends_[0], bytes.data(), bytes.size())) > 0;) {
        text.append(bytes.data(), static_cast<size_t>(count));
      }
    });
    EXPECT_TRUE(FlushLog(absl::Minutes(1)));
    dup2(before_, STDERR_FILENO);  // closes the pipe
    close(before_);
    reader.join();
    close(ends_[0]);
    return text;
  }

 private:
  const int before_;
  std::array<int, 2> ends_{};
};

TEST(LogTest, WhoLogsDoesNotWaitForWhoReadsAndWhatIsDroppedIsCounted) {
  const uint64_t before = DroppedLogLines();
  UnreadStandardError unread;
  constexpr uint64_t kLines = 100'000;
  for (uint64_t i = 0; i < kLines; ++i) {
    Log(Severity::kInfo, "flood", {{"text", std::string(200, 'x')}});
  }
  EXPECT_FALSE(FlushLog(absl::Milliseconds(1)));
  const uint64_t dropped = DroppedLogLines() - before;
  EXPECT_GT(dropped, 0U);
  const std::string text = unread.ReadToEnd();
  EXPECT_THAT(text, HasSubstr(absl::StrCat("WARNING event=log_lines_dropped lines=", dropped)));
  const auto newlines = static_cast<uint64_t>(std::count(text.begin(), text.end(), '\n'));
  EXPECT_EQ(newlines, kLines - dropped + 1);
}

TEST(LogLimitTest, LetsAFewThroughAndCountsTheOthers) {
  LogLimit limit(2);
  const absl::Time now = absl::UnixEpoch();
  EXPECT_EQ(limit.Admit(now), 0U);
  EXPECT_EQ(limit.Admit(now), 0U);
  EXPECT_EQ(limit.Admit(now), std::nullopt);
  EXPECT_EQ(limit.Admit(now + absl::Milliseconds(400)), std::nullopt);
  EXPECT_EQ(limit.Admit(now + absl::Milliseconds(500)), 2U);
  EXPECT_EQ(limit.Admit(now + absl::Milliseconds(600)), std::nullopt);
  // An hour allows no more than a second; a clock set back changes nothing.
  EXPECT_EQ(limit.Admit(now + absl::Hours(1)), 1U);
  EXPECT_EQ(limit.Admit(now), 0U);
  EXPECT_EQ(limit.Admit(now), std::nullopt);
}

}  // namespace
}  // namespace batchplan
