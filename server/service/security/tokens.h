// Bearer tokens, and the jobs that their holders may plan for.
//
//   absl::StatusOr<std::unique_ptr<Tokens>> tokens = Tokens::Load("tokens.txt");
//   std::optional<std::string> prefix = (*tokens)->table()->JobPrefixOf(token);
//   ... now and then ...
//   absl::StatusOr<bool> changed = (*tokens)->Reload();
//
// The file has a line for each token, empty lines, and comments that begin with #:
//
//   # TOKEN JOB_PREFIX
//   3f1c9d0f4be64f7e8a1c5d20 grpo-          jobs whose id begins with grpo-
//   b7e2a48c90f14f2f9d1b6c33 *              all jobs
//
// No token is kept, printed or returned: SHA-256 digests are kept and compared, and errors name
// lines.

#ifndef BATCHPLAN_SERVER_SERVICE_SECURITY_TOKENS_H_
#define BATCHPLAN_SERVER_SERVICE_SECURITY_TOKENS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/mutex.h"

namespace batchplan {

// Shorter tokens can be guessed.
inline constexpr size_t kMinTokenBytes = 16;
inline constexpr size_t kMaxTokenBytes = 1024;
inline constexpr size_t kMaxTokens = 10'000;

// The tokens of one file. Immutable.
class TokenTable {
 public:
  // InvalidArgument, naming the line, if a line is not a token and a prefix, or a token is too
  // short, too long, not visible ASCII or there twice; also if there is no token at all.
  static absl::StatusOr<TokenTable> Parse(std::string_view content);

  // The prefix of the job ids that `token` stands for, "" for all jobs; nothing if the token is not
  // in the table. Takes the same time for every token of a length, so that answers don't tell how
  // close a guess was.
  std::optional<std::string> JobPrefixOf(std::string_view token) const;

  // A name for `token` that reveals nothing of it, the same on every server; nothing if the token
  // is not in the table.
  std::optional<std::string> NameOf(std::string_view token) const;

  size_t size() const { return entries_.size(); }

 private:
  using Digest = std::array<uint8_t, 32>;
  struct Entry {
    Digest digest;
    std::string job_prefix;
  };

  static Digest DigestOf(std::string_view token);
  // Null if there is none.
  const Entry* Find(const Digest& digest) const;

  std::vector<Entry> entries_;
};

// The table of a file that may change. Thread-safe.
class Tokens {
 public:
  // FailedPrecondition, naming the flag and the file, if it can't be read or parsed.
  static absl::StatusOr<std::unique_ptr<Tokens>> Load(const std::string& path);

  std::shared_ptr<const TokenTable> table() const;

  // Reads the file again. True if the table has changed. On an error, as by Load, the table stays
  // as it is.
  absl::StatusOr<bool> Reload();

  // Whether any user of the machine may read the file.
  bool IsWorldReadable() const;

 private:
  explicit Tokens(std::string path) : path_(std::move(path)) {}

  const std::string path_;
  mutable Mutex mutex_;
  std::array<uint8_t, 32> content_digest_ ABSL_GUARDED_BY(mutex_){};
  std::shared_ptr<const TokenTable> table_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_SECURITY_TOKENS_H_
