#include "client/cli/plan_csv.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/cli/microbatches.h"

namespace batchplan::cli {
namespace {

using MicrobatchFunction = std::function<void(int pass, const v1::PassPlan&, const Microbatch&)>;

absl::Status ForEachMicrobatch(const PlanOptions& options, const v1::PlanBatchResponse& response,
                               const MicrobatchFunction& visit) {
  if (static_cast<size_t>(response.passes_size()) != options.passes.size()) {
    return absl::InvalidArgumentError(absl::StrCat("the plan has ", response.passes_size(),
                                                   " passes, the request ", options.passes.size()));
  }
  for (int pass = 0; pass < response.passes_size(); ++pass) {
    const v1::PassPlan& plan = response.passes(pass);
    absl::StatusOr<std::vector<Microbatch>> microbatches =
        ListMicrobatches(plan, options.passes[pass].layout, options.topology.data_parallel);
    if (!microbatches.ok()) return microbatches.status();
    for (const Microbatch& microbatch : *microbatches) visit(pass, plan, microbatch);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> FormatMicrobatchesCsv(const PlanOptions& options,
                                                  const v1::PlanBatchResponse& response) {
  std::string csv =
      "pass,mini_batch,rank,slot,sequences,true_tokens,aligned_tokens,scheduled_tokens,row_width\n";
  const absl::Status visited = ForEachMicrobatch(
      options, response, [&csv](int pass, const v1::PassPlan&, const Microbatch& microbatch) {
        absl::StrAppend(&csv, pass, ",", microbatch.mini_batch, ",", microbatch.rank, ",");
        absl::StrAppend(&csv, microbatch.slot, ",", microbatch.sequences(), ",",
                        microbatch.true_tokens, ",");
        absl::StrAppend(&csv, microbatch.aligned_tokens, ",", microbatch.scheduled_tokens, ",",
                        microbatch.row_width, "\n");
      });
  if (!visited.ok()) return visited;
  return csv;
}

absl::StatusOr<std::string> FormatSequencesCsv(const PlanOptions& options,
                                               const v1::PlanBatchResponse& response) {
  std::string csv = "pass,mini_batch,rank,slot,sequence,length,aligned_length\n";
  const absl::Status visited = ForEachMicrobatch(
      options, response, [&csv](int pass, const v1::PassPlan& plan, const Microbatch& microbatch) {
        const std::string place = absl::StrCat(pass, ",", microbatch.mini_batch, ",",
                                               microbatch.rank, ",", microbatch.slot);
        for (uint32_t i = microbatch.begin; i < microbatch.end; ++i) {
          const uint32_t length = plan.sequence_lengths(static_cast<int>(i));
          absl::StrAppend(&csv, place, ",", plan.sequence_index(static_cast<int>(i)), ",", length);
          absl::StrAppend(&csv, ",", Align(length, plan.length_multiple()), "\n");
        }
      });
  if (!visited.ok()) return visited;
  return csv;
}

}  // namespace batchplan::cli
