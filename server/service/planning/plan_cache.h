// Recently made plans, for requests that come again: a retry after a lost answer, ranks that each
// ask for the same plan, a batch planned ahead of its step.
//
//   PlanCache cache(/*max_bytes=*/64 << 20, &metrics);
//   const std::optional<PlanKey> key = cache.KeyFor(&request);
//   if (std::shared_ptr<const CachedPlan> plan = cache.Find(key)) return plan->Answer(time);
//   ... plan, then cache.Insert(key, plan) ...
//
// A plan is a pure function of the request without its job_id, step and request_id, so a plan from
// here is the one that would be made. The least recently used plans are evicted; a plan above a
// quarter of the capacity is not kept at all, so that one giant does not empty the cache. Plans are
// kept as the bytes that are sent, which answers share without a copy. Thread-safe; Find and Insert
// hold one lock briefly. KeyFor serialises and hashes the request, unless its plan is known to be
// too large.

#ifndef BATCHPLAN_SERVER_SERVICE_PLANNING_PLAN_CACHE_H_
#define BATCHPLAN_SERVER_SERVICE_PLANNING_PLAN_CACHE_H_

#include <grpcpp/support/byte_buffer.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "server/base/mutex.h"
#include "server/telemetry/metrics.h"
#include "server/telemetry/plan_record.h"

namespace batchplan {

// SHA-256 of all that a plan depends on in a request.
using PlanKey = std::array<uint8_t, 32>;

// The ids are removed from the request during the call.
PlanKey PlanKeyOf(v1::PlanBatchRequest* request);

// The records of each pass of `response`, a plan for `request`.
std::vector<PassRecord> RecordPasses(const v1::PlanBatchRequest& request,
                                     const v1::PlanBatchResponse& response);

// The record of waiting and expired sequences.
WaitingRecord RecordWaiting(const v1::PlanBatchRequest& request,
                            const v1::PlanBatchResponse& response);

struct CachedPlan {
  // The serialized response without planning_time, which is each answer's own.
  grpc::ByteBuffer body;
  // For logs, metrics and the page of recent plans.
  std::vector<PassRecord> passes;
  WaitingRecord waiting;

  // Of all passes.
  uint64_t microbatches() const;

  // The serialized response with this planning time. Shares the body.
  absl::StatusOr<grpc::ByteBuffer> Answer(absl::Duration planning_time) const;

  // The approximate memory of the plan in a cache.
  size_t bytes() const;
};

// `response`, a plan for `request`, in the form that is kept and sent.
absl::StatusOr<std::shared_ptr<const CachedPlan>> MakeCachedPlan(
    const v1::PlanBatchRequest& request, v1::PlanBatchResponse response);

class PlanCache {
 public:
  // 0 bytes keep nothing.
  PlanCache(size_t max_bytes, Metrics* metrics);

  PlanCache(const PlanCache&) = delete;
  PlanCache& operator=(const PlanCache&) = delete;

  bool enabled() const { return max_bytes_ > 0; }

  // The key of the plan of `request`; none if the plan is known to be too large to be kept.
  std::optional<PlanKey> KeyFor(v1::PlanBatchRequest* request) const;

  // The plan of that key, or null, also without a key.
  std::shared_ptr<const CachedPlan> Find(const std::optional<PlanKey>& key);

  // Keeps `plan`, if there is a key and it fits, replacing any plan of that key.
  void Insert(const std::optional<PlanKey>& key, std::shared_ptr<const CachedPlan> plan);

  size_t bytes() const;

 private:
  struct Entry {
    PlanKey key;
    std::shared_ptr<const CachedPlan> plan;
  };
  // Keys are uniformly random already.
  struct FirstBytes {
    size_t operator()(const PlanKey& key) const;
  };

  // Whether a plan of this size is kept.
  bool MayKeep(uint64_t bytes) const { return bytes <= max_bytes_ / 4; }

  const size_t max_bytes_;
  Metrics* const metrics_;

  mutable Mutex mutex_;
  // Most recently used first.
  std::list<Entry> entries_ ABSL_GUARDED_BY(mutex_);
  std::unordered_map<PlanKey, std::list<Entry>::iterator, FirstBytes> places_
      ABSL_GUARDED_BY(mutex_);
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_PLANNING_PLAN_CACHE_H_
