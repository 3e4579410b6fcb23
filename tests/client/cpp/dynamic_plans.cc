#include "tests/client/cpp/dynamic_plans.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <numeric>
#include <vector>

namespace batchplan {
namespace {

struct Pool {
  explicit Pool(const v1::PlanBatchRequest& request)
      : context_parallel(std::max(1U, request.topology().context_parallel())),
        ranks(std::max(1U, request.topology().data_parallel()) * context_parallel),
        least(std::max(1U, request.topology().dynamic_context().min_size())),
        most(request.topology().dynamic_context().max_size()),
        tensor(request.topology().sequence_parallel() ? request.topology().tensor_parallel() : 1),
        asked(std::max(1U, request.passes(0).length_multiple())),
        budget(request.passes(0).max_tokens_per_microbatch()),
        full_rows(request.passes(0).packed().rows() == v1::ROW_PADDING_CAPACITY) {
    if (most == 0) most = ranks;
  }

  uint32_t Multiple(uint32_t size) const {
    return std::lcm(asked, size == 1 ? tensor : 2 * size * tensor);
  }
  uint32_t Capacity(uint32_t size) const {
    return size * budget / context_parallel / Multiple(size) * Multiple(size);
  }

  uint32_t context_parallel, ranks, least, most, tensor, asked, budget;
  bool full_rows;
};

// The sizes of groups in a slot that begins with a group of `size` ranks.
std::vector<uint32_t> SizesFrom(const Pool& pool, uint32_t size) {
  std::vector<uint32_t> sizes;
  for (uint32_t left = pool.ranks; left > 0; left -= sizes.back()) {
    if (!sizes.empty()) size = std::max(pool.least, sizes.back() / 2);
    while (size > left) size /= 2;
    sizes.push_back(size);
  }
  return sizes;
}

// Adds a micro-batch of the sequences in `left` that fit, longest first, and removes them there.
void AddGroup(const Pool& pool, uint32_t size, const v1::PlanBatchRequest& request,
              std::vector<uint32_t>& left, v1::PassPlan& plan) {
  const uint32_t multiple = pool.Multiple(size);
  uint32_t width = 0;
  std::erase_if(left, [&](uint32_t sequence) {
    const uint32_t length = request.manifest().lengths(static_cast<int>(sequence));
    const uint32_t aligned = (length + multiple - 1) / multiple * multiple;
    if (width + aligned > pool.Capacity(size)) return false;
    width += aligned;
    plan.add_sequence_index(sequence);
    plan.add_sequence_lengths(length);
    return true;
  });
  plan.add_microbatch_offsets(static_cast<uint32_t>(plan.sequence_index_size()));
  plan.add_row_widths(pool.full_rows && width > 0 ? pool.Capacity(size) : width);
  plan.add_context_sizes(size);
}

}  // namespace

v1::PlanBatchResponse DynamicPlanOf(const v1::PlanBatchRequest& request) {
  const Pool pool(request);
  v1::PlanBatchResponse response;
  v1::PassPlan& plan = *response.add_passes();
  plan.set_name(request.passes(0).name());
  plan.set_length_multiple(pool.Multiple(1));
  plan.add_microbatch_offsets(0);
  response.set_fingerprint("handmade");
  const auto sequences = static_cast<uint32_t>(request.manifest().lengths_size());
  const uint32_t mini_batch =
      request.mini_batches().size() > 0 ? request.mini_batches().size() : sequences;
  for (uint32_t begin = 0; begin < sequences; begin += mini_batch) {
    std::vector<uint32_t> left(mini_batch);
    std::iota(left.begin(), left.end(), begin);
    std::stable_sort(left.begin(), left.end(), [&](uint32_t a, uint32_t b) {
      return request.manifest().lengths(static_cast<int>(a)) >
             request.manifest().lengths(static_cast<int>(b));
    });
    uint32_t slots = 0;
    for (uint32_t size = pool.most; !left.empty(); ++slots) {
      for (const uint32_t one : SizesFrom(pool, size)) AddGroup(pool, one, request, left, plan);
      size = size > pool.least ? std::max(pool.least, std::bit_floor(size - 1)) : pool.most;
    }
    plan.add_microbatches_per_rank(slots);
  }
  return response;
}

v1::PlanBatchResponse SliceOf(const v1::PlanBatchResponse& response, uint32_t rank) {
  const v1::PassPlan& whole = response.passes(0);
  v1::PlanBatchResponse slice;
  v1::PassPlan& plan = *slice.add_passes();
  plan.set_length_multiple(whole.length_multiple());
  *plan.mutable_microbatches_per_rank() = whole.microbatches_per_rank();
  plan.add_microbatch_offsets(0);
  uint32_t first = 0;
  uint32_t pool = std::accumulate(whole.context_sizes().begin(), whole.context_sizes().end(), 0U) /
                  std::accumulate(whole.microbatches_per_rank().begin(),
                                  whole.microbatches_per_rank().end(), 0U);
  for (int m = 0; m < whole.context_sizes_size(); ++m) {
    const uint32_t size = whole.context_sizes(m);
    if (first <= rank && rank < first + size) {
      for (uint32_t i = whole.microbatch_offsets(m); i < whole.microbatch_offsets(m + 1); ++i) {
        plan.add_sequence_index(whole.sequence_index(static_cast<int>(i)));
        plan.add_sequence_lengths(whole.sequence_lengths(static_cast<int>(i)));
      }
      plan.add_microbatch_offsets(static_cast<uint32_t>(plan.sequence_index_size()));
      plan.add_row_widths(whole.row_widths(m));
      plan.add_context_sizes(size);
    }
    first = (first + size) % pool;
  }
  return slice;
}

}  // namespace batchplan
