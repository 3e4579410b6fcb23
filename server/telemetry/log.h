// Log lines: one event, one line, on standard error.
//
//   Log(Severity::kInfo, "plan", {{"job", job_id}, {"sequences", 4096}, {"seconds", 0.012}});
//
//   2026-03-01T12:00:00.123Z INFO event=plan job=grpo-7b sequences=4096 seconds=0.012
//
// or, as JSON,
//
//   {"time":"2026-03-01T12:00:00.123Z","severity":"INFO","event":"plan","job":"grpo-7b",
//    "sequences":4096,"seconds":0.012}                                            (on one line)
//
// A field without a value is left out. In JSON, numbers and booleans have no quotes. Values may
// come from clients: what is not plain printable ASCII is quoted and escaped (in JSON, bytes that
// are not UTF-8 become U+FFFD), and values longer than kMaxLogValueBytes are cut. So a line stays
// one line. Any thread may log, and none waits for whoever reads the lines (log_writer.h).

#ifndef BATCHPLAN_SERVER_TELEMETRY_LOG_H_
#define BATCHPLAN_SERVER_TELEMETRY_LOG_H_

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/base/mutex.h"

namespace batchplan {

inline constexpr size_t kMaxLogValueBytes = 256;

enum class Severity { kInfo, kWarning, kError };

enum class LogFormat { kText, kJson };

struct LogOptions {
  LogFormat format = LogFormat::kText;
  // Less severe events are not written.
  Severity lowest = Severity::kInfo;
};

// Applies to all later lines of all threads.
void SetLogOptions(const LogOptions& options);

LogFormat CurrentLogFormat();

// A key=value of a line. The key is a plain identifier of ours. Text is not copied: a field must
// not outlive the call for which it is made.
struct LogField {
  template <typename Number>
  requires std::integral<Number> || std::floating_point<Number> LogField(std::string_view name,
                                                                         Number number)
      : key(name), text(absl::StrCat(number)) {}
  template <typename Number>
  LogField(std::string_view name, std::optional<Number> number)
      : key(name), text(number ? absl::StrCat(*number) : std::string()) {}
  LogField(std::string_view name, bool flag) : key(name), text(flag ? "true" : "false") {}
  LogField(std::string_view name, std::string_view value) : key(name), view(value) {}
  LogField(std::string_view name, const std::string& value)
      : LogField(name, std::string_view(value)) {}
  LogField(std::string_view name, const char* value) : LogField(name, std::string_view(value)) {}

  std::string_view value() const { return is_text() ? view : text; }
  // False for numbers and booleans.
  bool is_text() const { return view.data() != nullptr; }

  std::string_view key;
  std::string_view view;
  std::string text;
};

// The line that Log writes, with its newline.
std::string FormatLogLine(absl::Time time, Severity severity, std::string_view event,
                          std::initializer_list<LogField> fields,
                          LogFormat format = LogFormat::kText);

// Queues a line for standard error, with the current time.
void Log(Severity severity, std::string_view event, std::initializer_list<LogField> fields = {});

// Limits how often a line that any client can cause is written.
//
//   if (const std::optional<uint64_t> left_out = limit.Admit(absl::Now())) Log(...);
//
// Thread-safe.
class LogLimit {
 public:
  // Admits `lines_a_second` on average, and that many at once after a quiet second.
  explicit LogLimit(double lines_a_second) : rate_(lines_a_second), room_(lines_a_second) {}

  // If a line may be written: how many were refused since the last one. Otherwise nothing.
  std::optional<uint64_t> Admit(absl::Time now);

 private:
  const double rate_;
  Mutex mutex_;
  double room_ ABSL_GUARDED_BY(mutex_);
  absl::Time last_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  uint64_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_TELEMETRY_LOG_H_
