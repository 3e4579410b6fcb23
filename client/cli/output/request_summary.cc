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
  for (const uint32_t length : manifest.lengths()) {
    tokens += length;
    longest = std::max(longest, length);
  }
  return absl::StrCat(Count(manifest.lengths_size(), "sequence"), ", ", Count(tokens, "token"),
                      ", the longest ", WithThousands(longest));
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
  return line;
}

std::string PresetLine(const v1::PlanBatchRequest& request) {
  return request.preset().empty() ? "balanced (the default)" : absl::CEscape(request.preset());
}

std::string SynchronizationName(const v1::PlanBatchRequest& request) {
  const bool accumulated = request.synchronization() == v1::SYNCHRONIZATION_UNSPECIFIED
                               ? request.topology().pipeline_parallel() > 1
                               : request.synchronization() == v1::SYNCHRONIZATION_ACCUMULATED;
  return accumulated ? "accumulated" : "lockstep";
}

}  // namespace batchplan::cli
