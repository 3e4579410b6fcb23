#include "server/planner/request/lengths.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/planner/request/context_sizes.h"

namespace batchplan {

absl::StatusOr<uint32_t> LengthMultiple(const Topology& topology, const PassOptions& pass,
                                        absl::string_view where) {
  const uint64_t tensor = topology.sequence_parallel ? topology.tensor_parallel : 1;
  const uint64_t context =
      topology.context_parallel > 1 ? 2 * uint64_t{topology.context_parallel} : 1;
  const uint64_t demanded = context * tensor;
  // Either beyond the budget already, or both factors are below 2^32, so that the multiple fits 64
  // bits.
  const uint64_t multiple = demanded > pass.max_tokens_per_microbatch
                                ? demanded
                                : std::lcm(uint64_t{pass.length_multiple}, demanded);
  if (multiple > pass.max_tokens_per_microbatch) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ".max_tokens_per_microbatch is ", pass.max_tokens_per_microbatch,
                     ", below the length multiple ", multiple, " (length_multiple ",
                     pass.length_multiple, ", topology ", demanded, "): no sequence fits"));
  }
  return static_cast<uint32_t>(multiple);
}

namespace {

// An overlong sequence under kReject.
absl::Status TooLong(uint32_t index, uint32_t length, const PlanOptions& options,
                     const LengthLimit& limit) {
  const uint32_t budget = options.passes[limit.pass].max_tokens_per_microbatch;
  if (limit.ranks == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "manifest.lengths[", index, "] is ", length, ", but passes[", limit.pass,
        "].max_tokens_per_microbatch is ", budget, " and holds sequences of up to ", limit.length,
        " tokens; raise it, or set overlong to truncate, drop or alone"));
  }
  const Topology& topology = options.topology;
  const uint64_t room = uint64_t{limit.ranks} * budget / topology.context_parallel;
  const bool grows = limit.ranks < PoolOf(topology);
  return absl::InvalidArgumentError(absl::StrCat(
      "manifest.lengths[", index, "] is ", length, ", but the largest groups, of ", limit.ranks,
      " ranks (topology.dynamic_context.max_size), hold sequences of up to ", limit.length,
      " tokens in passes[", limit.pass, "], whose max_tokens_per_microbatch is ", budget,
      room > kMaxGroupTokens
          ? absl::StrCat(" and of which a group takes ", kMaxGroupTokens, " tokens at most; set")
          : absl::StrCat("; raise ", grows ? "one of them" : "that", ", or set"),
      " overlong to truncate or drop"));
}

// A sequence whose load exceeds a limit, if the policy does not leave it out.
absl::Status TooMuch(SequenceIndex sequence, const ExceededLimit& exceeded, const Loads& loads,
                     const PlanOptions& options) {
  const std::string name = absl::Utf8SafeCEscape(loads.name(exceeded.load));
  const bool is_dealt = IsDealt(options.cost_model, loads.name(exceeded.load));
  const bool truncates = options.overlong == OverlongPolicy::kTruncate;
  return absl::InvalidArgumentError(absl::StrCat(
      "sequence ", sequence.value(), " has ",
      is_dealt ? "items that, dealt to all ranks, leave one with " : "", exceeded.value,
      " of load \"", name, "\", but passes[", exceeded.pass, "].limits has max_per_microbatch ",
      exceeded.limit, " of it; raise that, or set overlong to drop", is_dealt ? "" : " or alone",
      truncates ? ", as truncation leaves loads as they are" : ""));
}

}  // namespace

absl::StatusOr<PlannedLengths> ApplyOverlongPolicy(const Manifest& manifest,
                                                   const PlanOptions& options, const Groups& groups,
                                                   const Loads& loads, const LengthLimit& limit,
                                                   absl::FunctionRef<bool(SequenceIndex)> ignored) {
  PlannedLengths planned;
  planned.lengths.assign(manifest.lengths.begin(), manifest.lengths.end());
  std::vector<bool> dropped(groups.size(), false);
  const bool has_limits =
      std::ranges::any_of(options.passes, [](const PassOptions& p) { return !p.limits.empty(); });
  for (uint32_t i = 0; i < planned.lengths.size(); ++i) {
    uint32_t& length = planned.lengths[i];
    if (length == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("manifest.lengths[", i, "] is 0; every sequence has at least one token"));
    }
    const SequenceIndex sequence(i);
    const std::optional<ExceededLimit> exceeded =
        has_limits ? LimitExceededBy(loads, options, sequence) : std::nullopt;
    if ((length <= limit.length && !exceeded) || ignored(sequence)) continue;
    switch (options.overlong) {
      case OverlongPolicy::kReject:
        return exceeded ? TooMuch(sequence, *exceeded, loads, options)
                        : TooLong(i, length, options, limit);
      case OverlongPolicy::kTruncate:
        if (exceeded) return TooMuch(sequence, *exceeded, loads, options);
        planned.excluded.push_back({i, length, ExclusionReason::kTruncated});
        length = limit.length;
        break;
      case OverlongPolicy::kDrop:
        length = 0;
        if (!groups.empty()) dropped[groups[sequence]] = true;
        break;
      case OverlongPolicy::kAlone:
        // A dealt load is dealt together with the slot's other micro-batches.
        if (exceeded && IsDealt(options.cost_model, loads.name(exceeded->load))) {
          return TooMuch(sequence, *exceeded, loads, options);
        }
        if (length > limit.alone) {
          return absl::InvalidArgumentError(
              absl::StrCat("manifest.lengths[", i, "] is ", length,
                           ", and overlong is OVERLONG_POLICY_ALONE: the passes' length multiples "
                           "round lengths of up to ",
                           limit.alone, " to a row's width of 32 bits"));
        }
        planned.excluded.push_back({i, length, ExclusionReason::kAlone});
        break;
    }
  }
  if (options.overlong != OverlongPolicy::kDrop) return planned;
  for (uint32_t i = 0; i < planned.lengths.size(); ++i) {
    uint32_t& length = planned.lengths[i];
    if (!groups.empty() && dropped[groups[SequenceIndex(i)]]) length = 0;
    if (length == 0) {
      planned.excluded.push_back({i, manifest.lengths[i], ExclusionReason::kDropped});
    }
  }
  return planned;
}

const AlignedLengths& Alignments::To(uint32_t length_multiple) {
  AlignedLengths& aligned = aligned_[length_multiple];
  if (aligned) return aligned;
  std::vector<uint32_t> lengths;
  lengths.reserve(lengths_.size());
  for (const uint32_t length : lengths_) {
    lengths.push_back(static_cast<uint32_t>(AlignUp(length, length_multiple)));
  }
  aligned = std::make_shared<const std::vector<uint32_t>>(std::move(lengths));
  return aligned;
}

absl::Status CheckPadTo(const Manifest& manifest, const PlannedLengths& planned) {
  if (manifest.pad_to == 0) return absl::OkStatus();
  const auto longest = std::max_element(planned.lengths.begin(), planned.lengths.end());
  if (*longest <= manifest.pad_to) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("manifest.pad_to is ", manifest.pad_to, ", but sequence ",
                   longest - planned.lengths.begin(), " has ", *longest, " tokens"));
}

}  // namespace batchplan
