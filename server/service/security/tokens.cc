#include "server/service/security/tokens.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <sys/stat.h>

#include <fstream>
#include <set>
#include <sstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace batchplan {
namespace {

constexpr char kAllJobs[] = "*";

std::array<uint8_t, 32> Sha256(std::string_view bytes) {
  std::array<uint8_t, 32> digest;
  SHA256(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(), digest.data());
  return digest;
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream content;
  // An empty file sets failbit; a missing file or a directory can't be read.
  if (file.is_open() && file.peek() != std::ifstream::traits_type::eof()) content << file.rdbuf();
  if (!file.is_open() || file.bad()) {
    return absl::FailedPreconditionError(absl::StrCat("--auth_tokens=", path, ": can't be read"));
  }
  return content.str();
}

absl::Status CheckToken(absl::string_view token) {
  if (token.size() < kMinTokenBytes || token.size() > kMaxTokenBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the token has ", token.size(),
                                                   " characters, must have ", kMinTokenBytes,
                                                   " to ", kMaxTokenBytes));
  }
  for (const char c : token) {
    if (c <= ' ' || c >= '\x7f') {
      return absl::InvalidArgumentError("the token has characters that are not visible ASCII");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TokenTable> TokenTable::Parse(std::string_view content) {
  TokenTable table;
  std::set<Digest> seen;
  size_t line_number = 0;
  for (absl::string_view line :
       absl::StrSplit(absl::string_view(content.data(), content.size()), '\n')) {
    ++line_number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line.front() == '#') continue;
    const auto refuse = [line_number](absl::string_view why) {
      return absl::InvalidArgumentError(absl::StrCat("line ", line_number, ": ", why));
    };
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    if (words.size() != 2) {
      return refuse("must be two words, TOKEN JOB_PREFIX; a prefix of * stands for all jobs");
    }
    if (absl::Status token = CheckToken(words[0]); !token.ok()) return refuse(token.message());
    Entry entry = {.digest = DigestOf({words[0].data(), words[0].size()}),
                   .job_prefix = words[1] == kAllJobs ? "" : std::string(words[1])};
    if (!seen.insert(entry.digest).second) return refuse("the token is there twice");
    if (table.entries_.size() == kMaxTokens) {
      return refuse(absl::StrCat("more than ", kMaxTokens, " tokens"));
    }
    table.entries_.push_back(std::move(entry));
  }
  if (table.entries_.empty()) return absl::InvalidArgumentError("there is no token in it");
  return table;
}

TokenTable::Digest TokenTable::DigestOf(std::string_view token) { return Sha256(token); }

const TokenTable::Entry* TokenTable::Find(const Digest& digest) const {
  // Compares with every entry in full, so that the time does not tell which one is equal.
  size_t found = entries_.size();
  for (size_t i = 0; i < entries_.size(); ++i) {
    const auto differs = static_cast<size_t>(
        CRYPTO_memcmp(digest.data(), entries_[i].digest.data(), digest.size()) != 0);
    const size_t keep = ~size_t{0} * differs;  // all ones, or 0 at the equal entry
    found = (found & keep) | (i & ~keep);
  }
  return found == entries_.size() ? nullptr : &entries_[found];
}

std::optional<std::string> TokenTable::JobPrefixOf(std::string_view token) const {
  const Entry* const entry = Find(DigestOf(token));
  if (entry == nullptr) return std::nullopt;
  return entry->job_prefix;
}

std::optional<std::string> TokenTable::NameOf(std::string_view token) const {
  const Digest digest = DigestOf(token);
  if (Find(digest) == nullptr) return std::nullopt;
  // Enough to tell kMaxTokens apart.
  constexpr size_t kNameBytes = 8;
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest.data()), kNameBytes));
}

absl::StatusOr<std::unique_ptr<Tokens>> Tokens::Load(const std::string& path) {
  std::unique_ptr<Tokens> tokens(new Tokens(path));
  absl::StatusOr<bool> loaded = tokens->Reload();
  if (!loaded.ok()) return loaded.status();
  return tokens;
}

std::shared_ptr<const TokenTable> Tokens::table() const {
  MutexLock lock(mutex_);
  return table_;
}

absl::StatusOr<bool> Tokens::Reload() {
  const absl::StatusOr<std::string> content = ReadFile(path_);
  if (!content.ok()) return content.status();
  const std::array<uint8_t, 32> digest = Sha256(*content);
  {
    MutexLock lock(mutex_);
    if (table_ != nullptr && digest == content_digest_) return false;
  }
  absl::StatusOr<TokenTable> parsed = TokenTable::Parse(*content);
  if (!parsed.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("--auth_tokens=", path_, ": ", parsed.status().message()));
  }
  auto table = std::make_shared<const TokenTable>(*std::move(parsed));
  MutexLock lock(mutex_);
  table_ = std::move(table);
  content_digest_ = digest;
  return true;
}

bool Tokens::IsWorldReadable() const {
  struct stat file {};
  return stat(path_.c_str(), &file) == 0 && (file.st_mode & S_IROTH) != 0;
}

}  // namespace batchplan
