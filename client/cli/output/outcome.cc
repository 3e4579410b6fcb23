#include "client/cli/output/outcome.h"

#include <cerrno>
#include <cstdio>
#include <string>
#include <system_error>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/base/ids.h"

namespace batchplan::cli {

ExitCode ExitCodeFor(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return ExitCode::kOk;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return ExitCode::kUnavailable;
    default:
      return ExitCode::kFailed;
  }
}

std::string Explain(const absl::Status& status) {
  // An InvalidArgument or a NotFound explains itself. For errors of a server or the network, the
  // user needs the code to look them up.
  if (absl::IsInvalidArgument(status) || absl::IsNotFound(status)) {
    return std::string(status.message());
  }
  return absl::StrCat(absl::StatusCodeToString(status.code()), ": ", status.message());
}

ExitCode ReportError(const char* command, const absl::Status& status) {
  if (status.ok()) return ExitCode::kOk;
  WriteToStderr(absl::StrCat("batchplan: ", command, ": ", Explain(status), "\n"));
  return ExitCodeFor(status);
}

void WriteToStderr(absl::string_view text) {
  std::fputs(Printable({text.data(), text.size()}).c_str(), stderr);
}

absl::Status WriteToStdout(absl::string_view data) {
  errno = 0;
  if (std::fwrite(data.data(), 1, data.size(), stdout) != data.size() || std::fflush(stdout) != 0) {
    return absl::DataLossError(
        absl::StrCat("can't write to stdout: ", std::generic_category().message(errno)));
  }
  return absl::OkStatus();
}

ExitCode PrintOrReport(const char* command, const absl::StatusOr<std::string>& text) {
  return ReportError(command, text.ok() ? WriteToStdout(*text) : text.status());
}

}  // namespace batchplan::cli
