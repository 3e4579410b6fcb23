#include "batchplan/pass_requirements.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/batchplan/v1/convert.h"
#include "server/planner/request/context_sizes.h"
#include "server/planner/request/lengths.h"
#include "server/planner/request/options.h"
#include "server/planner/time/schedule.h"

namespace batchplan {
namespace {

template <typename... Parts>
absl::Status Broken(const Parts&... parts) {
  return absl::InternalError(absl::StrCat("the plan can't be used: ", parts...));
}

std::string ListSizes(const ContextPool& pool) {
  return absl::StrJoin(pool.sizes, ", ", [](std::string* text, const ContextGroupSize& size) {
    absl::StrAppend(text, size.ranks);
  });
}

// Checks that the groups divide the pool in each of `slots` slots.
absl::Status CheckGroups(const v1::PassPlan& plan, const ContextPool& pool, uint64_t slots,
                         bool is_slice) {
  if (plan.context_sizes_size() != plan.row_widths_size()) {
    return Broken("context_sizes has ", plan.context_sizes_size(), " entries, but row_widths has ",
                  plan.row_widths_size());
  }
  uint64_t complete = 0;
  // Where in the pool the next group begins.
  uint32_t rank = 0;
  for (int m = 0; m < plan.context_sizes_size(); ++m) {
    const uint32_t size = plan.context_sizes(m);
    if (pool.Find(size) == nullptr) {
      return Broken("context_sizes[", m, "] is ", size, "; must be one of ", ListSizes(pool));
    }
    if (size > pool.ranks - rank || rank % size != 0) {
      return Broken("context_sizes[", m, "] is ", size, ", but its group would begin at rank ",
                    rank, " of ", pool.ranks);
    }
    rank = is_slice ? 0 : (rank + size) % pool.ranks;
    if (rank == 0) ++complete;
  }
  if (rank != 0 || complete != slots) {
    return Broken("microbatches_per_rank add up to ", slots, ", but context_sizes make ", complete,
                  " slots of ", pool.ranks, " ranks and leave ", rank, " ranks over");
  }
  return absl::OkStatus();
}

// Checks that the counts and the groups of the ranks make up all micro-batches.
absl::Status CheckCounts(const v1::PassPlan& plan, const PassRequirements& requirements) {
  uint64_t per_rank = 0;
  for (const uint32_t count : plan.microbatches_per_rank()) per_rank += count;
  if (requirements.pool) {
    return CheckGroups(plan, *requirements.pool, per_rank,
                       requirements.data_parallel < requirements.pool->ranks);
  }
  if (plan.context_sizes_size() > 0) {
    return Broken("context_sizes has ", plan.context_sizes_size(),
                  " entries, but the request has no dynamic_context");
  }
  // Counts are 32-bit and fewer than 2^31. The first test bounds their sum, and there are at most
  // 65536 ranks, so that the product does not overflow.
  const auto microbatches = static_cast<uint64_t>(plan.row_widths_size());
  if (per_rank > microbatches || per_rank * requirements.data_parallel != microbatches) {
    return Broken("microbatches_per_rank add up to ", per_rank, " on each of ",
                  requirements.data_parallel, " ranks, but row_widths has ", microbatches,
                  " entries");
  }
  return absl::OkStatus();
}

absl::Status CheckSizes(const v1::PassPlan& plan, const PassRequirements& requirements) {
  if (absl::Status status = CheckCounts(plan, requirements); !status.ok()) return status;
  const auto microbatches = static_cast<uint64_t>(plan.row_widths_size());
  if (static_cast<uint64_t>(plan.microbatch_offsets_size()) != microbatches + 1) {
    return Broken("microbatch_offsets has ", plan.microbatch_offsets_size(), " entries, not ",
                  microbatches + 1, ", one more than row_widths");
  }
  if (plan.sequence_lengths_size() != plan.sequence_index_size()) {
    return Broken("sequence_lengths has ", plan.sequence_lengths_size(),
                  " entries, but sequence_index has ", plan.sequence_index_size());
  }
  if (plan.shared_tokens_size() > 0) {
    if (plan.shared_tokens_size() != plan.sequence_index_size()) {
      return Broken("shared_tokens has ", plan.shared_tokens_size(),
                    " entries, but sequence_index has ", plan.sequence_index_size());
    }
    if (!requirements.may_share) {
      return Broken("shared_tokens has ", plan.shared_tokens_size(),
                    " entries, but nothing is shared in this pass");
    }
  }
  const auto sequences = static_cast<uint32_t>(plan.sequence_index_size());
  if (sequences > requirements.num_sequences ||
      (sequences < requirements.num_sequences && !requirements.may_drop)) {
    return Broken("sequence_index has ", sequences, " entries for a manifest of ",
                  requirements.num_sequences, " sequences");
  }
  if (plan.length_multiple() != requirements.length_multiple) {
    return Broken("length_multiple is ", plan.length_multiple(), ", but the request makes it ",
                  requirements.length_multiple);
  }
  return absl::OkStatus();
}

// Checks that every item of a dealt load goes to a rank.
absl::Status CheckItemRanks(const v1::PassPlan& plan, const PassRequirements& requirements) {
  if (static_cast<size_t>(plan.item_ranks_size()) != requirements.dealt.size()) {
    return Broken("item_ranks has ", plan.item_ranks_size(), " entries, but ",
                  requirements.dealt.size(), " loads are dealt");
  }
  for (int i = 0; i < plan.item_ranks_size(); ++i) {
    const v1::LoadRanks& dealt = plan.item_ranks(i);
    const DealtLoad& load = requirements.dealt[static_cast<size_t>(i)];
    if (dealt.load() != load.name) {
      return Broken("item_ranks[", i, "].load is \"", absl::Utf8SafeCEscape(dealt.load()),
                    "\", but load ", i, " of those that are dealt is \"",
                    absl::Utf8SafeCEscape(load.name), "\"");
    }
    if (load.num_items && static_cast<uint32_t>(dealt.ranks_size()) != *load.num_items) {
      return Broken("item_ranks[", i, "].ranks has ", dealt.ranks_size(), " entries, but load \"",
                    absl::Utf8SafeCEscape(load.name), "\" has ", *load.num_items, " items");
    }
    for (int item = 0; item < dealt.ranks_size(); ++item) {
      if (dealt.ranks(item) < requirements.item_ranks) continue;
      return Broken("item_ranks[", i, "].ranks[", item, "] is ", dealt.ranks(item),
                    ", but data_parallel is ", requirements.item_ranks);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSequences(const v1::PassPlan& plan, const PassRequirements& requirements) {
  std::vector<bool> seen(requirements.num_sequences);
  for (int i = 0; i < plan.sequence_index_size(); ++i) {
    const uint32_t index = plan.sequence_index(i);
    const uint32_t length = plan.sequence_lengths(i);
    if (index >= requirements.num_sequences) {
      return Broken("sequence_index[", i, "] is ", index, ", but the manifest has ",
                    requirements.num_sequences, " sequences");
    }
    if (seen[index]) {
      return Broken("sequence_index[", i, "] is ", index, ", which stands in the plan twice");
    }
    seen[index] = true;
    if (requirements.lengths.empty()) continue;
    const uint32_t true_length = requirements.lengths[index];
    if (length > true_length || (length < true_length && !requirements.may_truncate)) {
      return Broken("sequence_lengths[", i, "] is ", length, ", but sequence ", index,
                    " has a length of ", true_length);
    }
  }
  return absl::OkStatus();
}

// The size and limits of micro-batch `m`'s group.
ContextGroupSize GroupOf(const v1::PassPlan& plan, const PassRequirements& requirements, int m) {
  if (requirements.pool) return *requirements.pool->Find(plan.context_sizes(m));
  return {.ranks = requirements.context_parallel,
          .length_multiple = requirements.length_multiple,
          .max_tokens = requirements.max_tokens_per_microbatch};
}

// Checks that no sequence of `begin` to `end` shares more tokens than it or the one before it has.
absl::Status CheckShared(const v1::PassPlan& plan, uint32_t begin, uint32_t end) {
  uint32_t before = 0;
  for (uint32_t i = begin; i < end; ++i) {
    const uint32_t length = plan.sequence_lengths(static_cast<int>(i));
    const uint32_t shared = plan.shared_tokens(static_cast<int>(i));
    if (shared > before || shared > length) {
      return Broken("shared_tokens[", i, "] is ", shared, ", of a sequence of ", length,
                    " tokens behind one of ", before, " in its row");
    }
    before = length;
  }
  return absl::OkStatus();
}

// How much of its budget micro-batch `m`, with sequences `begin` to `end`, uses. Checks that the
// sequences fit its row.
absl::StatusOr<uint64_t> TokensOf(const v1::PassPlan& plan, const PassRequirements& requirements,
                                  uint32_t multiple, int m, uint32_t begin, uint32_t end) {
  const uint64_t width = plan.row_widths(m);
  const bool shares = plan.shared_tokens_size() > 0;
  if (shares) {
    if (absl::Status status = CheckShared(plan, begin, end); !status.ok()) return status;
  }
  uint64_t total = 0;
  for (uint32_t i = begin; i < end; ++i) {
    const uint32_t length = plan.sequence_lengths(static_cast<int>(i));
    // In a row of shared tokens no sequence is aligned.
    const uint64_t aligned =
        shares ? length - plan.shared_tokens(static_cast<int>(i)) : AlignUp(length, multiple);
    total += aligned;
    if ((requirements.padded ? aligned : total) > width) {
      return Broken("row_widths[", m, "] is ", width, ", too narrow for sequence_lengths[", i,
                    "], ", length, requirements.padded ? "" : ", behind those before it");
    }
  }
  return requirements.padded ? width * (end - begin) : width;
}

// Whether micro-batch `m` is a single sequence in a row of its aligned length. Such a row may
// exceed the token budget.
bool RunsAlone(const v1::PassPlan& plan, const PassRequirements& requirements, uint32_t multiple,
               int m, uint32_t begin, uint32_t end) {
  return requirements.may_run_alone && end - begin == 1 &&
         AlignUp(plan.sequence_lengths(static_cast<int>(begin)), multiple) == plan.row_widths(m);
}

absl::Status CheckMicrobatches(const v1::PassPlan& plan, const PassRequirements& requirements) {
  const auto& offsets = plan.microbatch_offsets();
  if (offsets[0] != 0) return Broken("microbatch_offsets[0] is ", offsets[0], ", not 0");
  const auto sequences = static_cast<uint32_t>(plan.sequence_index_size());
  if (offsets[offsets.size() - 1] != sequences) {
    return Broken("microbatch_offsets[", offsets.size() - 1, "] is ", offsets[offsets.size() - 1],
                  ", but sequence_index has ", sequences, " entries");
  }
  for (int m = 0; m < plan.row_widths_size(); ++m) {
    if (offsets[m + 1] < offsets[m] || offsets[m + 1] > sequences) {
      return Broken("microbatch_offsets[", m + 1, "] is ", offsets[m + 1], ", not between ",
                    offsets[m], " before it and ", sequences, " sequences");
    }
    const ContextGroupSize group = GroupOf(plan, requirements, m);
    if (plan.row_widths(m) % group.length_multiple != 0) {
      return Broken("row_widths[", m, "] is ", plan.row_widths(m), ", not a multiple of ",
                    group.length_multiple);
    }
    const absl::StatusOr<uint64_t> tokens =
        TokensOf(plan, requirements, group.length_multiple, m, offsets[m], offsets[m + 1]);
    if (!tokens.ok()) return tokens.status();
    if (*tokens > group.max_tokens &&
        !RunsAlone(plan, requirements, group.length_multiple, m, offsets[m], offsets[m + 1])) {
      return Broken(
          "row_widths[", m, "] is ", plan.row_widths(m), " for ", offsets[m + 1] - offsets[m],
          " sequences, more than ",
          requirements.pool
              ? absl::StrCat("the ", group.max_tokens, " tokens of ", group.ranks, " ranks")
              : absl::StrCat("max_tokens_per_microbatch, ", group.max_tokens));
    }
  }
  return absl::OkStatus();
}

// The dealt loads, with the items that the manifest has of them.
std::vector<DealtLoad> DealtLoadsOf(const v1::PlanBatchRequest& request) {
  std::vector<DealtLoad> dealt;
  dealt.reserve(static_cast<size_t>(request.cost_model().loads_size()));
  for (const v1::LoadCost& cost : request.cost_model().loads()) {
    if (!cost.dealt()) continue;
    DealtLoad load = {.name = cost.load()};
    for (const v1::LoadItems& items : request.manifest().items()) {
      if (items.load() == cost.load()) load.num_items = static_cast<uint32_t>(items.values_size());
    }
    dealt.push_back(std::move(load));
  }
  return dealt;
}

std::vector<double> StageShares(const PlanOptions& options) {
  if (options.topology.pipeline_parallel == 1) return {1};
  const Pipeline pipeline = PipelineOf(options.topology, options.pipeline, /*forward_only=*/false);
  std::vector<double> shares(pipeline.stages);
  for (uint32_t stage = 0; stage < pipeline.stages; ++stage) {
    shares[stage] = pipeline.StageShare(stage);
  }
  return shares;
}

// Sets the length multiple; if groups differ in size, also the multiples and limits of each size.
absl::Status AlignAndLimit(const Topology& topology, const PassOptions& pass,
                           absl::string_view where, PassRequirements& requirements) {
  if (!topology.dynamic_context) {
    const absl::StatusOr<uint32_t> multiple = LengthMultiple(topology, pass, where);
    if (!multiple.ok()) return multiple.status();
    requirements.length_multiple = *multiple;
    return absl::OkStatus();
  }
  const absl::StatusOr<std::vector<GroupLimits>> sizes = GroupLimitsOf(topology, pass, where);
  if (!sizes.ok()) return sizes.status();
  requirements.length_multiple = LengthMultipleOfOne(topology, pass);
  requirements.data_parallel = static_cast<uint32_t>(PoolOf(topology));
  ContextPool& pool = requirements.pool.emplace();
  pool.ranks = requirements.data_parallel;
  for (const GroupLimits& size : *sizes) {
    pool.sizes.push_back({size.ranks, size.multiple, size.capacity});
  }
  return absl::OkStatus();
}

}  // namespace

const ContextGroupSize* ContextPool::Find(uint32_t size) const {
  for (const ContextGroupSize& one : sizes) {
    if (one.ranks == size) return &one;
  }
  return nullptr;
}

absl::StatusOr<PassRequirements> RequirementsOf(const v1::PlanBatchRequest& request, int pass) {
  if (pass < 0 || pass >= request.passes_size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("pass is ", pass, ", but the request has ", request.passes_size(), " passes"));
  }
  // The requirements do not depend on costs, which only a server may know.
  const absl::StatusOr<ParsedRequest> parsed =
      request.cost_model().fitted() ? ParseRequestWithoutCosts(request) : ParseRequest(request);
  if (!parsed.ok()) return parsed.status();
  const PlanOptions& options = parsed->options;
  if (const absl::Status valid = options.Validate(); !valid.ok()) return valid;

  const PassOptions& asked = options.passes[static_cast<size_t>(pass)];
  PassRequirements requirements;
  requirements.data_parallel = options.topology.data_parallel;
  requirements.context_parallel = options.topology.context_parallel;
  if (absl::Status status =
          AlignAndLimit(options.topology, asked, absl::StrCat("passes[", pass, "]"), requirements);
      !status.ok())
    return status;
  requirements.stage_shares = StageShares(options);
  requirements.max_tokens_per_microbatch = asked.max_tokens_per_microbatch;
  requirements.padded = asked.layout == Layout::kPadded;
  requirements.may_share =
      !requirements.padded && !requirements.pool && !asked.ignore_shared_prefixes;
  requirements.dealt = DealtLoadsOf(request);
  requirements.item_ranks = options.topology.data_parallel;
  requirements.num_sequences = static_cast<uint32_t>(request.manifest().lengths_size());
  requirements.lengths = absl::MakeConstSpan(request.manifest().lengths().data(),
                                             static_cast<size_t>(requirements.num_sequences));
  requirements.may_truncate = options.overlong == OverlongPolicy::kTruncate;
  requirements.may_drop = options.overlong == OverlongPolicy::kDrop || options.selection;
  requirements.may_run_alone = options.overlong == OverlongPolicy::kAlone;
  return requirements;
}

absl::Status CheckPassPlan(const v1::PassPlan& plan, const PassRequirements& requirements) {
  if (requirements.length_multiple == 0) {
    return absl::InvalidArgumentError("PassRequirements.length_multiple is 0");
  }
  if (requirements.pool && requirements.data_parallel != requirements.pool->ranks &&
      requirements.data_parallel != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "PassRequirements.data_parallel is ", requirements.data_parallel, "; must be pool.ranks, ",
        requirements.pool->ranks, ", or 1 for the slice of a rank"));
  }
  if (!requirements.lengths.empty() && requirements.lengths.size() != requirements.num_sequences) {
    return absl::InvalidArgumentError(
        absl::StrCat("PassRequirements.lengths has ", requirements.lengths.size(),
                     " entries for num_sequences of ", requirements.num_sequences));
  }
  if (absl::Status status = CheckSizes(plan, requirements); !status.ok()) return status;
  if (absl::Status status = CheckItemRanks(plan, requirements); !status.ok()) return status;
  if (absl::Status status = CheckSequences(plan, requirements); !status.ok()) return status;
  return CheckMicrobatches(plan, requirements);
}

}  // namespace batchplan
