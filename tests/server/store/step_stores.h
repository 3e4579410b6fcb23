// Two replicas' views of one StepStore, and the fixture for the contract's tests.

#ifndef BATCHPLAN_TESTS_SERVER_STORE_STEP_STORES_H_
#define BATCHPLAN_TESTS_SERVER_STORE_STEP_STORES_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/store/step_store.h"

namespace batchplan::testing {

// An empty store, as two replicas see it.
class StepStores {
 public:
  virtual ~StepStores() = default;

  // For replica 0 or 1; may be one object.
  virtual StepStore& store(int replica) = 0;

  // Advances time for everything stored.
  virtual void Advance(absl::Duration by) = 0;

  // Returns once the listeners have been called for everything so far.
  virtual void AwaitNotifications() = 0;
};

struct StepStoresFactory {
  std::string name;
  std::function<std::unique_ptr<StepStores>(const StepStoreOptions&)> make;

  friend void PrintTo(const StepStoresFactory& factory, std::ostream* out) { *out << factory.name; }
};

// Lifetimes that no multiple of kPause equals.
inline constexpr absl::Duration kTimeToLive = absl::Minutes(10);
inline constexpr absl::Duration kRetention = absl::Minutes(25);
inline constexpr absl::Duration kPause = absl::Minutes(7);
// Shorter than each of them.
inline constexpr absl::Duration kWaiting = absl::Seconds(30);

class StepStoreContract : public ::testing::TestWithParam<StepStoresFactory> {
 protected:
  StepStore& store(int replica = 0) { return stores_->store(replica); }

  // The receipt of a call that must succeed.
  PartReceipt Put(const StepPart& part, int replica = 0) { return Put(key_, part, replica); }
  PartReceipt Put(const StepKey& key, const StepPart& part, int replica = 0) {
    absl::StatusOr<PartReceipt> receipt = store(replica).PutPart(key, part);
    EXPECT_TRUE(receipt.ok()) << receipt.status();
    return receipt.ok() ? *receipt : PartReceipt();
  }
  StepProgress Progress(int replica = 0) {
    absl::StatusOr<StepProgress> progress = store(replica).Progress(key_, "");
    EXPECT_TRUE(progress.ok()) << progress.status();
    return progress.ok() ? *progress : StepProgress();
  }

  // Writes an outcome for the step's current incarnation; returns the outcome that stands.
  absl::StatusOr<std::string> PutOutcome(const StepKey& key, const std::string& outcome,
                                         bool refusal = false, int replica = 0) {
    const absl::StatusOr<StepProgress> progress = store().Progress(key, "");
    if (!progress.ok()) return progress.status();
    const absl::StatusOr<StandingOutcome> stands = store(replica).PutOutcome(
        key, progress->incarnation, {.bytes = outcome, .refusal = refusal});
    if (!stands.ok()) return stands.status();
    EXPECT_EQ(stands->written, !progress->outcome.has_value());
    return stands->bytes;
  }
  std::vector<std::string> Contents(const StepKey& key, int replica = 0) {
    const absl::StatusOr<StepParts> parts = store(replica).Parts(key);
    EXPECT_TRUE(parts.ok()) << parts.status();
    return parts.ok() ? parts->contents : std::vector<std::string>();
  }

  // The part of a worker that waits at replica "0".
  static StepPart Part(uint32_t worker, uint32_t world_size, std::string content) {
    return {.worker = worker,
            .world_size = world_size,
            .terms = "terms",
            .content = content,
            .waits_at = "0"};
  }

  const StepKey key_ = {.job_id = "job", .step = 7};
  std::unique_ptr<StepStores> stores_ =
      GetParam().make({.time_to_live = kTimeToLive, .retention = kRetention, .waiting = kWaiting});
};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(StepStoreContract);

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SERVER_STORE_STEP_STORES_H_
