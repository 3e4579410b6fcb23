// The plans that were lately made, for requests that come again: a retry whose answer was lost,
// ranks that each ask for the same plan, a batch planned ahead of its step.
//
//   PlanCache cache(/*max_bytes=*/64 << 20, &metrics);
//   const PlanKey key = KeyOf(&request);
//   if (std::shared_ptr<const CachedPlan> plan = cache.Find(key)) return plan->Answer(time);
//   ... plan, then cache.Insert(key, plan) ...
//
// A plan is a pure function of the request without its job_id, step and request_id, so that a plan
// from here is the plan that would be made. What was used least lately goes when there is no room;
// a plan that takes more than a quarter of the room is not kept at all, so that one giant does not
// empty the cache. Plans are kept as the bytes that are sent, which answers share without a copy.
// Thread-safe; Find and Insert take one short lock. KeyOf takes the time of serialising and hashing
// the request.

#ifndef BATCHPLAN_SERVER_SERVICE_PLAN_CACHE_H_
#define BATCHPLAN_SERVER_SERVICE_PLAN_CACHE_H_

#include <grpcpp/support/byte_buffer.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "server/service/plan_summary.h"
#include "server/telemetry/metrics.h"

namespace batchplan {

// SHA-256 of everything in a request that a plan depends on.
using PlanKey = std::array<uint8_t, 32>;

// The ids are taken out of the request for the time of the call.
PlanKey KeyOf(v1::PlanBatchRequest* request);

struct CachedPlan {
  // The serialized response but for its planning_time, which is each answer's own.
  grpc::ByteBuffer body;
  PlanSummary summary;

  // The serialized response to a request that took so long to answer. Shares the body.
  absl::StatusOr<grpc::ByteBuffer> Answer(absl::Duration planning_time) const;

  // About the memory that the plan takes in a cache.
  size_t bytes() const;
};

// `response` in the form that is kept and sent.
absl::StatusOr<std::shared_ptr<const CachedPlan>> MakeCachedPlan(v1::PlanBatchResponse response);

class PlanCache {
 public:
  // 0 bytes keep nothing.
  PlanCache(size_t max_bytes, Metrics* metrics);

  PlanCache(const PlanCache&) = delete;
  PlanCache& operator=(const PlanCache&) = delete;

  bool enabled() const { return max_bytes_ > 0; }

  // The plan of that key, or null.
  std::shared_ptr<const CachedPlan> Find(const PlanKey& key);

  // Keeps `plan`, if it fits, in place of what stands under its key.
  void Insert(const PlanKey& key, std::shared_ptr<const CachedPlan> plan);

  size_t bytes() const;

 private:
  struct Entry {
    PlanKey key;
    std::shared_ptr<const CachedPlan> plan;
  };
  // A key is as random as a hash can be.
  struct FirstBytes {
    size_t operator()(const PlanKey& key) const;
  };

  const size_t max_bytes_;
  Metrics* const metrics_;

  mutable std::mutex mutex_;
  // Guarded by mutex_. What was used last comes first.
  std::list<Entry> entries_;
  std::unordered_map<PlanKey, std::list<Entry>::iterator, FirstBytes> places_;
  size_t bytes_ = 0;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_PLAN_CACHE_H_
