#include "client/cli/output.h"

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace batchplan::cli {

absl::Status WriteToStdout(absl::string_view data) {
  errno = 0;
  if (std::fwrite(data.data(), 1, data.size(), stdout) != data.size() || std::fflush(stdout) != 0) {
    return absl::DataLossError(
        absl::StrCat("can't write to stdout: ", std::generic_category().message(errno)));
  }
  return absl::OkStatus();
}

}  // namespace batchplan::cli
