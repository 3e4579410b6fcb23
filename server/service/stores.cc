#include "server/service/stores.h"

#include <chrono>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/store/memory_fit_store.h"
#include "server/store/redis/redis_address.h"
#include "server/store/redis/redis_stores.h"
#include "server/store/redis/redis_tls.h"
#include "server/telemetry/log.h"

namespace batchplan {
namespace {

constexpr char kInMemory[] = "memory";
// The most jobs whose fitted costs are kept in memory: at most about 50 MB.
constexpr size_t kMaxJobsInMemory = 4096;

Stores OpenMemoryStores(const ServerOptions& options, const StepStoreOptions& lifetimes) {
  auto steps = std::make_unique<MemoryStepStore>(
      MemoryStepStoreOptions{.lifetimes = lifetimes, .max_bytes = options.rendezvous_memory_bytes},
      [] { return std::chrono::steady_clock::now(); });
  MemoryStepStore* const memory = steps.get();
  return {.steps = std::move(steps),
          .fits = std::make_unique<MemoryFitStore>(kMaxJobsInMemory),
          .memory = memory};
}

absl::StatusOr<std::string> FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line) || line.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("--rendezvous_password=", path,
                                                   ": can't be read, or its first line is empty"));
  }
  return line;
}

// Logs when the store is lost and when it is found again.
std::function<void(const absl::Status&)> ChangeLogger(const char* lost, const char* found,
                                                      const std::string& store) {
  return [=](const absl::Status& status) {
    if (status.ok()) return Log(Severity::kInfo, found, {{"store", store}});
    Log(Severity::kWarning, lost, {{"store", store}, {"error", std::string(status.message())}});
  };
}

absl::StatusCode CodeOf(const absl::Status& status) { return status.code(); }

template <typename Value>
absl::StatusCode CodeOf(const absl::StatusOr<Value>& value) {
  return value.status().code();
}

// Calls `call` and records its time and status; not if it throws.
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
  absl::StatusOr<std::optional<std::string>> Plan(const StepKey& key,
                                                  const std::string& incarnation) override {
    return Timed(StoreOperation::kPlan, metrics_, [&] { return store_->Plan(key, incarnation); });
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

absl::StatusOr<Stores> OpenStores(const ServerOptions& options) {
  const StepStoreOptions lifetimes = {.time_to_live = options.step_time_to_live,
                                      .retention = options.step_retention};
  if (options.rendezvous_store == kInMemory) return OpenMemoryStores(options, lifetimes);

  absl::StatusOr<RedisAddress> address = ParseRedisAddress(options.rendezvous_store);
  if (!address.ok()) return address.status();
  if (!options.rendezvous_password.empty()) {
    absl::StatusOr<std::string> password = FirstLine(options.rendezvous_password);
    if (!password.ok()) return password.status();
    address->password = *std::move(password);
  } else if (!address->user.empty()) {
    return absl::InvalidArgumentError(
        "--rendezvous_store has a user, but --rendezvous_password names no file with its password");
  }
  address->tls_files = {.authorities = options.rendezvous_tls_ca,
                        .certificate = options.rendezvous_tls_certificate,
                        .key = options.rendezvous_tls_key};
  if (address->tls) {
    const absl::Status usable = CheckRedisTlsFiles(address->tls_files);
    if (!usable.ok()) return absl::InvalidArgumentError(usable.message());
  }
  const std::string store = address->Redacted();
  RedisStoresOptions redis_options = {.lifetimes = lifetimes};
  redis_options.client.on_change = ChangeLogger("store_lost", "store_reached", store);
  redis_options.on_listening_change = ChangeLogger("store_not_heard", "store_heard", store);
  absl::StatusOr<RedisStores> redis = OpenRedisStores(*std::move(address), redis_options);
  if (!redis.ok()) return redis.status();
  return Stores{.steps = std::move(redis->steps), .fits = std::move(redis->fits)};
}

Stores Measured(Stores stores, Metrics* metrics) {
  stores.steps = std::make_unique<MeasuredStepStore>(std::move(stores.steps), metrics);
  stores.fits = std::make_unique<MeasuredFitStore>(std::move(stores.fits), metrics);
  return stores;
}

}  // namespace batchplan
