// Self-contained HTML pages about plans: style, script and data in one file; and the page of one
// plan, which shows ranks over time with the figures beside it.
//
//   absl::StatusOr<std::string> html =
//       PlanPage(request, options, response, {.where = "in process"}, sentences);
//
// A page is a template with one marked place for its data, which is JSON; the page's script reads
// it and draws.

#ifndef BATCHPLAN_SERVER_PAGES_PLAN_PAGE_H_
#define BATCHPLAN_SERVER_PAGES_PLAN_PAGE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "server/explain/plan_sentences.h"
#include "server/planner/request/options.h"

namespace batchplan {

// A JSON value, and the element id under which the page's script looks for it.
struct PageData {
  std::string id;
  std::string json;
};

// `page` with `data` in its marked place. Strings in the JSON stay data: no text in them ends their
// element or begins another.
std::string FillPage(absl::string_view page, const std::vector<PageData>& data);

struct PlanOrigin {
  // "in process", or the server's address.
  std::string where;
  // The plan checker has proved it.
  bool verified = false;
};

// The request without its manifest, whose lengths the plan has too, but with the defaults and
// presets that a page's script depends on: topology, pipeline, synchronization, and the layout of
// each pass. `options` are the request's, complete.
v1::PlanBatchRequest ShownRequest(const v1::PlanBatchRequest& request, const PlanOptions& options);

// The data from which the pages' scripts (plan_view.js and others) draw a plan: its "request",
// "response", "origin" and "sentences", about 12 bytes a sequence. The scripts trust their arrays:
// the response must be a plan for the request. Internal if a message can't be written as JSON, as
// only an invalid one can't.
absl::StatusOr<std::vector<PageData>> PlanData(const v1::PlanBatchRequest& request,
                                               const PlanOptions& options,
                                               const v1::PlanBatchResponse& response,
                                               const PlanOrigin& origin,
                                               const PlanSentences& sentences);

// The page of one plan, complete but for its data.
absl::string_view PlanPageTemplate();

// The page as one self-contained HTML file, about 12 bytes a sequence. Arguments as for PlanData.
absl::StatusOr<std::string> PlanPage(const v1::PlanBatchRequest& request,
                                     const PlanOptions& options,
                                     const v1::PlanBatchResponse& response,
                                     const PlanOrigin& origin, const PlanSentences& sentences);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PAGES_PLAN_PAGE_H_
