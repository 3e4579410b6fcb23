#include "server/rendezvous/joined_plan.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

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

// The sequences of a worker's part, and those of the slice that it asks for.
class OwnSequences {
 public:
  OwnSequences(uint32_t begin, uint32_t end, const v1::PlanBatchResponse& slice)
      : begin_(begin), end_(end) {
    for (const v1::PassPlan& pass : slice.passes()) {
      in_slice_.insert(in_slice_.end(), pass.sequence_index().begin(), pass.sequence_index().end());
    }
    std::sort(in_slice_.begin(), in_slice_.end());
  }

  // Calls `keep` with the place of each of `entries` that is of one of these, ascending.
  // `sequence_at` says of which sequence an entry is; ascending too.
  template <typename SequenceAt, typename Keep>
  void ForEachPlace(int entries, const SequenceAt& sequence_at, const Keep& keep) const {
    if (entries == 0) return;
    int place = 0;
    const auto keep_those_in = [&](uint32_t begin, uint32_t end) {
      int beyond = entries;
      while (place < beyond) {
        const int middle = place + (beyond - place) / 2;
        if (sequence_at(middle) < begin) {
          place = middle + 1;
        } else {
          beyond = middle;
        }
      }
      for (; place < entries && sequence_at(place) < end; ++place) keep(place);
    };
    auto own = in_slice_.begin();
    for (; own != in_slice_.end() && *own < begin_; ++own) keep_those_in(*own, *own + 1);
    keep_those_in(begin_, end_);
    for (; own != in_slice_.end(); ++own) keep_those_in(std::max(*own, end_), *own + 1);
  }

 private:
  const uint32_t begin_;
  const uint32_t end_;
  // Ascending; more than once where several passes have them.
  std::vector<uint32_t> in_slice_;
};

void CopyAllEntries(const v1::JoinBatchResponse& whole, v1::JoinBatchResponse* slice) {
  *slice->mutable_worker_offsets() = whole.worker_offsets();
  *slice->mutable_item_sequences() = whole.item_sequences();
  *slice->mutable_plan()->mutable_excluded() = whole.plan().excluded();
  *slice->mutable_plan()->mutable_deferred() = whole.plan().deferred();
  for (int pass = 0; pass < whole.plan().passes_size(); ++pass) {
    *slice->mutable_plan()->mutable_passes(pass)->mutable_item_ranks() =
        whole.plan().passes(pass).item_ranks();
  }
}

// The items of the load at `load` among those that are dealt.
void CopyOwnItems(const v1::JoinBatchResponse& whole, int load, const OwnSequences& own,
                  v1::JoinBatchResponse* slice) {
  const v1::ItemSequences& items = whole.item_sequences(load);
  v1::ItemSequences& kept = *slice->add_item_sequences();
  kept.set_load(items.load());
  std::vector<v1::LoadRanks*> ranks;
  for (v1::PassPlan& pass : *slice->mutable_plan()->mutable_passes()) {
    ranks.push_back(pass.add_item_ranks());
    ranks.back()->set_load(items.load());
  }
  own.ForEachPlace(
      items.sequences_size(), [&](int place) { return items.sequences(place); },
      [&](int place) {
        kept.add_sequences(items.sequences(place));
        for (int pass = 0; pass < whole.plan().passes_size(); ++pass) {
          ranks[static_cast<size_t>(pass)]->add_ranks(
              whole.plan().passes(pass).item_ranks(load).ranks(place));
        }
      });
}

// Of what CopyAllEntries copies, what own_part_only asks for.
void CopyOwnEntries(const v1::JoinBatchResponse& whole, uint32_t worker,
                    v1::JoinBatchResponse* slice) {
  const uint32_t begin = whole.worker_offsets(static_cast<int>(worker));
  const uint32_t end = whole.worker_offsets(static_cast<int>(worker) + 1);
  slice->add_worker_offsets(begin);
  slice->add_worker_offsets(end);
  const OwnSequences own(begin, end, slice->plan());
  const auto& excluded = whole.plan().excluded();
  own.ForEachPlace(
      excluded.size(), [&](int place) { return excluded[place].index(); },
      [&](int place) { *slice->mutable_plan()->add_excluded() = excluded[place]; });
  const auto& deferred = whole.plan().deferred();
  own.ForEachPlace(
      deferred.size(), [&](int place) { return deferred[place]; },
      [&](int place) { slice->mutable_plan()->add_deferred(deferred[place]); });
  for (int load = 0; load < whole.item_sequences_size(); ++load) {
    CopyOwnItems(whole, load, own, slice);
  }
}

}  // namespace

size_t JoinedPlan::bytes() const {
  return sizeof(*this) + whole.SpaceUsedLong() + whole.ByteSizeLong() +
         (request == nullptr ? 0 : request->SpaceUsedLong());
}

const std::string& JoinedPlan::Serialized() const {
  std::call_once(serialized_once_, [this] {
    if (!whole.SerializeToString(&serialized_)) serialized_.clear();
  });
  return serialized_;
}

bool JoinedPlan::Read(std::string serialized) {
  if (!whole.ParseFromString(serialized)) return false;
  std::call_once(serialized_once_, [&] { serialized_ = std::move(serialized); });
  return true;
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

void SliceForRank(const v1::JoinBatchResponse& whole, const AskedSlice& asked,
                  v1::JoinBatchResponse* slice) {
  const v1::PlanBatchResponse& plan = whole.plan();
  v1::PlanBatchResponse& own = *slice->mutable_plan();
  for (const v1::PassPlan& pass : plan.passes()) {
    SlicePass(pass, std::max(asked.data_parallel, 1U), asked.rank, own.add_passes());
  }
  own.set_fingerprint(plan.fingerprint());
  own.set_planner_version(plan.planner_version());
  if (plan.has_planning_time()) *own.mutable_planning_time() = plan.planning_time();
  if (plan.has_cost_model_used()) *own.mutable_cost_model_used() = plan.cost_model_used();
  if (asked.own_part_of) {
    CopyOwnEntries(whole, *asked.own_part_of, slice);
  } else {
    CopyAllEntries(whole, slice);
  }
}

}  // namespace batchplan
