#include "client/cli/commands/whole_request.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace batchplan::cli {
namespace {

// The sequences [begin .. end) of the whole manifest are those of a worker.
struct OwnPart {
  uint32_t begin = 0;
  uint32_t end = 0;
};

// Whether a worker's values stand in those of all workers. `given` may be empty where the worker
// has no sequences, or gave none of these.
template <typename Value>
bool StandsIn(const google::protobuf::RepeatedField<Value>& given,
              const google::protobuf::RepeatedField<Value>& whole, OwnPart part) {
  if (given.empty()) return part.begin == part.end || whole.empty();
  return static_cast<uint32_t>(given.size()) == part.end - part.begin &&
         part.end <= static_cast<uint32_t>(whole.size()) &&
         std::equal(given.begin(), given.end(), whole.begin() + part.begin);
}

bool LoadStandsIn(const v1::Load& given, const v1::Manifest& whole, OwnPart part) {
  return std::ranges::any_of(whole.loads(), [&](const v1::Load& load) {
    return load.name() == given.name() && StandsIn(given.values(), load.values(), part);
  });
}

bool ItemsStandIn(const v1::LoadItems& given, const v1::Manifest& whole, OwnPart part) {
  return std::ranges::any_of(whole.items(), [&](const v1::LoadItems& items) {
    if (items.load() != given.load() || items.sequences_size() != items.values_size()) return false;
    const auto& sequences = items.sequences();
    const auto first = std::lower_bound(sequences.begin(), sequences.end(), part.begin);
    const auto last = std::lower_bound(first, sequences.end(), part.end);
    const auto values = items.values().begin() + (first - sequences.begin());
    return std::equal(given.sequences().begin(), given.sequences().end(), first, last,
                      [&](uint32_t own, uint32_t all) { return part.begin + own == all; }) &&
           std::equal(given.values().begin(), given.values().end(), values,
                      values + (last - first));
  });
}

// The name of what of a worker's sequences is not in the whole manifest as the worker sent it;
// empty if all is. shared_with is left out: it counts within the part in one, and in all in the
// other.
std::string WhatDiffers(const v1::Manifest& own, const v1::Manifest& whole, OwnPart part) {
  if (!StandsIn(own.lengths(), whole.lengths(), part)) return "lengths";
  if (!StandsIn(own.group_ids(), whole.group_ids(), part)) return "group_ids";
  if (!StandsIn(own.ranks(), whole.ranks(), part)) return "ranks";
  if (!StandsIn(own.ages(), whole.ages(), part)) return "ages";
  if (!StandsIn(own.shared_prefixes(), whole.shared_prefixes(), part)) return "shared_prefixes";
  if (!StandsIn(own.kinds(), whole.kinds(), part)) return "kinds";
  for (const v1::Load& load : own.loads()) {
    if (!LoadStandsIn(load, whole, part)) return absl::StrCat("loads of ", load.name());
  }
  for (const v1::LoadItems& items : own.items()) {
    if (!ItemsStandIn(items, whole, part)) return absl::StrCat("items of ", items.load());
  }
  return "";
}

}  // namespace

absl::StatusOr<v1::PlanBatchRequest> WholeRequest(const v1::JoinBatchRequest& own,
                                                  const v1::JoinBatchResponse& answer) {
  if (!answer.has_request()) {
    return absl::InvalidArgumentError("the answer has no request, which return_request asked for");
  }
  const v1::Manifest& manifest = answer.request().manifest();
  const auto& offsets = answer.worker_offsets();
  const auto sequences = static_cast<uint32_t>(manifest.lengths_size());
  if (offsets.size() <= static_cast<int64_t>(own.worker()) + 1 ||
      !std::ranges::is_sorted(offsets) || *offsets.begin() != 0 || *offsets.rbegin() != sequences) {
    return absl::InvalidArgumentError(
        absl::StrCat("the answer's worker_offsets are not those of worker ", own.worker(),
                     " and of ", sequences, " sequences"));
  }
  const auto worker = static_cast<int>(own.worker());
  const OwnPart part = {.begin = offsets[worker], .end = offsets[worker + 1]};
  if (const std::string differing = WhatDiffers(own.request().manifest(), manifest, part);
      !differing.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("the request that was planned has other ",
                                                   differing, " than worker ", worker, " sent"));
  }
  // What all workers agree on is this one's word.
  v1::PlanBatchRequest whole = own.request();
  *whole.mutable_manifest() = manifest;
  whole.mutable_manifest()->set_pad_to(own.request().manifest().pad_to());
  return whole;
}

}  // namespace batchplan::cli
