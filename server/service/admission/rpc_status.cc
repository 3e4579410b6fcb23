#include "server/service/admission/rpc_status.h"

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "server/base/utf8.h"

namespace batchplan {
namespace {

// A payload of a status: milliseconds, in decimal.
constexpr char kRetryAfter[] = "batchplan/retry-after-ms";

}  // namespace

absl::Status CleanStatus(const absl::Status& status) {
  if (status.ok()) return status;
  absl::string_view rest = status.message();
  std::string clean;
  while (!rest.empty() && clean.size() <= kMaxStatusMessageBytes) {
    const size_t bytes = Utf8CharacterBytes(std::string_view(rest.data(), rest.size()));
    const bool printable = bytes > 1 || (bytes == 1 && rest[0] >= ' ' && rest[0] != '\x7f');
    const size_t taken = bytes > 0 ? bytes : 1;
    if (printable) {
      clean.append(rest.data(), taken);
    } else {
      clean.push_back('?');
    }
    rest.remove_prefix(taken);
  }
  if (clean.size() > kMaxStatusMessageBytes) {
    constexpr absl::string_view kCut = "...";
    size_t end = kMaxStatusMessageBytes - kCut.size();
    while ((static_cast<uint8_t>(clean[end]) & 0xc0) == 0x80) --end;  // not within a character
    clean.replace(end, std::string::npos, kCut.data(), kCut.size());
  }
  return absl::Status(status.code(), clean);
}

void SetRetryAfter(absl::Duration delay, absl::Status* status) {
  const int64_t milliseconds =
      delay < absl::ZeroDuration()
          ? -1
          : absl::ToInt64Milliseconds(absl::Ceil(delay, absl::Milliseconds(1)));
  status->SetPayload(kRetryAfter, absl::Cord(absl::StrCat(milliseconds)));
}

std::optional<absl::Duration> RetryAfter(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kRetryAfter);
  int64_t milliseconds = 0;
  if (!payload.has_value() || !absl::SimpleAtoi(std::string(*payload), &milliseconds)) {
    return std::nullopt;
  }
  return absl::Milliseconds(milliseconds);
}

}  // namespace batchplan
