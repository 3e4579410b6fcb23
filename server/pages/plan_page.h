// HTML pages about plans that stand alone: style, script and data in one file, nothing loaded from
// anywhere; and the one of them that shows a plan, the picture of ranks over time with the figures
// beside it.
//
//   absl::StatusOr<std::string> html =
//       PlanPage(request, options, response, {.where = "in process"}, sentences);
//
// A page is a template with one marked place. What differs between two pages of a kind is JSON,
// which goes there; the page's own script reads it and draws.

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

// `page` with `data` in its marked place. Whatever strings the JSON holds, they stay data: no text
// in them ends the element that they stand in, or begins another.
std::string FillPage(absl::string_view page, const std::vector<PageData>& data);

struct PlanOrigin {
  // "in process", or the server's address.
  std::string where;
  // The plan checker has proved it.
  bool verified = false;
};

// The request without its manifest, whose lengths the plan has too, and with what it left to
// defaults and preset where a page's script depends on it: topology, pipeline, synchronization, and
// which layout each pass has. `options` are the request's, complete.
v1::PlanBatchRequest ShownRequest(const v1::PlanBatchRequest& request, const PlanOptions& options);

// What the scripts of the pages draw a plan from (plan_view.js, and those that it needs): its
// "request", "response", "origin" and "sentences", about 12 bytes a sequence. The scripts trust the
// arrays that they are given: the response must be a plan for the request. Internal if a message
// can't be written as JSON, which a valid one can.
absl::StatusOr<std::vector<PageData>> PlanData(const v1::PlanBatchRequest& request,
                                               const PlanOptions& options,
                                               const v1::PlanBatchResponse& response,
                                               const PlanOrigin& origin,
                                               const PlanSentences& sentences);

// The page of one plan, complete but for its data.
absl::string_view PlanPageTemplate();

// One HTML file that needs nothing else, about 12 bytes a sequence. Arguments as for PlanData.
absl::StatusOr<std::string> PlanPage(const v1::PlanBatchRequest& request,
                                     const PlanOptions& options,
                                     const v1::PlanBatchResponse& response,
                                     const PlanOrigin& origin, const PlanSentences& sentences);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PAGES_PLAN_PAGE_H_
