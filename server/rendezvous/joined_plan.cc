#include "server/rendezvous/joined_plan.h"

#include <algorithm>
#include <cstddef>

namespace batchplan {
namespace {

using Values = google::protobuf::RepeatedField<uint32_t>;

// Appends from[begin .. end).
void AppendRange(const Values& from, size_t begin, size_t end, Values* to) {
  to->Add(from.begin() + static_cast<ptrdiff_t>(begin), from.begin() + static_cast<ptrdiff_t>(end));
}

// Appends the micro-batches [first .. last).
void AppendMicrobatches(const v1::PassPlan& whole, size_t first, size_t last, v1::PassPlan* slice) {
  AppendRange(whole.row_widths(), first, last, slice->mutable_row_widths());
  const uint32_t begin = whole.microbatch_offsets(static_cast<int>(first));
  const uint32_t end = whole.microbatch_offsets(static_cast<int>(last));
  const auto base = static_cast<uint32_t>(slice->sequence_index_size());
  AppendRange(whole.sequence_index(), begin, end, slice->mutable_sequence_index());
  AppendRange(whole.sequence_lengths(), begin, end, slice->mutable_sequence_lengths());
  if (whole.shared_tokens_size() > 0) {
    AppendRange(whole.shared_tokens(), begin, end, slice->mutable_shared_tokens());
  }
  for (size_t m = first + 1; m <= last; ++m) {
    const uint32_t offset = whole.microbatch_offsets(static_cast<int>(m));
    slice->add_microbatch_offsets(base + (offset - begin));
  }
}

// The group that a rank is in, of every slot. Their sizes say how many ranks the pool has.
void SliceGroups(const v1::PassPlan& whole, uint32_t rank, v1::PassPlan* slice) {
  uint64_t slots = 0;
  for (const uint32_t own : whole.microbatches_per_rank()) slots += own;
  uint64_t ranks = 0;
  for (const uint32_t size : whole.context_sizes()) ranks += size;
  const uint64_t pool = ranks / slots;
  uint64_t first = 0;  // rank of a group
  for (int m = 0; m < whole.context_sizes_size(); ++m) {
    const uint32_t size = whole.context_sizes(m);
    if (first <= rank && rank < first + size) {
      AppendMicrobatches(whole, static_cast<size_t>(m), static_cast<size_t>(m) + 1, slice);
      slice->add_context_sizes(size);
    }
    first = (first + size) % pool;
  }
}

void SlicePass(const v1::PassPlan& whole, uint32_t data_parallel, uint32_t rank,
               v1::PassPlan* slice) {
  slice->set_name(whole.name());
  *slice->mutable_microbatches_per_rank() = whole.microbatches_per_rank();
  slice->set_length_multiple(whole.length_multiple());
  *slice->mutable_metrics() = whole.metrics();
  *slice->mutable_decisions() = whole.decisions();
  *slice->mutable_item_ranks() = whole.item_ranks();

  slice->add_microbatch_offsets(0);
  if (whole.context_sizes_size() > 0) {
    SliceGroups(whole, rank, slice);
    return;
  }
  size_t mini_batch_begin = 0;
  for (const uint32_t slots : whole.microbatches_per_rank()) {
    const size_t first = mini_batch_begin + size_t{rank} * slots;
    mini_batch_begin += size_t{data_parallel} * slots;
    AppendMicrobatches(whole, first, first + slots, slice);
  }
}

}  // namespace

const std::string& JoinedPlan::Serialized() const {
  std::call_once(serialized_once_, [this] {
    v1::JoinBatchResponse response;
    *response.mutable_plan() = plan;
    response.mutable_worker_offsets()->Add(worker_offsets.begin(), worker_offsets.end());
    *response.mutable_item_sequences() = ItemSequencesOf(plan, request->manifest());
    if (!response.SerializeToString(&serialized_)) serialized_.clear();
  });
  return serialized_;
}

google::protobuf::RepeatedPtrField<v1::ItemSequences> ItemSequencesOf(
    const v1::PlanBatchResponse& plan, const v1::Manifest& manifest) {
  google::protobuf::RepeatedPtrField<v1::ItemSequences> all;
  // A load is dealt in all passes or in none.
  if (plan.passes().empty()) return all;
  for (const v1::LoadRanks& dealt : plan.passes(0).item_ranks()) {
    for (const v1::LoadItems& items : manifest.items()) {
      if (items.load() != dealt.load()) continue;
      v1::ItemSequences* sequences = all.Add();
      sequences->set_load(items.load());
      *sequences->mutable_sequences() = items.sequences();
    }
  }
  return all;
}

void SliceForRank(const v1::PlanBatchResponse& whole, uint32_t data_parallel, uint32_t rank,
                  v1::PlanBatchResponse* slice) {
  for (const v1::PassPlan& pass : whole.passes()) {
    SlicePass(pass, std::max(data_parallel, 1U), rank, slice->add_passes());
  }
  *slice->mutable_excluded() = whole.excluded();
  *slice->mutable_deferred() = whole.deferred();
  slice->set_fingerprint(whole.fingerprint());
  slice->set_planner_version(whole.planner_version());
  if (whole.has_planning_time()) *slice->mutable_planning_time() = whole.planning_time();
  if (whole.has_cost_model_used()) *slice->mutable_cost_model_used() = whole.cost_model_used();
}

}  // namespace batchplan
