#include "server/service/admission/unsent_answers.h"

#include <algorithm>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "server/service/admission/rpc_status.h"

namespace batchplan {
namespace {

constexpr absl::Duration kLook = absl::Seconds(1);
constexpr absl::Duration kRetry = absl::Seconds(1);

}  // namespace

UnsentAnswers::UnsentAnswers(UnsentAnswersOptions options, Metrics* metrics)
    : options_(std::move(options)), metrics_(metrics), old_(kLook, [this] { CancelOld(); }) {}

uint64_t UnsentAnswers::Added(const Answer& answer) const {
  const bool here =
      answer.shared != nullptr && shares_.contains({answer.owner, answer.shared.get()});
  return kCallBytes + (here ? 0 : answer.bytes);
}

void UnsentAnswers::Count(const Answer& answer) {
  const uint64_t added = Added(answer);
  // Everything that may run out of memory comes first.
  uint64_t& of_owner = owners_[answer.owner];
  if (answer.shared != nullptr) {
    Share& share = shares_[{answer.owner, answer.shared.get()}];
    if (share.answers++ == 0) share.bytes = answer.bytes;
  }
  of_owner += added;
  bytes_ += added;
}

void UnsentAnswers::Discount(const Answer& answer) {
  uint64_t freed = kCallBytes;
  if (answer.shared == nullptr) {
    freed += answer.bytes;
  } else {
    const auto share = shares_.find({answer.owner, answer.shared.get()});
    if (--share->second.answers == 0) {
      freed += share->second.bytes;
      shares_.erase(share);
    }
  }
  const auto owner = owners_.find(answer.owner);
  owner->second -= freed;
  if (owner->second == 0) owners_.erase(owner);
  bytes_ -= freed;
}

UnsentAnswers::Entries::iterator UnsentAnswers::OldestOf(const std::string& owner) {
  return std::find_if(entries_.begin(), entries_.end(), [&](const Entries::value_type& entry) {
    return !entry.second.cancelled && entry.second.answer.owner == owner;
  });
}

void UnsentAnswers::Cancel(Entry& entry) {
  entry.cancelled = true;
  Discount(entry.answer);
  metrics_->RecordRefusal(Refusal::kUnread);
  const std::function<void()> cancel = std::move(entry.answer.cancel);
  cancelling_ = std::this_thread::get_id();
  const absl::Cleanup done = [this] { cancelling_ = std::thread::id(); };
  cancel();
}

absl::Status UnsentAnswers::Full(uint64_t bytes) {
  metrics_->RecordRefusal(Refusal::kUnread);
  absl::Status status = absl::ResourceExhaustedError(
      absl::StrCat("answers that callers have not read take ", bytes_, " bytes; ", bytes,
                   " more are beyond max_unsent_bytes=", options_.max_bytes,
                   "; read them, and retry with back-off"));
  SetRetryAfter(kRetry, &status);
  return status;
}

absl::StatusOr<uint64_t> UnsentAnswers::Begin(Answer answer) {
  MutexLock lock(mutex_);
  const Instant now = options_.clock();
  while (true) {
    const uint64_t added = Added(answer);
    if (bytes_ == 0 || (added <= options_.max_bytes && bytes_ <= options_.max_bytes - added)) {
      break;
    }
    const auto mine = owners_.find(answer.owner);
    uint64_t most = added + (mine == owners_.end() ? 0 : mine->second);
    std::string loser = answer.owner;
    for (const auto& [owner, bytes] : owners_) {
      if (owner == answer.owner || bytes <= most) continue;
      most = bytes;
      loser = owner;
    }
    const auto oldest = OldestOf(loser);
    const bool own = loser == answer.owner;
    if (oldest == entries_.end() ||
        (own && now - oldest->second.since < absl::ToChronoNanoseconds(kPatience))) {
      return Full(added);
    }
    Cancel(oldest->second);
  }
  const uint64_t ticket = last_ticket_ + 1;
  const auto entry =
      entries_.emplace(ticket, Entry{.answer = std::move(answer), .since = now}).first;
  try {
    Count(entry->second.answer);
  } catch (...) {
    entries_.erase(entry);
    throw;
  }
  last_ticket_ = ticket;
  metrics_->RecordUnsent(bytes_);
  return ticket;
}

void UnsentAnswers::End(uint64_t ticket) {
  if (cancelling_ == std::this_thread::get_id()) {
    mutex_.AssertHeld();
    return Forget(ticket);
  }
  MutexLock lock(mutex_);
  Forget(ticket);
}

void UnsentAnswers::Forget(uint64_t ticket) {
  const auto found = entries_.find(ticket);
  if (found == entries_.end()) return;
  if (!found->second.cancelled) Discount(found->second.answer);
  entries_.erase(found);
  metrics_->RecordUnsent(bytes_);
}

void UnsentAnswers::CancelOld() {
  MutexLock lock(mutex_);
  const Instant now = options_.clock();
  while (true) {
    const auto oldest =
        std::find_if(entries_.begin(), entries_.end(),
                     [](const Entries::value_type& entry) { return !entry.second.cancelled; });
    if (oldest == entries_.end() ||
        now - oldest->second.since < absl::ToChronoNanoseconds(options_.longest)) {
      return;
    }
    Cancel(oldest->second);
  }
}

}  // namespace batchplan
