#include "server/pages/plan_page.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "proto/batchplan/v1/json.h"
#include "server/planner/time/schedule.h"

namespace batchplan {
namespace {

constexpr absl::string_view kMark = "<!-- DATA -->\n";

// Calls `use(name, values)` for each array of a pass, `name` as in JSON, in the order of protobuf's
// JSON.
template <typename Use>
void ForEachArray(const v1::PassPlan& pass, const Use& use) {
  use("sequenceIndex", pass.sequence_index());
  use("microbatchOffsets", pass.microbatch_offsets());
  use("microbatchesPerRank", pass.microbatches_per_rank());
  use("rowWidths", pass.row_widths());
  use("sequenceLengths", pass.sequence_lengths());
  use("contextSizes", pass.context_sizes());
  use("sharedTokens", pass.shared_tokens());
}

// As ToCompleteJson writes it, without the ranks of items. That takes hundreds of bytes of memory
// for a number of an array, so that the arrays are put into what it writes without them.
absl::StatusOr<std::string> ResponseJson(const v1::PlanBatchResponse& response) {
  v1::PlanBatchResponse rest = response;
  for (v1::PassPlan& pass : *rest.mutable_passes()) {
    pass.clear_sequence_index();
    pass.clear_microbatch_offsets();
    pass.clear_microbatches_per_rank();
    pass.clear_row_widths();
    pass.clear_sequence_lengths();
    pass.clear_context_sizes();
    pass.clear_shared_tokens();
    pass.clear_item_ranks();
  }
  const absl::StatusOr<std::string> json = ToCompleteJson(rest);
  if (!json.ok()) return json.status();
  std::string whole;
  size_t copied = 0;
  for (const v1::PassPlan& pass : response.passes()) {
    ForEachArray(pass, [&](absl::string_view name, const auto& values) {
      // Quotes in a string are escaped: no string looks like this.
      const std::string empty = absl::StrCat("\"", name, "\":[");
      const size_t place = json->find(empty, copied) + empty.size();
      whole.append(*json, copied, place - copied);
      absl::StrAppend(&whole, absl::StrJoin(values, ","));
      copied = place;
    });
  }
  whole.append(*json, copied);
  return whole;
}

// What the request's pipeline is, or leaves to defaults.
void ShowPipeline(const PlanOptions& options, v1::Pipeline* shown) {
  const Pipeline pipeline = PipelineOf(options.topology, options.pipeline, /*forward_only=*/false);
  if (pipeline.interleaved) shown->set_group_size(pipeline.group_size);
  shown->set_backward_ratio(pipeline.backward_ratio);
  shown->clear_stage_shares();
  shown->mutable_stage_shares()->Add(pipeline.shares.begin(), pipeline.shares.end());
}

std::string OriginJson(const PlanOrigin& origin) {
  return absl::StrCat("{\"where\":", JsonString(origin.where),
                      ",\"verified\":", origin.verified ? "true" : "false", "}");
}

std::string ArrayJson(const std::vector<std::string>& sentences) {
  const std::string list =
      absl::StrJoin(sentences, ",", [](std::string* out, const std::string& sentence) {
        absl::StrAppend(out, JsonString(sentence));
      });
  return absl::StrCat("[", list, "]");
}

std::string SentencesJson(const PlanSentences& sentences) {
  const std::string passes = absl::StrJoin(
      sentences.waiting, ",", [](std::string* out, const std::vector<std::string>& pass) {
        absl::StrAppend(out, ArrayJson(pass));
      });
  return absl::StrCat("{\"waiting\":[", passes, "],\"deferral\":", ArrayJson(sentences.deferral),
                      "}");
}

}  // namespace

std::string FillPage(absl::string_view page, const std::vector<PageData>& data) {
  const size_t mark = page.find(kMark);
  std::string filled(page.substr(0, mark));
  for (const PageData& item : data) {
    // In JSON, these characters occur in strings only, where an escape means the same.
    absl::StrAppend(&filled, "<script type=\"application/json\" id=\"", item.id, "\">",
                    absl::StrReplaceAll(item.json, {{"<", "\\u003c"}, {">", "\\u003e"}}),
                    "</script>\n");
  }
  if (mark != absl::string_view::npos) {
    absl::StrAppend(&filled, page.substr(mark + kMark.size()));
  }
  return filled;
}

v1::PlanBatchRequest ShownRequest(const v1::PlanBatchRequest& request, const PlanOptions& options) {
  v1::PlanBatchRequest shown = request;
  shown.clear_manifest();
  v1::Topology* topology = shown.mutable_topology();
  topology->set_data_parallel(options.topology.data_parallel);
  topology->set_context_parallel(options.topology.context_parallel);
  topology->set_tensor_parallel(options.topology.tensor_parallel);
  topology->set_pipeline_parallel(options.topology.pipeline_parallel);
  topology->set_virtual_pipeline(options.topology.virtual_pipeline);
  topology->set_sequence_parallel(options.topology.sequence_parallel);
  if (options.topology.pipeline_parallel > 1) ShowPipeline(options, shown.mutable_pipeline());
  shown.set_synchronization(options.synchronization == Synchronization::kLockstep
                                ? v1::SYNCHRONIZATION_LOCKSTEP
                                : v1::SYNCHRONIZATION_ACCUMULATED);
  for (int i = 0; i < shown.passes_size(); ++i) {
    v1::Pass* pass = shown.mutable_passes(i);
    if (options.passes[i].layout == Layout::kPadded) {
      pass->mutable_padded();
    } else {
      pass->mutable_packed();
    }
  }
  return shown;
}

absl::StatusOr<std::vector<PageData>> PlanData(const v1::PlanBatchRequest& request,
                                               const PlanOptions& options,
                                               const v1::PlanBatchResponse& response,
                                               const PlanOrigin& origin,
                                               const PlanSentences& sentences) {
  absl::StatusOr<std::string> request_json = ToCompleteJson(ShownRequest(request, options));
  if (!request_json.ok()) return request_json.status();
  absl::StatusOr<std::string> response_json = ResponseJson(response);
  if (!response_json.ok()) return response_json.status();
  return std::vector<PageData>{{"request", *std::move(request_json)},
                               {"response", *std::move(response_json)},
                               {"origin", OriginJson(origin)},
                               {"sentences", SentencesJson(sentences)}};
}

absl::StatusOr<std::string> PlanPage(const v1::PlanBatchRequest& request,
                                     const PlanOptions& options,
                                     const v1::PlanBatchResponse& response,
                                     const PlanOrigin& origin, const PlanSentences& sentences) {
  const absl::StatusOr<std::vector<PageData>> data =
      PlanData(request, options, response, origin, sentences);
  if (!data.ok()) return data.status();
  return FillPage(PlanPageTemplate(), *data);
}

}  // namespace batchplan
