#include "server/telemetry/log.h"

#include <algorithm>
#include <cstdio>

#include "absl/strings/escaping.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"

namespace batchplan {
namespace {

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
  // CHexEscape escapes single quotes too, which need none here.
  line->append(absl::StrReplaceAll(absl::CHexEscape(absl::string_view(value.data(), value.size())),
                                   {{"\\'", "'"}}));
  line->append(cut ? "...\"" : "\"");
}

}  // namespace

std::string FormatLogLine(absl::Time time, Severity severity, std::string_view event,
                          std::initializer_list<LogField> fields) {
  std::string line = absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", time, absl::UTCTimeZone());
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
  const std::string line = FormatLogLine(absl::Now(), severity, event, fields);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace batchplan
