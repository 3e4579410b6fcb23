#include "server/planner/request/context_sizes.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace batchplan {
namespace {

// The pool in words, as errors name it.
std::string DescribePool(const Topology& topology) {
  return absl::StrCat("the pool of ", PoolOf(topology), " ranks (data_parallel ",
                      topology.data_parallel, " * context_parallel ", topology.context_parallel,
                      ")");
}

absl::Status CheckSizes(const Topology& topology) {
  const DynamicContext& dynamic = *topology.dynamic_context;
  const uint64_t pool = PoolOf(topology);
  if (pool > kMaxParallelSize) {
    return absl::InvalidArgumentError(
        absl::StrCat("topology.data_parallel is ", topology.data_parallel, " and context_parallel ",
                     topology.context_parallel, ", together a pool of ", pool,
                     " ranks; with dynamic_context the limit is ", kMaxParallelSize));
  }
  if (!std::has_single_bit(dynamic.min_size)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "topology.dynamic_context.min_size is ", dynamic.min_size, "; it must be a power of two"));
  }
  if (dynamic.min_size > pool) {
    return absl::InvalidArgumentError(absl::StrCat("topology.dynamic_context.min_size is ",
                                                   dynamic.min_size, ", above ",
                                                   DescribePool(topology)));
  }
  if (dynamic.max_size > pool) {
    return absl::InvalidArgumentError(absl::StrCat("topology.dynamic_context.max_size is ",
                                                   dynamic.max_size, ", above ",
                                                   DescribePool(topology)));
  }
  if (dynamic.max_size != 0 && dynamic.max_size < dynamic.min_size) {
    return absl::InvalidArgumentError(absl::StrCat("topology.dynamic_context.max_size is ",
                                                   dynamic.max_size, ", below min_size ",
                                                   dynamic.min_size));
  }
  if (ContextSizes(topology).empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "topology.dynamic_context.min_size is ", dynamic.min_size, " and max_size ",
        dynamic.max_size, ", but no groups of such sizes add up to ", DescribePool(topology),
        "; lower min_size to a divisor of it, or raise max_size to it"));
  }
  return absl::OkStatus();
}

// The multiple that a topology asks of lengths in a group of `ranks` ranks.
uint64_t TopologyMultiple(const Topology& topology, uint32_t ranks) {
  const uint64_t chunks = ranks > 1 ? 2 * uint64_t{ranks} : 1;
  return chunks * (topology.sequence_parallel ? topology.tensor_parallel : 1);
}

absl::Status CheckPassOfGroups(const PassOptions& pass, absl::string_view where) {
  constexpr absl::string_view kBut =
      ", set by itself or by the pass's preset, but topology.dynamic_context is set: ";
  if (pass.layout == Layout::kPadded) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ".layout is padded", kBut, "its groups run packed rows; use packed"));
  }
  if (pass.packer != Packer::kBalanced) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ".packed.packer is ", NameOf(pass.packer), kBut,
                     "no packer but PACKER_BALANCED knows groups of several sizes"));
  }
  if (pass.balance_on == BalanceOn::kTokens) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ".balance_on is BALANCE_ON_TOKENS", kBut,
                     "its groups are chosen by what they cost; use BALANCE_ON_COST"));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<uint32_t> ContextSizes(const Topology& topology) {
  const auto pool = static_cast<uint32_t>(PoolOf(topology));
  const uint64_t least = topology.dynamic_context->min_size;
  const uint32_t most =
      topology.dynamic_context->max_size == 0 ? pool : topology.dynamic_context->max_size;
  std::vector<uint32_t> sizes;
  if (pool % least == 0) {
    for (uint64_t size = least; size <= most; size *= 2) {
      sizes.push_back(static_cast<uint32_t>(size));
    }
  }
  if (most == pool && (sizes.empty() || sizes.back() != pool)) sizes.push_back(pool);
  return sizes;
}

