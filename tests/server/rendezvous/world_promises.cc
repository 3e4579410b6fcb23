// What must hold of a World, whatever happens in it.

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "tests/server/rendezvous/world.h"

namespace batchplan::testing {

void World::Answered(Call& call, Rendezvous::Answer answer) {
  ++call.answers;
  EXPECT_EQ(call.answers, 1) << "a join is answered twice";
  EXPECT_FALSE(call.lost) << "a replica that is dead answers";
  call.answer = std::move(answer);
  // Where the test decides, it knows what to expect.
  EXPECT_TRUE(choices_ == nullptr || IsAccountedFor(call)) << call.answer.status();
  if (!call.answer.ok()) return;
  const JoinedPlan& joined = **call.answer;
  EXPECT_TRUE(recorded_.contains(joined.plan().fingerprint()))
      << "a plan is given out that is not recorded: " << joined.plan().fingerprint();
  EXPECT_EQ(joined.key, call.key);
  EXPECT_FALSE(call.came_late) << "a run that is superseded gets a plan";
  const std::vector<std::string> fingerprint = absl::StrSplit(joined.plan().fingerprint(), ':');
  EXPECT_EQ(fingerprint[1], call.request.request().preset()) << "a plan of other parts";
  // Where a job begins anew, its starts have plans of their own.
  const bool begins_anew = start_ + options_.restarts + options_.run_changes > 0;
  const std::string life = begins_anew ? joined.incarnation : "";
  const auto [given, is_first] = given_out_.emplace(life, joined.plan().fingerprint());
  EXPECT_EQ(joined.plan().fingerprint(), given->second) << "one step, two plans";
  EXPECT_EQ(joined.whole.worker_offsets_size(), options_.workers + 1);
  for (uint32_t w = 0; w < options_.workers; ++w) {
    const auto next = static_cast<int>(w) + 1;
    EXPECT_EQ(joined.whole.worker_offsets(next) - joined.whole.worker_offsets(next - 1), w);
  }
}

bool World::IsAccountedFor(const Call& call) const {
  switch (call.answer.status().code()) {
    case absl::StatusCode::kOk:
      return true;
    case absl::StatusCode::kCancelled:
      return call.cancelled;
    case absl::StatusCode::kInvalidArgument:
      return options_.invalid || options_.restarts > 0;
    case absl::StatusCode::kAlreadyExists:
      return options_.restarts > 0;
    case absl::StatusCode::kFailedPrecondition:
      return call.key.run_id != current_run_;
    case absl::StatusCode::kUnavailable:
      return options_.versions || options_.store_failures > 0;
    case absl::StatusCode::kResourceExhausted:
      return options_.busy_planners > 0 || options_.memory_failures > 0;
    case absl::StatusCode::kDeadlineExceeded:
      // A part was never stored, or lost when its worker did not wait any more.
      return options_.deaths > 0 || options_.store_failures > 0 || options_.memory_failures > 0 ||
             options_.flushes > 0 || options_.restarts > 0 || options_.run_changes > 0;
    default:
      return false;
  }
}

bool World::NeedsTime() const {
  // Whoever was to plan for all may not do it.
  if (options_.shares && options_.cancels + options_.deaths + options_.busy_planners > 0) {
    return true;
  }
  return options_.lost_hints + options_.store_failures + options_.memory_failures +
             options_.flushes + options_.refusals + options_.run_changes + options_.restarts >
         0;
}

void World::ExpectNobodyWaitsForACompleteStep() const {
  for (const auto& call : calls_) {
    const absl::StatusOr<StepProgress> progress = store_->Progress(call->key, "");
    EXPECT_FALSE(call->waits() && progress->complete)
        << "the step is complete, and worker " << call->worker << " waits";
  }
}

void World::Finish() {
  left_ = {};
  Settle();
  if (!NeedsTime()) ExpectNobodyWaitsForACompleteStep();
  // Long enough for two polls, and short of the deadlines.
  for (int i = 0; i < 25; ++i) {
    Pause(absl::Milliseconds(100));
    Settle();
  }
  ExpectNobodyWaitsForACompleteStep();
  Pause(absl::Seconds(10));
  Settle();
  for (const auto& call : calls_) {
    EXPECT_EQ(call->answers, call->lost ? 0 : 1);
  }
  for (const auto& replica : replicas_) {
    if (!replica->rendezvous) continue;
    EXPECT_EQ(replica->rendezvous->counts().waiting, 0);
    EXPECT_EQ(replica->rendezvous->counts().steps, 0);
  }
  clock_.Advance(kWorldTimeToLive + kWorldRetention);
  EXPECT_EQ(store_->counts().steps, 0);
  EXPECT_EQ(store_->counts().bytes, 0);
}

}  // namespace batchplan::testing
