// The names that callers give to their jobs, requests, runs and passes.
//
//   absl::Status status = CheckId("job_id", request.job_id());
//   std::fputs(Printable(message).c_str(), stderr);
//
// They go into log lines, labels of metrics, pages and keys of stores, so they must be short, on
// one line, and free of characters that mislead.

#ifndef BATCHPLAN_SERVER_BASE_IDS_H_
#define BATCHPLAN_SERVER_BASE_IDS_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace batchplan {

inline constexpr size_t kMaxIdBytes = 128;

// InvalidArgument, naming `field`, place and limit, unless `id` is at most kMaxIdBytes of UTF-8
// without invisible characters or characters that change how others look: controls (Unicode's Cc),
// formats (Cf), such as zero-width spaces and marks of direction, and separators of lines and
// paragraphs. An empty id is fine.
absl::Status CheckId(std::string_view field, std::string_view id);

// CheckId of an id that is too long to be kept, by its size.
absl::Status CheckIdBytes(std::string_view field, size_t bytes);

// `text` for a terminal: characters that CheckId refuses, except line breaks, are escaped as in C,
// "\x1b" or "\u202e", since a terminal would obey them.
std::string Printable(std::string_view text);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_BASE_IDS_H_
