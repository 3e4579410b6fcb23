// The HTML page built into the program, complete but for its data: see server/pages/plan_page.h.

#ifndef BATCHPLAN_CLIENT_CLI_PAGES_PAGES_H_
#define BATCHPLAN_CLIENT_CLI_PAGES_PAGES_H_

#include "absl/strings/string_view.h"

namespace batchplan::cli {

// Wants "rows", "request" and "response": see comparison_page.cc.
absl::string_view ComparisonPage();

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_PAGES_PAGES_H_
