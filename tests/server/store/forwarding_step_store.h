// A StepStore that forwards every call to another, for tests that change one call.

#ifndef BATCHPLAN_TESTS_SERVER_STORE_FORWARDING_STEP_STORE_H_
#define BATCHPLAN_TESTS_SERVER_STORE_FORWARDING_STEP_STORE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/store/step_store.h"

namespace batchplan::testing {

class ForwardingStepStore : public StepStore {
 public:
  // `store` must outlive this.
  explicit ForwardingStepStore(StepStore* store) : store_(store) {}

  void SetListener(Listener listener) override { store_->SetListener(std::move(listener)); }
  absl::StatusOr<PartReceipt> PutPart(const StepKey& key, const StepPart& part) override {
    return store_->PutPart(key, part);
  }
  absl::StatusOr<StepProgress> Progress(const StepKey& key, const std::string& waits_at) override {
    return store_->Progress(key, waits_at);
  }
  absl::Status Leave(const StepKey& key, const std::string& waits_at) override {
    return store_->Leave(key, waits_at);
  }
  absl::StatusOr<StepParts> Parts(const StepKey& key) override { return store_->Parts(key); }
  absl::StatusOr<StandingOutcome> PutOutcome(const StepKey& key, const std::string& incarnation,
                                             const StepOutcome& outcome) override {
    return store_->PutOutcome(key, incarnation, outcome);
  }
  absl::StatusOr<std::optional<std::string>> Plan(const StepKey& key,
                                                  const std::string& incarnation) override {
    return store_->Plan(key, incarnation);
  }
  absl::Status MarkServed(const StepKey& key, const std::string& incarnation,
                          const std::vector<uint32_t>& workers) override {
    return store_->MarkServed(key, incarnation, workers);
  }
  absl::StatusOr<bool> Restore(const StepKey& key, const WholeStep& step) override {
    return store_->Restore(key, step);
  }

 private:
  StepStore* const store_;
};

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SERVER_STORE_FORWARDING_STEP_STORE_H_
