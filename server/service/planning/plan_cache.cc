#include "server/service/planning/plan_cache.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/util/time_util.h>
#include <grpcpp/support/slice.h>
#include <openssl/evp.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proto/batchplan/v1/convert.h"
#include "server/service/admission/request_limits.h"
#include "server/service/admission/request_outline.h"
#include "server/service/planning/message_bytes.h"

namespace batchplan {
namespace {

// What the list and the map add to the size of a plan.
constexpr size_t kEntryBytes = 384;

// Records the groups of a pass whose groups differ in size. A slot has as much room as a slot of
// equal groups.
void RecordGroups(const v1::Topology& topology, uint64_t budget, const v1::PassPlan& plan,
                  PassRecord& pass) {
  const int groups = std::min(plan.context_sizes_size(), plan.row_widths_size());
  for (int m = 0; m < groups; ++m) {
    GroupsRecord& size = pass.groups[ContextSizePlace(plan.context_sizes(m))];
    ++size.groups;
    size.tokens += plan.row_widths(m);
  }
  for (const uint32_t slots : plan.microbatches_per_rank()) {
    pass.budget_tokens += budget * std::max(1U, topology.data_parallel()) * slots;
  }
}

std::optional<double> LimitUse(const v1::Pass& pass, const PlanMetrics& metrics) {
  std::optional<double> most;
  for (const v1::LoadLimit& limit : pass.limits()) {
    for (const LoadMetrics& load : metrics.loads) {
      if (load.load != limit.load()) continue;
      most = std::max(most.value_or(0), load.largest / limit.max_per_microbatch());
    }
  }
  return most;
}

}  // namespace

std::vector<PassRecord> RecordPasses(const v1::PlanBatchRequest& request,
                                     const v1::PlanBatchResponse& response) {
  std::vector<PassRecord> passes;
  passes.reserve(static_cast<size_t>(response.passes_size()));
  for (int i = 0; i < response.passes_size(); ++i) {
    PassRecord& pass = passes.emplace_back();
    pass.metrics = ReadMetrics(response.passes(i).metrics());
    pass.on_pipelines = request.topology().pipeline_parallel() > 1;
    // Tests may put plans with more passes in place of the planner's.
    if (i >= request.passes_size()) continue;
    pass.load_limit_use = LimitUse(request.passes(i), pass.metrics);
    const uint64_t budget = request.passes(i).max_tokens_per_microbatch();
    if (response.passes(i).context_sizes_size() > 0) {
      RecordGroups(request.topology(), budget, response.passes(i), pass);
      continue;
    }
    pass.budget_tokens = pass.metrics.microbatches * budget;
    for (const uint32_t width : response.passes(i).row_widths()) {
      // The row of a sequence that runs alone.
      if (width > budget) pass.budget_tokens += width - budget;
    }
  }
  return passes;
}

WaitingRecord RecordWaiting(const v1::PlanBatchRequest& request,
                            const v1::PlanBatchResponse& response) {
  WaitingRecord waiting = {.deferred = static_cast<uint64_t>(response.deferred_size())};
  for (const v1::ExcludedSequence& sequence : response.excluded()) {
    if (sequence.reason() == v1::EXCLUSION_REASON_EXPIRED) ++waiting.expired;
  }
  if (response.passes().empty()) return waiting;
  const double mean_age = response.passes(0).metrics().mean_age();
  if (request.selection().max_age() > 0 || mean_age > 0) waiting.mean_age = mean_age;
  return waiting;
}

uint64_t CachedPlan::microbatches() const {
  uint64_t sum = 0;
  for (const PassRecord& pass : passes) sum += pass.metrics.microbatches;
  return sum;
}

PlanKey PlanKeyOf(v1::PlanBatchRequest* request) {
  // Serializes the request without the fields on which no plan depends.
  std::string job_id;
  std::string request_id;
  const uint64_t step = request->step();
  request->mutable_job_id()->swap(job_id);
  request->mutable_request_id()->swap(request_id);
  request->clear_step();
  std::string bytes;
  bool is_written = false;
  {
    google::protobuf::io::StringOutputStream text(&bytes);
    google::protobuf::io::CodedOutputStream out(&text);
    out.SetSerializationDeterministic(true);
    is_written = request->SerializeToCodedStream(&out);
  }
  request->mutable_job_id()->swap(job_id);
  request->mutable_request_id()->swap(request_id);
  request->set_step(step);

  PlanKey key = {};
  const bool is_hashed = is_written && EVP_Digest(bytes.data(), bytes.size(), key.data(), nullptr,
                                                  EVP_sha256(), nullptr) == 1;
  // Both fail if memory runs out. A key that other requests share would be worse than none.
  if (!is_hashed) throw std::bad_alloc();
  return key;
}

absl::StatusOr<std::shared_ptr<const CachedPlan>> MakeCachedPlan(
    const v1::PlanBatchRequest& request, v1::PlanBatchResponse response) {
  auto plan = std::make_shared<CachedPlan>();
  plan->passes = RecordPasses(request, response);
  plan->waiting = RecordWaiting(request, response);
  response.clear_planning_time();
  const absl::StatusOr<grpc::ByteBuffer> body = ToBytes(response);
  if (!body.ok()) return body.status();
  plan->body = *body;
  return plan;
}

absl::StatusOr<grpc::ByteBuffer> CachedPlan::Answer(absl::Duration planning_time) const {
  // Fields may come in any order, so a message with only this field may follow the others.
  v1::PlanBatchResponse rest;
  *rest.mutable_planning_time() = google::protobuf::util::TimeUtil::NanosecondsToDuration(
      absl::ToInt64Nanoseconds(planning_time));
  const absl::StatusOr<grpc::ByteBuffer> tail = ToBytes(rest);
  if (!tail.ok()) return tail.status();
  std::vector<grpc::Slice> slices;
  std::vector<grpc::Slice> last;
  if (!body.Dump(&slices).ok() || !tail->Dump(&last).ok()) {
    return absl::InternalError("can't read the plan's bytes");
  }
  slices.insert(slices.end(), last.begin(), last.end());
  return grpc::ByteBuffer(slices.data(), slices.size());
}

size_t CachedPlan::bytes() const {
  size_t loads = 0;
  for (const PassRecord& pass : passes) {
    // The names of loads are kept with them.
    loads += pass.metrics.loads.capacity() * (sizeof(LoadMetrics) + kMaxLoadName);
  }
  return body.Length() + kEntryBytes + passes.capacity() * sizeof(PassRecord) + loads;
}

PlanCache::PlanCache(size_t max_bytes, Metrics* metrics)
    : max_bytes_(max_bytes), metrics_(metrics) {}

size_t PlanCache::FirstBytes::operator()(const PlanKey& key) const {
  size_t bytes = 0;
  std::memcpy(&bytes, key.data(), sizeof(bytes));
  return bytes;
}

std::optional<PlanKey> PlanCache::KeyFor(v1::PlanBatchRequest* request) const {
  if (!MayKeep(LeastAnswerBytes(OutlineOf(*request)))) return std::nullopt;
  return PlanKeyOf(request);
}

std::shared_ptr<const CachedPlan> PlanCache::Find(const std::optional<PlanKey>& key) {
  MutexLock lock(mutex_);
  const auto place = key.has_value() ? places_.find(*key) : places_.end();
  metrics_->RecordCacheLookup(place != places_.end());
  if (place == places_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, place->second);
  return place->second->plan;
}

void PlanCache::Insert(const std::optional<PlanKey>& key, std::shared_ptr<const CachedPlan> plan) {
  const size_t bytes = plan->bytes();
  if (!key.has_value() || !MayKeep(bytes)) return;
  std::list<Entry> entry;
  entry.push_back({.key = *key, .plan = std::move(plan)});
  std::list<Entry> gone;  // destroyed outside the lock
  MutexLock lock(mutex_);
  const auto [place, fresh] = places_.try_emplace(*key, entry.begin());
  if (!fresh) {
    bytes_ -= place->second->plan->bytes();
    gone.splice(gone.end(), entries_, place->second);
    place->second = entry.begin();
  }
  entries_.splice(entries_.begin(), entry);
  bytes_ += bytes;
  while (bytes_ > max_bytes_) {
    const auto last = std::prev(entries_.end());
    bytes_ -= last->plan->bytes();
    places_.erase(last->key);
    gone.splice(gone.end(), entries_, last);
  }
  metrics_->RecordCacheSize(entries_.size(), bytes_);
}

size_t PlanCache::bytes() const {
  MutexLock lock(mutex_);
  return bytes_;
}

}  // namespace batchplan
