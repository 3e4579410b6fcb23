#include "server/service/measured_stores.h"

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace batchplan {
namespace {

absl::StatusCode CodeOf(const absl::Status& status) { return status.code(); }

template <typename Value>
absl::StatusCode CodeOf(const absl::StatusOr<Value>& value) {
  return value.status().code();
}

// The result of `call`, which is recorded. One that throws has none.
template <typename Call>
auto Timed(StoreOperation operation, Metrics* metrics, const Call& call) {
  const auto start = std::chrono::steady_clock::now();
  auto result = call();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  metrics->RecordStoreCall(operation, CodeOf(result), seconds.count());
  return result;
}

class MeasuredStepStore final : public StepStore {
 public:
  MeasuredStepStore(std::unique_ptr<StepStore> store, Metrics* metrics)
      : store_(std::move(store)), metrics_(metrics) {}

  void SetListener(Listener listener) override { store_->SetListener(std::move(listener)); }

  absl::StatusOr<PartReceipt> PutPart(const StepKey& key, const StepPart& part) override {
    return Timed(StoreOperation::kPutPart, metrics_, [&] { return store_->PutPart(key, part); });
  }
  absl::StatusOr<StepProgress> Progress(const StepKey& key, const std::string& waits_at) override {
    return Timed(StoreOperation::kProgress, metrics_,
                 [&] { return store_->Progress(key, waits_at); });
  }
  absl::Status Leave(const StepKey& key, const std::string& waits_at) override {
    return Timed(StoreOperation::kLeave, metrics_, [&] { return store_->Leave(key, waits_at); });
  }
  absl::StatusOr<StepParts> Parts(const StepKey& key) override {
    return Timed(StoreOperation::kParts, metrics_, [&] { return store_->Parts(key); });
  }
  absl::StatusOr<StandingOutcome> PutOutcome(const StepKey& key, const std::string& incarnation,
                                             const StepOutcome& outcome) override {
    return Timed(StoreOperation::kPutOutcome, metrics_,
                 [&] { return store_->PutOutcome(key, incarnation, outcome); });
  }
  absl::Status MarkServed(const StepKey& key, const std::string& incarnation,
                          const std::vector<uint32_t>& workers) override {
    return Timed(StoreOperation::kMarkServed, metrics_,
                 [&] { return store_->MarkServed(key, incarnation, workers); });
  }
  absl::StatusOr<bool> Restore(const StepKey& key, const WholeStep& step) override {
    return Timed(StoreOperation::kRestore, metrics_, [&] { return store_->Restore(key, step); });
  }

 private:
  const std::unique_ptr<StepStore> store_;
  Metrics* const metrics_;
};

class MeasuredFitStore final : public FitStore {
 public:
  MeasuredFitStore(std::unique_ptr<FitStore> store, Metrics* metrics)
      : store_(std::move(store)), metrics_(metrics) {}

  absl::StatusOr<StoredFit> Get(const std::string& job_id) override {
    return Timed(StoreOperation::kGetFit, metrics_, [&] { return store_->Get(job_id); });
  }
  absl::StatusOr<bool> Replace(const std::string& job_id, uint64_t version,
                               const std::string& state, const std::string& owner) override {
    return Timed(StoreOperation::kReplaceFit, metrics_,
                 [&] { return store_->Replace(job_id, version, state, owner); });
  }

 private:
  const std::unique_ptr<FitStore> store_;
  Metrics* const metrics_;
};

}  // namespace

Stores Measured(Stores stores, Metrics* metrics) {
  stores.steps = std::make_unique<MeasuredStepStore>(std::move(stores.steps), metrics);
  stores.fits = std::make_unique<MeasuredFitStore>(std::move(stores.fits), metrics);
  return stores;
}

}  // namespace batchplan
