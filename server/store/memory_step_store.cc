#include "server/store/memory_step_store.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

namespace batchplan {
namespace {

// What the maps add to the bytes of callers, roughly.
constexpr uint64_t kStepOverhead = 640;
constexpr uint64_t kPartOverhead = 128;
// The most jobs whose runs are remembered: at most about 32 MB.
constexpr size_t kMaxJobsWithRuns = 4096;

// Unique among all stores of the process.
std::string NewIncarnation() {
  static std::atomic<uint64_t> last = 0;
  return absl::StrCat(++last);
}

uint64_t BytesOfStep(const StepKey& key, const std::string& terms, size_t world_size) {
  return kStepOverhead + 3 * (key.job_id.size() + key.run_id.size()) + terms.size() +
         world_size / 8;
}

}  // namespace

MemoryStepStore::MemoryStepStore(const MemoryStepStoreOptions& options, Clock clock)
    : options_(options),
      clock_(std::move(clock)),
      runs_(kMaxJobsWithRuns, options.lifetimes.run_lifetime) {}

absl::StatusOr<PartReceipt> MemoryStepStore::PutPart(const StepKey& key, const StepPart& part) {
  PartReceipt receipt;
  bool became_complete = false;
  {
    MutexLock lock(mutex_);
    if (!key.run_id.empty()) {
      std::string current = runs_.See(key.job_id, key.run_id, clock_());
      if (current != key.run_id) {
        receipt.verdict = PartReceipt::Verdict::kSuperseded;
        receipt.current_run = std::move(current);
        return receipt;
      }
    }
    auto found = FindLive(key);
    if (found != steps_.end()) {
      const Step& step = found->second;
      const auto stored = step.parts.find(part.worker);
      if (step.terms != part.terms) {
        receipt.verdict = PartReceipt::Verdict::kOtherTerms;
      } else if (stored != step.parts.end() && *stored->second != part.content) {
        receipt.verdict = PartReceipt::Verdict::kOtherContent;
      }
      if (receipt.verdict != PartReceipt::Verdict::kAccepted && !GivesWay(step)) {
        if (receipt.verdict == PartReceipt::Verdict::kOtherTerms) {
          receipt.terms = step.terms;
          receipt.terms_worker = step.terms_worker;
        }
        return receipt;
      }
      if (receipt.verdict != PartReceipt::Verdict::kAccepted) {
        receipt = PartReceipt();
        Forget(found);
        found = steps_.end();
      }
    }
    const bool first = found == steps_.end();
    const bool is_new = first || !found->second.parts.contains(part.worker);
    const uint64_t bytes = (first ? BytesOfStep(key, part.terms, part.world_size) : 0) +
                           kPartOverhead + part.content.size();
    if (is_new) {
      absl::Status room = MakeRoom(key, first ? part.owner : found->second.owner,
                                   absl::StrCat("the part of worker ", part.worker), bytes);
      if (!room.ok()) return room;
    }
    // Everything that may run out of memory comes first, so that a failure changes nothing.
    const bool planned = !first && found->second.outcome.has_value();
    const Expiries::iterator expiry =
        planned ? found->second.in_expiries : AddExpiry(key, options_.lifetimes.time_to_live);
    if (is_new) {
      Contents content;
      content.emplace(part.worker, std::make_shared<const std::string>(part.content));
      if (first) found = Begin(key, part, expiry);
      found->second.parts.merge(content);
      Count(found->second, bytes);
      ++parts_;
      became_complete = found->second.complete();
    }
    Step& step = found->second;
    MoveExpiry(step, expiry);
    receipt.incarnation = step.incarnation;
    receipt.complete = step.complete();
    receipt.outcome = step.outcome;
    Wait(step, part.waits_at);
  }
  if (became_complete) listener_.Call(key, StepEvent::kChanged);
  return receipt;
}

absl::StatusOr<StepProgress> MemoryStepStore::Progress(const StepKey& key,
                                                       const std::string& waits_at) {
  StepProgress progress;
  {
    MutexLock lock(mutex_);
    if (!key.run_id.empty()) {
      progress.current_run = runs_.Superseding(key.job_id, key.run_id, clock_());
      if (progress.current_run) return progress;
    }
    const auto found = FindLive(key);
    if (found == steps_.end()) return progress;
    Step& step = found->second;
    progress.incarnation = step.incarnation;
    progress.arrived.reserve(step.parts.size());
    for (const auto& [worker, content] : step.parts) progress.arrived.push_back(worker);
    progress.complete = step.complete();
    progress.outcome = step.outcome;
    if (progress.complete && !step.outcome) {
      if (step.planner.empty() || step.planner_expiry <= clock_()) {
        step.planner = waits_at;
        step.planner_expiry = clock_() + absl::ToChronoNanoseconds(options_.lifetimes.planning);
      }
      progress.planner = step.planner;
    }
    Wait(step, waits_at);
  }
  if (!progress.complete && !waits_at.empty()) listener_.Call(key, StepEvent::kIncomplete);
  return progress;
}

absl::Status MemoryStepStore::Leave(const StepKey& key, const std::string& waits_at) {
  MutexLock lock(mutex_);
  const auto found = FindLive(key);
  if (found == steps_.end() || found->second.outcome) return absl::OkStatus();
  Step& step = found->second;
  if (step.waits_at.erase(waits_at) > 0 && step.waits_at.empty()) {
    step.waits_until = Instant();
    unplanned_.splice(unplanned_.begin(), unplanned_, step.in_unplanned);
  }
  return absl::OkStatus();
}

absl::StatusOr<StepParts> MemoryStepStore::Parts(const StepKey& key) {
  StepParts parts;
  std::vector<std::shared_ptr<const std::string>> shared;
  {
    MutexLock lock(mutex_);
    const auto found = FindLive(key);
    if (found == steps_.end() || !found->second.complete()) {
      return NotCompleteError(key);
    }
    parts.incarnation = found->second.incarnation;
    shared.reserve(found->second.parts.size());
    for (const auto& [worker, content] : found->second.parts) shared.push_back(content);
  }
  parts.contents.reserve(shared.size());
  for (const auto& content : shared) parts.contents.push_back(*content);
  return parts;
}

absl::StatusOr<StandingOutcome> MemoryStepStore::PutOutcome(const StepKey& key,
                                                            const std::string& incarnation,
                                                            const StepOutcome& outcome) {
  {
    MutexLock lock(mutex_);
    const auto found = FindLive(key);
    if (found == steps_.end() || found->second.incarnation != incarnation ||
        !found->second.complete()) {
      return NotCompleteError(key);
    }
    Step& step = found->second;
    if (step.outcome) return StandingOutcome{.bytes = *step.outcome, .written = false};
    absl::Status room = MakeRoom(key, step.owner, "the outcome", outcome.bytes.size());
    if (!room.ok()) return room;
    const bool keeps_plan = !IsFull(outcome.bytes.size() + outcome.plan.size());
    std::string plan(keeps_plan ? outcome.plan : "");
    const Expiries::iterator expiry = AddExpiry(key, options_.lifetimes.retention);
    step.outcome = outcome.bytes;
    step.refusal = outcome.refusal;
    step.plan = std::move(plan);
    step.plan_expiry = clock_() + absl::ToChronoNanoseconds(options_.lifetimes.plan_lifetime);
    unplanned_.erase(step.in_unplanned);
    Count(step, outcome.bytes.size() + step.plan.size());
    MoveExpiry(step, expiry);
  }
  listener_.Call(key, StepEvent::kChanged);
  return StandingOutcome{.bytes = outcome.bytes, .written = true};
}

absl::StatusOr<std::optional<std::string>> MemoryStepStore::Plan(const StepKey& key,
                                                                 const std::string& incarnation) {
  MutexLock lock(mutex_);
  const auto found = FindLive(key);
  if (found == steps_.end() || found->second.incarnation != incarnation) return std::nullopt;
  const Step& step = found->second;
  if (step.plan.empty() || step.plan_expiry <= clock_()) return std::nullopt;
  return step.plan;
}

absl::Status MemoryStepStore::MarkServed(const StepKey& key, const std::string& incarnation,
                                         const std::vector<uint32_t>& workers) {
  MutexLock lock(mutex_);
  const auto found = FindLive(key);
  if (found == steps_.end() || found->second.incarnation != incarnation) return absl::OkStatus();
  Step& step = found->second;
  if (!step.outcome) return absl::OkStatus();
  for (const uint32_t worker : workers) {
    if (worker >= step.world_size() || step.served[worker]) continue;
    step.served[worker] = true;
    ++step.served_count;
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> MemoryStepStore::Restore(const StepKey& key, const WholeStep& whole) {
  {
    MutexLock lock(mutex_);
    auto found = FindLive(key);
    uint64_t bytes = whole.outcome.size();
    const bool first = found == steps_.end();
    if (first) {
      bytes += BytesOfStep(key, whole.terms, whole.contents.size());
    } else if (found->second.terms != whole.terms) {
      return false;
    }
    Contents missing;
    for (uint32_t worker = 0; worker < whole.contents.size(); ++worker) {
      const std::string& content = whole.contents[worker];
      if (!first) {
        const auto stored = found->second.parts.find(worker);
        if (stored != found->second.parts.end()) {
          if (*stored->second != content) return false;
          continue;
        }
      }
      missing.emplace(worker, std::make_shared<const std::string>(content));
      bytes += kPartOverhead + content.size();
    }
    if (!first && found->second.outcome) return true;
    const StepPart part = {.worker = 0,
                           .world_size = static_cast<uint32_t>(whole.contents.size()),
                           .terms = whole.terms,
                           .content = ""};
    absl::Status room =
        MakeRoom(key, first ? part.owner : found->second.owner, "what was planned", bytes);
    if (!room.ok()) return room;
    std::string outcome = whole.outcome;
    const Expiries::iterator expiry = AddExpiry(key, options_.lifetimes.retention);
    if (first) found = Begin(key, part, expiry);
    Step& step = found->second;
    parts_ += missing.size();
    step.parts.merge(missing);
    step.outcome = std::move(outcome);
    step.refusal = false;
    unplanned_.erase(step.in_unplanned);
    Count(step, bytes);
    MoveExpiry(step, expiry);
  }
  listener_.Call(key, StepEvent::kChanged);
  return true;
}

MemoryStepStore::Counts MemoryStepStore::counts() {
  MutexLock lock(mutex_);
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
    const auto first = expiries_.begin();
    const auto found = steps_.find(first->second);
    if (found != steps_.end() && found->second.in_expiries == first) {
      Forget(found);
    } else {
      expiries_.erase(first);
    }
  }
}

void MemoryStepStore::Forget(Steps::iterator found) {
  const Step& step = found->second;
  expiries_.erase(step.in_expiries);
  if (!step.outcome) unplanned_.erase(step.in_unplanned);
  const auto owner = owners_.find(step.owner);
  owner->second.bytes -= step.bytes;
  owner->second.steps.erase(step.in_owners);
  if (owner->second.steps.empty()) owners_.erase(owner);
  parts_ -= step.parts.size();
  bytes_ -= step.bytes;
  steps_.erase(found);
}

MemoryStepStore::Steps::iterator MemoryStepStore::Begin(const StepKey& key, const StepPart& first,
                                                        Expiries::iterator expiry) {
  Keys unplanned = {key};
  Keys of_owner = {key};
  Owners owner;
  owner.try_emplace(first.owner);
  Step begun;
  begun.incarnation = NewIncarnation();
  begun.terms = first.terms;
  begun.terms_worker = first.worker;
  begun.owner = first.owner;
  begun.served.resize(first.world_size);
  begun.in_expiries = expiry;
  begun.in_unplanned = unplanned.begin();
  begun.in_owners = of_owner.begin();
  const auto step = steps_.emplace(key, std::move(begun)).first;
  // From here on nothing fails.
  owners_.merge(owner);
  Keys& steps = owners_.find(step->second.owner)->second.steps;
  steps.splice(steps.end(), of_owner);
  unplanned_.splice(unplanned_.begin(), unplanned);
  return step;
}

void MemoryStepStore::Count(Step& step, uint64_t bytes) {
  Owner& owner = owners_.find(step.owner)->second;
  step.bytes += bytes;
  owner.bytes += bytes;
  bytes_ += bytes;
  owner.steps.splice(owner.steps.end(), owner.steps, step.in_owners);
}

bool MemoryStepStore::GivesWay(const Step& step) const {
  if (step.outcome) return step.refusal || step.served_count == step.world_size();
  return step.waits_at.empty() || step.waits_until <= clock_();
}

void MemoryStepStore::Wait(Step& step, const std::string& waits_at) {
  if (step.outcome || waits_at.empty()) return;
  const Instant now = clock_();
  if (step.waits_until <= now) step.waits_at.clear();
  step.waits_at.insert(waits_at);
  step.waits_until = now + absl::ToChronoNanoseconds(options_.lifetimes.waiting);
  unplanned_.splice(unplanned_.end(), unplanned_, step.in_unplanned);
}

MemoryStepStore::Expiries::iterator MemoryStepStore::AddExpiry(const StepKey& key,
                                                               absl::Duration lifetime) {
  return expiries_.emplace(clock_() + absl::ToChronoNanoseconds(lifetime), key).first;
}

void MemoryStepStore::MoveExpiry(Step& step, Expiries::iterator expiry) {
  const auto last = std::exchange(step.in_expiries, expiry);
  if (last != expiry) expiries_.erase(last);
}

// FindLive has removed expired steps before.
absl::Status MemoryStepStore::MakeRoom(const StepKey& key, const std::string& owner,
                                       const std::string& what, uint64_t bytes) {
  if (!IsFull(bytes)) return absl::OkStatus();
  const uint64_t steps_before = steps_.size();
  const uint64_t bytes_before = bytes_;
  const bool can_fit = bytes <= static_cast<uint64_t>(options_.max_bytes);
  const Instant now = clock_();
  for (auto idle = unplanned_.begin(); can_fit && IsFull(bytes) && idle != unplanned_.end();) {
    const auto step = steps_.find(*idle++);
    if (step->second.waits_until > now) break;
    if (step->first != key) Forget(step);
  }
  while (can_fit && IsFull(bytes)) {
    const auto most = std::max_element(
        owners_.begin(), owners_.end(),
        [](const auto& a, const auto& b) { return a.second.bytes < b.second.bytes; });
    const auto own = owners_.find(owner);
    const uint64_t with_it = (own == owners_.end() ? 0 : own->second.bytes) + bytes;
    // An owner with more bytes than that is not the owner of `key`, so none of its steps is this
    // one.
    if (most == owners_.end() || most->second.bytes <= with_it) break;
    Forget(steps_.find(most->second.steps.front()));
  }
  if (!IsFull(bytes)) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      what, " of ", DescribeStep(key), " takes ", bytes, " bytes, but ", steps_before,
      " steps hold ", bytes_before, " of --rendezvous_memory_bytes=", options_.max_bytes,
      ", and nobody's more than those of the same token or address; raise it, or retry once steps "
      "are forgotten, ",
      absl::FormatDuration(options_.lifetimes.retention), " after their plan"));
}

bool MemoryStepStore::IsFull(uint64_t bytes) const {
  return bytes_ + bytes > static_cast<uint64_t>(options_.max_bytes);
}

}  // namespace batchplan
