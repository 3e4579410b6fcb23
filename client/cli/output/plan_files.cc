#include "client/cli/output/plan_files.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/cli/output/microbatches.h"
#include "server/pages/plan_page.h"

namespace batchplan::cli {
namespace {

using MicrobatchFunction = std::function<void(int pass, const v1::PassPlan&, const Microbatch&)>;

absl::Status ForEachMicrobatch(const PlanOptions& options, const v1::PlanBatchResponse& response,
                               const MicrobatchFunction& visit) {
  const absl::StatusOr<std::vector<std::vector<Microbatch>>> passes = ListPasses(options, response);
  if (!passes.ok()) return passes.status();
  for (int pass = 0; pass < response.passes_size(); ++pass) {
    for (const Microbatch& microbatch : (*passes)[pass]) {
      visit(pass, response.passes(pass), microbatch);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> FormatMicrobatchesCsv(const PlanOptions& options,
                                                  const v1::PlanBatchResponse& response) {
  // Only groups that differ in size need a column for it.
  const bool sizes = options.topology.dynamic_context.has_value();
  std::string csv = absl::StrCat(
      "pass,mini_batch,rank,slot,sequences,true_tokens,aligned_tokens,scheduled_tokens,row_width",
      sizes ? ",context_parallel\n" : "\n");
  const absl::Status visited = ForEachMicrobatch(
      options, response, [&](int pass, const v1::PassPlan&, const Microbatch& microbatch) {
        absl::StrAppend(&csv, pass, ",", microbatch.mini_batch, ",", microbatch.rank, ",");
        absl::StrAppend(&csv, microbatch.slot, ",", microbatch.sequences(), ",",
                        microbatch.true_tokens, ",");
        absl::StrAppend(&csv, microbatch.aligned_tokens, ",", microbatch.scheduled_tokens, ",",
                        microbatch.row_width);
        if (sizes) absl::StrAppend(&csv, ",", microbatch.context_parallel);
        absl::StrAppend(&csv, "\n");
      });
  if (!visited.ok()) return visited;
  return csv;
}

absl::StatusOr<std::string> FormatSequencesCsv(const PlanOptions& options,
                                               const v1::PlanBatchResponse& response) {
  const bool sizes = options.topology.dynamic_context.has_value();
  const bool shares = std::ranges::any_of(
      response.passes(), [](const v1::PassPlan& pass) { return pass.shared_tokens_size() > 0; });
  std::string csv =
      absl::StrCat("pass,mini_batch,rank,slot,sequence,length,aligned_length",
                   sizes ? ",context_parallel" : "", shares ? ",shared_tokens\n" : "\n");
  const absl::Status visited = ForEachMicrobatch(
      options, response, [&](int pass, const v1::PassPlan& plan, const Microbatch& microbatch) {
        const std::string place = absl::StrCat(pass, ",", microbatch.mini_batch, ",",
                                               microbatch.rank, ",", microbatch.slot);
        for (uint32_t i = microbatch.begin; i < microbatch.end; ++i) {
          const uint32_t length = plan.sequence_lengths(static_cast<int>(i));
          absl::StrAppend(&csv, place, ",", plan.sequence_index(static_cast<int>(i)), ",", length);
          const bool shared = plan.shared_tokens_size() > 0;
          absl::StrAppend(&csv, ",", shared ? length : Align(length, microbatch.length_multiple));
          if (sizes) absl::StrAppend(&csv, ",", microbatch.context_parallel);
          if (shares) {
            absl::StrAppend(&csv, ",", shared ? plan.shared_tokens(static_cast<int>(i)) : 0);
          }
          absl::StrAppend(&csv, "\n");
        }
      });
  if (!visited.ok()) return visited;
  return csv;
}

absl::StatusOr<std::string> FormatPlanPage(const v1::PlanBatchRequest& request,
                                           const PlanOptions& options,
                                           const v1::PlanBatchResponse& response,
                                           const PlanOrigin& origin,
                                           const absl::StatusOr<PlanSentences>& sentences) {
  // The page's script trusts the arrays that it is given.
  if (absl::Status fits = ListPasses(options, response).status(); !fits.ok()) return fits;
  return PlanPage(request, options, response, origin, sentences.value_or(PlanSentences()));
}

}  // namespace batchplan::cli