absl::Status CheckDynamicContext(const PlanOptions& options) {
  const Sharding sharding = options.passes.front().sharding;
  if (!options.topology.dynamic_context) {
    if (sharding != Sharding::kMegatronDynamicCp) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "passes[0].sharding is SHARDING_MEGATRON_DYNAMIC_CP, as the preset megatron_dynamic_cp has "
        "it, which divides the ranks of topology.dynamic_context; set that");
  }
  if (absl::Status status = CheckSizes(options.topology); !status.ok()) return status;
  if (sharding != Sharding::kBalanced && sharding != Sharding::kMegatronDynamicCp) {
    return absl::InvalidArgumentError(
        absl::StrCat("passes[0].sharding is ", NameOf(sharding),
                     ", set by itself or by the pass's preset, which gives sequences to single "
                     "ranks, but topology.dynamic_context is set: it takes SHARDING_BALANCED or "
                     "SHARDING_MEGATRON_DYNAMIC_CP, those of the presets balanced and "
                     "megatron_dynamic_cp"));
  }
  if (const PassOptions& first = options.passes.front(); first.keeps_counts()) {
    return absl::InvalidArgumentError(
        absl::StrCat("passes[0].", AskedAs(first.sequence_counts),
                     ", by itself or by the pass's preset, but topology.dynamic_context is set "
                     "too: a sequence is on as many ranks as its group has"));
  }
  if (options.mini_batches.groups == GroupPolicy::kSameRank) {
    return absl::InvalidArgumentError(
        "mini_batches.groups is GROUP_POLICY_SAME_RANK, but topology.dynamic_context is set: a "
        "sequence is on as many ranks as its group has; use GROUP_POLICY_SAME_MICROBATCH");
  }
  if (options.overlong == OverlongPolicy::kAlone) {
    return absl::InvalidArgumentError(
        "overlong is OVERLONG_POLICY_ALONE, but topology.dynamic_context is set: a group of the "
        "largest size already takes the longest sequences; use another policy");
  }
  for (size_t i = 0; i < options.passes.size(); ++i) {
    absl::Status status = CheckPassOfGroups(options.passes[i], absl::StrCat("passes[", i, "]"));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<uint32_t>> BucketsOf(const Topology& topology, const PassOptions& pass,
                                                uint32_t ranks, uint32_t multiple,
                                                absl::string_view where) {
  std::vector<uint32_t> buckets;
  for (size_t i = 0; i < pass.buckets.size(); ++i) {
    const uint64_t shared = uint64_t{pass.buckets[i]} * ranks;
    const uint64_t width = shared / topology.context_parallel;
    const bool is_whole = shared % topology.context_parallel == 0 && width % multiple == 0;
    if (is_whole && (width <= kMaxGroupTokens || !topology.dynamic_context)) {
      buckets.push_back(static_cast<uint32_t>(width));
      continue;
    }
    std::string text = absl::StrCat(where, ".packed.buckets[", i, "] is ", pass.buckets[i]);
    if (topology.dynamic_context) {
      absl::StrAppend(&text, ", which for topology.context_parallel ", topology.context_parallel,
                      " is ", width);
      if (shared % topology.context_parallel != 0) {
        absl::StrAppend(&text, " and ", shared % topology.context_parallel, "/",
                        topology.context_parallel);
      }
      absl::StrAppend(&text, " for groups of ", ranks, " ranks of topology.dynamic_context");
    }
    if (is_whole) {
      absl::StrAppend(&text, ", above the limit of ", kMaxGroupTokens, "; lower it, or max_size");
    } else {
      absl::StrAppend(&text, ", not a multiple of the length multiple ", multiple,
                      topology.dynamic_context ? " of such groups" : "");
    }
    return absl::InvalidArgumentError(text);
  }
  return buckets;
}

absl::StatusOr<std::vector<GroupLimits>> GroupLimitsOf(const Topology& topology,
                                                       const PassOptions& pass,
                                                       absl::string_view where) {
  Topology of_group = topology;
  std::vector<GroupLimits> limits;
  const std::vector<uint32_t> sizes = ContextSizes(topology);
  for (const uint32_t ranks : sizes) {
    of_group.context_parallel = ranks;
    PassOptions own = pass;
    own.max_tokens_per_microbatch = static_cast<uint32_t>(
        std::min(uint64_t{kMaxGroupTokens},
                 uint64_t{ranks} * pass.max_tokens_per_microbatch / topology.context_parallel));
    const absl::StatusOr<uint32_t> multiple = LengthMultiple(of_group, own, where);
    if (!multiple.ok()) continue;
    absl::StatusOr<std::vector<uint32_t>> buckets =
        BucketsOf(topology, pass, ranks, *multiple, where);
    if (!buckets.ok()) return buckets.status();
    limits.push_back({.ranks = ranks,
                      .multiple = *multiple,
                      .capacity = AlignDown(own.max_tokens_per_microbatch, *multiple),
                      .buckets = *std::move(buckets)});
  }
  const auto pool = static_cast<uint32_t>(PoolOf(topology));
  if (limits.empty()) {
    const uint32_t most = sizes.back();
    const uint64_t demanded = TopologyMultiple(topology, most);
    return absl::InvalidArgumentError(absl::StrCat(
        where, ".max_tokens_per_microbatch is ", pass.max_tokens_per_microbatch,
        ", so that groups of ", most, " ranks, the most of topology.dynamic_context, hold ",
        std::min(uint64_t{kMaxGroupTokens},
                 uint64_t{most} * pass.max_tokens_per_microbatch / topology.context_parallel),
        " tokens, below ", std::lcm(uint64_t{pass.length_multiple}, demanded),
        ", the multiple of their lengths (length_multiple ", pass.length_multiple, ", topology ",
        demanded, "), and smaller groups hold none either: no sequence fits"));
  }
  if (pool % limits.front().ranks == 0) return limits;
  if (limits.back().ranks == pool) return std::vector<GroupLimits>{limits.back()};
  return absl::InvalidArgumentError(absl::StrCat(
      where, ".max_tokens_per_microbatch is ", pass.max_tokens_per_microbatch,
      ", so that groups of fewer than ", limits.front().ranks,
      " ranks hold no sequence, and larger ones that do don't add up to ", DescribePool(topology)));
}

uint32_t LengthMultipleOfOne(const Topology& topology, const PassOptions& pass) {
  return static_cast<uint32_t>(std::lcm(uint64_t{pass.length_multiple},
                                        topology.sequence_parallel ? topology.tensor_parallel : 1));
}

}  // namespace batchplan
