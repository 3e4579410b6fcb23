#include "client/cli/output/request_summary.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/output/table.h"

namespace batchplan::cli {

std::string Count(uint64_t number, const std::string& noun) {
  return absl::StrCat(WithThousands(number), " ", noun, number == 1 ? "" : "s");
}

std::string BatchLine(const v1::Manifest& manifest) {
  uint64_t tokens = 0;
  uint32_t longest = 0;
  uint64_t unknown = 0;
  for (const uint32_t length : manifest.lengths()) {
    tokens += length;
    longest = std::max(longest, length);
    if (length == 0) ++unknown;
  }
  const std::string others =
      unknown == 0 ? "" : absl::StrCat(", without ", WithThousands(unknown), " that wait");
  return absl::StrCat(Count(manifest.lengths_size(), "sequence"), ", ", Count(tokens, "token"),
                      others, ", the longest ", WithThousands(longest));
}

std::string TopologyLine(const v1::Topology& topology) {
  std::vector<std::string> parts = {
      absl::StrCat("DP ", std::max<uint32_t>(1, topology.data_parallel()))};
  const std::pair<const char*, uint32_t> others[] = {{"CP", topology.context_parallel()},
                                                     {"TP", topology.tensor_parallel()},
                                                     {"PP", topology.pipeline_parallel()},
                                                     {"VPP", topology.virtual_pipeline()}};
  for (const auto& [name, size] : others) {
    if (size > 1) parts.push_back(absl::StrCat(name, " ", size));
  }
  std::string line = absl::StrJoin(parts, " x ");
  if (topology.sequence_parallel()) absl::StrAppend(&line, ", sequence parallel");
  if (topology.has_dynamic_context()) {
    const uint32_t pool = std::max<uint32_t>(1, topology.data_parallel()) *
                          std::max<uint32_t>(1, topology.context_parallel());
    const uint32_t least = std::max<uint32_t>(1, topology.dynamic_context().min_size());
    const uint32_t most = topology.dynamic_context().max_size();
    absl::StrAppend(&line, ", a pool of ", Count(pool, "rank"), " in groups of ");
    // If min_size does not divide the pool, the only group is the whole pool.
    if (pool % least == 0) absl::StrAppend(&line, least, " to ");
    absl::StrAppend(&line, most == 0 ? pool : most);
  }
  return line;
}

std::string BudgetLine(uint32_t max_tokens, uint32_t ranks) {
  const std::string tokens = Count(max_tokens, "token");
  if (ranks == 0) return absl::StrCat(tokens, " a micro-batch");
  if (ranks == 1) return absl::StrCat(tokens, " for each rank of a group");
  return absl::StrCat(tokens, " for every ", ranks, " ranks of a group");
}

std::string PresetLine(const v1::PlanBatchRequest& request) {
  return request.preset().empty() ? "balanced (the default)" : absl::CEscape(request.preset());
}

std::string ExchangeLine(const v1::CostModel& costs) {
  if (costs.exchange().empty()) return "none";
  std::vector<std::string> parts;
  for (const v1::Exchange& entry : costs.exchange()) {
    const bool first = parts.empty();
    parts.push_back(absl::StrCat(entry.per_token(), first ? " a token" : "",
                                 entry.up_to_size() > 0
                                     ? absl::StrCat(" in groups of up to ", entry.up_to_size())
                                     : (first ? " in all groups" : " in larger ones")));
  }
  if (costs.exchange_overlaps()) parts.push_back("behind attention");
  return absl::StrJoin(parts, ", ");
}

std::string SynchronizationName(const v1::PlanBatchRequest& request) {
  const bool accumulated = request.synchronization() == v1::SYNCHRONIZATION_UNSPECIFIED
                               ? request.topology().pipeline_parallel() > 1
                               : request.synchronization() == v1::SYNCHRONIZATION_ACCUMULATED;
  return accumulated ? "accumulated" : "lockstep";
}

}  // namespace batchplan::cli
