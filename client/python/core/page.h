// A plan as a page for the browser.

#ifndef BATCHPLAN_CLIENT_PYTHON_CORE_PAGE_H_
#define BATCHPLAN_CLIENT_PYTHON_CORE_PAGE_H_

#include <string>

namespace batchplan::python {

// One HTML file that needs nothing else: see server/pages/plan_page.h. Both messages as protobuf's
// JSON, the request without its manifest; `response` is a whole plan for it, made `where`. Throws
// StatusError.
std::string FormatPlanPage(const std::string& request_json, const std::string& response_json,
                           const std::string& where);

}  // namespace batchplan::python

#endif  // BATCHPLAN_CLIENT_PYTHON_CORE_PAGE_H_
