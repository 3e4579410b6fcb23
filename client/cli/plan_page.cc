#include "client/cli/plan_page.h"

#include <google/protobuf/struct.pb.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/cli/json.h"
#include "client/cli/microbatches.h"
#include "client/cli/page.h"
#include "client/cli/pages/pages.h"
#include "client/cli/shown_request.h"

namespace batchplan::cli {
namespace {

// The page's script trusts the arrays that it is given.
absl::Status CheckArrays(const PlanOptions& options, const v1::PlanBatchResponse& response) {
  if (static_cast<size_t>(response.passes_size()) != options.passes.size()) {
    return absl::InvalidArgumentError(absl::StrCat("the plan has ", response.passes_size(),
                                                   " passes, the request ", options.passes.size()));
  }
  for (int i = 0; i < response.passes_size(); ++i) {
    absl::Status listed = ListMicrobatches(response.passes(i), options.passes[i].layout,
                                           options.topology.data_parallel)
                              .status();
    if (!listed.ok()) return listed;
  }
  return absl::OkStatus();
}

google::protobuf::Struct OriginStruct(const PlanOrigin& origin) {
  google::protobuf::Struct shown;
  (*shown.mutable_fields())["where"].set_string_value(origin.where);
  (*shown.mutable_fields())["verified"].set_bool_value(origin.verified);
  return shown;
}

}  // namespace

absl::StatusOr<std::string> FormatPlanPage(const v1::PlanBatchRequest& request,
                                           const PlanOptions& options,
                                           const v1::PlanBatchResponse& response,
                                           const PlanOrigin& origin) {
  if (absl::Status checked = CheckArrays(options, response); !checked.ok()) return checked;
  absl::StatusOr<std::string> request_json = ToCompleteJson(ShownRequest(request, options));
  if (!request_json.ok()) return request_json.status();
  absl::StatusOr<std::string> response_json = ToCompleteJson(response);
  if (!response_json.ok()) return response_json.status();
  absl::StatusOr<std::string> origin_json = ToCompleteJson(OriginStruct(origin));
  if (!origin_json.ok()) return origin_json.status();
  return FillPage(PlanPage(), {{"request", *std::move(request_json)},
                               {"response", *std::move(response_json)},
                               {"origin", *std::move(origin_json)}});
}

}  // namespace batchplan::cli
