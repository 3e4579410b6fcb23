#include "server/telemetry/log.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "server/base/utf8.h"
#include "server/telemetry/log_writer.h"

namespace batchplan {
namespace {

// LogOptions, set at the start and read by every thread.
std::atomic<LogFormat> log_format = LogFormat::kText;
std::atomic<Severity> lowest_severity = Severity::kInfo;

// Replaces bytes that are not UTF-8 in JSON.
constexpr std::string_view kReplacementCharacter = "\xef\xbf\xbd";

std::string_view SeverityName(Severity severity) {
  switch (severity) {
    case Severity::kInfo:
      return "INFO";
    case Severity::kWarning:
      return "WARNING";
    case Severity::kError:
      break;
  }
  return "ERROR";
}

bool NeedsNoQuotes(char c) { return c > ' ' && c < 0x7f && c != '"' && c != '=' && c != '\\'; }

void AppendValue(std::string_view value, std::string* line) {
  const bool cut = value.size() > kMaxLogValueBytes;
  value = value.substr(0, kMaxLogValueBytes);
  if (!cut && std::all_of(value.begin(), value.end(), NeedsNoQuotes)) {
    line->append(value);
    return;
  }
  line->push_back('"');
  // CHexEscape also escapes single quotes, which is not needed here.
  line->append(absl::StrReplaceAll(absl::CHexEscape(absl::string_view(value.data(), value.size())),
                                   {{"\\'", "'"}}));
  line->append(cut ? "...\"" : "\"");
}

// A JSON string, in quotes.
void AppendJsonString(std::string_view value, std::string* line) {
  line->push_back('"');
  const size_t end = line->size() + kMaxLogValueBytes;
  while (!value.empty()) {
    const size_t bytes = Utf8CharacterBytes(value);
    // An escaped character may be longer; the limit is on what is written.
    if (line->size() + std::max<size_t>(bytes, 1) > end) {
      line->append("...");
      break;
    }
    const char c = value.front();
    if (bytes == 0) {
      line->append(kReplacementCharacter);
    } else if (c == '"' || c == '\\') {
      line->push_back('\\');
      line->push_back(c);
    } else if (c == '\n') {
      line->append("\\n");
    } else if (bytes == 1 && (static_cast<unsigned char>(c) < ' ' || c == '\x7f')) {
      absl::StrAppendFormat(line, "\\u%04x", static_cast<unsigned>(c));
    } else {
      line->append(value.substr(0, bytes));
    }
    value.remove_prefix(std::max<size_t>(bytes, 1));
  }
  line->push_back('"');
}

std::string Timestamp(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", time, absl::UTCTimeZone());
}

std::string JsonLine(absl::Time time, Severity severity, std::string_view event,
                     std::initializer_list<LogField> fields) {
  std::string line = absl::StrCat("{\"time\":\"", Timestamp(time), "\",\"severity\":\"",
                                  std::string(SeverityName(severity)), "\",\"event\":");
  AppendJsonString(event, &line);
  for (const LogField& field : fields) {
    if (field.value().empty()) continue;
    line.append(",\"").append(field.key).append("\":");
    // JSON has no numbers for infinities and NaN; they become the strings "inf" and "nan".
    const char last = field.value().back();
    if (field.is_text() || last == 'n' || last == 'f') {
      AppendJsonString(field.value(), &line);
    } else {
      line.append(field.value());
    }
  }
  line.append("}\n");
  return line;
}

}  // namespace

void SetLogOptions(const LogOptions& options) {
  log_format = options.format;
  lowest_severity = options.lowest;
}

LogFormat CurrentLogFormat() { return log_format.load(std::memory_order_relaxed); }

std::string FormatLogLine(absl::Time time, Severity severity, std::string_view event,
                          std::initializer_list<LogField> fields, LogFormat format) {
  if (format == LogFormat::kJson) return JsonLine(time, severity, event, fields);
  std::string line = Timestamp(time);
  line.push_back(' ');
  line.append(SeverityName(severity));
  line.append(" event=");
  AppendValue(event, &line);
  for (const LogField& field : fields) {
    if (field.value().empty()) continue;
    line.push_back(' ');
    line.append(field.key);
    line.push_back('=');
    AppendValue(field.value(), &line);
  }
  line.push_back('\n');
  return line;
}

void Log(Severity severity, std::string_view event, std::initializer_list<LogField> fields) {
  if (severity < lowest_severity.load(std::memory_order_relaxed)) return;
  WriteLogLine(FormatLogLine(absl::Now(), severity, event, fields, CurrentLogFormat()));
}

std::optional<uint64_t> LogLimit::Admit(absl::Time now) {
  MutexLock lock(mutex_);
  // If the clock was set back, no room is gained or lost.
  const double seconds = std::max(0.0, absl::ToDoubleSeconds(now - last_));
  room_ = std::min(rate_, room_ + rate_ * seconds);
  last_ = now;
  if (room_ < 1) {
    ++left_out_;
    return std::nullopt;
  }
  room_ -= 1;
  return std::exchange(left_out_, 0);
}

}  // namespace batchplan
