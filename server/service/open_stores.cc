#include "server/service/open_stores.h"

#include <chrono>
#include <fstream>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/store/memory_fit_store.h"
#include "server/store/redis/redis_address.h"
#include "server/store/redis/redis_stores.h"
#include "server/telemetry/log.h"

namespace batchplan {
namespace {

constexpr char kInMemory[] = "memory";
// Jobs whose fitted costs are kept in memory: some 50 MB at most.
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

// What becomes of the store, in the log.
std::function<void(const absl::Status&)> ChangeLogger(const char* lost, const char* found,
                                                      const std::string& store) {
  return [=](const absl::Status& status) {
    if (status.ok()) return Log(Severity::kInfo, found, {{"store", store}});
    Log(Severity::kWarning, lost, {{"store", store}, {"error", std::string(status.message())}});
  };
}

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
  const std::string store = address->Redacted();
  RedisStoresOptions redis_options = {.lifetimes = lifetimes};
  redis_options.client.on_change = ChangeLogger("store_lost", "store_reached", store);
  redis_options.on_listening_change = ChangeLogger("store_not_heard", "store_heard", store);
  RedisStores redis = OpenRedisStores(*std::move(address), redis_options);
  return Stores{.steps = std::move(redis.steps), .fits = std::move(redis.fits)};
}

}  // namespace batchplan
