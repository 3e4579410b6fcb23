// A store of fits in memory that can fail, and can be changed between a read and a write.

#ifndef BATCHPLAN_TESTS_SERVER_SERVICE_PLANNING_FAKE_FIT_STORE_H_
#define BATCHPLAN_TESTS_SERVER_SERVICE_PLANNING_FAKE_FIT_STORE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/fit_store.h"

namespace batchplan {

class FakeFitStore final : public FitStore {
 public:
  absl::StatusOr<StoredFit> Get(const std::string& job_id) override {
    ++gets;
    if (!failure.ok()) return failure;
    const StoredFit fit = [&] {
      const std::scoped_lock lock(mutex_);
      return fits_[job_id];
    }();
    if (after_get) std::exchange(after_get, nullptr)();
    return fit;
  }

  absl::StatusOr<bool> Replace(const std::string& job_id, uint64_t version,
                               const std::string& state, const std::string& /*owner*/) override {
    ++replaces;
    if (!failure.ok()) return failure;
    const std::scoped_lock lock(mutex_);
    StoredFit& fit = fits_[job_id];
    if (always_overtaken || fit.version != version) return false;
    fit = {.state = state, .version = version + 1};
    return true;
  }

  // To be set while nobody calls.
  absl::Status failure;
  bool always_overtaken = false;
  // Called once, after the next Get and before its caller continues.
  std::function<void()> after_get;

  std::atomic<int> gets = 0;
  std::atomic<int> replaces = 0;

 private:
  std::mutex mutex_;
  std::map<std::string, StoredFit> fits_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_TESTS_SERVER_SERVICE_PLANNING_FAKE_FIT_STORE_H_
