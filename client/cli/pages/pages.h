// The HTML pages built into the program, each complete but for its data: see page.h.

#ifndef BATCHPLAN_CLIENT_CLI_PAGES_PAGES_H_
#define BATCHPLAN_CLIENT_CLI_PAGES_PAGES_H_

#include "absl/strings/string_view.h"

namespace batchplan::cli {

// Wants "request", "response" and "origin": see plan_page.cc.
absl::string_view PlanPage();

// Wants "rows", "request" and "response": see comparison_page.cc.
absl::string_view ComparisonPage();

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_PAGES_PAGES_H_
