#include "server/store/memory_step_store.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace batchplan {
namespace {

// What the maps take beside the bytes that callers bring, roughly.
constexpr uint64_t kStepOverhead = 384;
constexpr uint64_t kPartOverhead = 128;

}  // namespace

MemoryStepStore::MemoryStepStore(const MemoryStepStoreOptions& options, Clock clock)
    : options_(options), clock_(std::move(clock)) {}

absl::StatusOr<PartReceipt> MemoryStepStore::PutPart(const StepKey& key, const StepPart& part) {
  PartReceipt receipt;
  bool became_complete = false;
  {
    std::lock_guard lock(mutex_);
    auto found = FindLive(key);
    if (found != steps_.end() && found->second.terms != part.terms) {
      receipt.verdict = PartReceipt::Verdict::kOtherTerms;
      receipt.terms = found->second.terms;
      receipt.terms_worker = found->second.terms_worker;
      return receipt;
    }
    const bool first = found == steps_.end();
    if (!first) {
      const auto stored = found->second.parts.find(part.worker);
      if (stored != found->second.parts.end() && *stored->second != part.content) {
        receipt.verdict = PartReceipt::Verdict::kOtherContent;
        return receipt;
      }
    }
    const bool is_new = first || !found->second.parts.contains(part.worker);
    const uint64_t step_bytes = first ? kStepOverhead + key.job_id.size() + part.terms.size() : 0;
    const uint64_t bytes = step_bytes + kPartOverhead + part.content.size();
    if (is_new) {
      absl::Status room = CheckRoom(key, absl::StrCat("the part of worker ", part.worker), bytes);
      if (!room.ok()) return room;
    }
    // What may fail for want of memory comes first, so that it changes nothing.
    const bool planned = !first && found->second.outcome.has_value();
    const Instant expiry =
        planned ? found->second.expiry : AddExpiry(key, options_.lifetimes.time_to_live);
    if (is_new) {
      auto content = std::make_shared<const std::string>(part.content);
      if (first) {
        Step begun;
        begun.terms = part.terms;
        begun.terms_worker = part.worker;
        begun.world_size = part.world_size;
        begun.expiry = expiry;
        begun.parts.emplace(part.worker, std::move(content));
        found = steps_.emplace(key, std::move(begun)).first;
      } else {
        found->second.parts.emplace(part.worker, std::move(content));
      }
      found->second.bytes += bytes;
      bytes_ += bytes;
      ++parts_;
      became_complete = found->second.complete();
    }
    Step& step = found->second;
    MoveExpiry(key, step, expiry);
    receipt.complete = step.complete();
    receipt.outcome = step.outcome;
  }
  if (became_complete) listener_.Call(key);
  return receipt;
}

absl::StatusOr<StepProgress> MemoryStepStore::Progress(const StepKey& key) {
  std::lock_guard lock(mutex_);
  StepProgress progress;
  const auto found = FindLive(key);
  if (found == steps_.end()) return progress;
  const Step& step = found->second;
  progress.arrived.reserve(step.parts.size());
  for (const auto& [worker, content] : step.parts) progress.arrived.push_back(worker);
  progress.complete = step.complete();
  progress.outcome = step.outcome;
  return progress;
}

absl::StatusOr<std::vector<std::string>> MemoryStepStore::Parts(const StepKey& key) {
  std::vector<std::shared_ptr<const std::string>> shared;
  {
    std::lock_guard lock(mutex_);
    const auto found = FindLive(key);
    if (found == steps_.end() || !found->second.complete()) {
      return NotCompleteError(key);
    }
    shared.reserve(found->second.parts.size());
    for (const auto& [worker, content] : found->second.parts) shared.push_back(content);
  }
  std::vector<std::string> contents;
  contents.reserve(shared.size());
  for (const auto& content : shared) contents.push_back(*content);
  return contents;
}

absl::StatusOr<std::string> MemoryStepStore::PutOutcome(const StepKey& key,
                                                        const std::string& outcome) {
  {
    std::lock_guard lock(mutex_);
    const auto found = FindLive(key);
    if (found == steps_.end() || !found->second.complete()) {
      return NotCompleteError(key);
    }
    Step& step = found->second;
    if (step.outcome) return *step.outcome;
    absl::Status room = CheckRoom(key, "the outcome", outcome.size());
    if (!room.ok()) return room;
    const Instant expiry = AddExpiry(key, options_.lifetimes.retention);
    step.outcome = outcome;
    step.bytes += outcome.size();
    bytes_ += outcome.size();
    MoveExpiry(key, step, expiry);
  }
  listener_.Call(key);
  return outcome;
}

MemoryStepStore::Counts MemoryStepStore::counts() {
  std::lock_guard lock(mutex_);
  ForgetExpired();
  return {.steps = steps_.size(), .parts = parts_, .bytes = bytes_};
}

MemoryStepStore::Steps::iterator MemoryStepStore::FindLive(const StepKey& key) {
  ForgetExpired();
  return steps_.find(key);
}

void MemoryStepStore::ForgetExpired() {
  const Instant now = clock_();
  while (!expiries_.empty() && expiries_.begin()->first <= now) {
    const auto found = steps_.find(expiries_.begin()->second);
    if (found != steps_.end() && found->second.expiry == expiries_.begin()->first) {
      parts_ -= found->second.parts.size();
      bytes_ -= found->second.bytes;
      steps_.erase(found);
    }
    expiries_.erase(expiries_.begin());
  }
}

Instant MemoryStepStore::AddExpiry(const StepKey& key, absl::Duration lifetime) {
  const Instant expiry = clock_() + absl::ToChronoNanoseconds(lifetime);
  expiries_.emplace(expiry, key);
  return expiry;
}

void MemoryStepStore::MoveExpiry(const StepKey& key, Step& step, Instant expiry) {
  const Instant last = std::exchange(step.expiry, expiry);
  if (last != expiry) expiries_.erase({last, key});
}

// Expired steps are gone already: FindLive came first.
absl::Status MemoryStepStore::CheckRoom(const StepKey& key, const std::string& what,
                                        uint64_t bytes) const {
  if (bytes_ + bytes > static_cast<uint64_t>(options_.max_bytes)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        what, " of ", DescribeStep(key), " takes ", bytes, " bytes, but ", steps_.size(),
        " steps hold ", bytes_, " of --rendezvous_memory_bytes=", options_.max_bytes,
        "; raise it, or retry once steps are forgotten, ",
        absl::FormatDuration(options_.lifetimes.retention), " after their plan"));
  }
  return absl::OkStatus();
}

}  // namespace batchplan
