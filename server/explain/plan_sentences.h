// What can be said about a plan in words: why its ranks wait, and what a selection leaves waiting.

#ifndef BATCHPLAN_SERVER_EXPLAIN_PLAN_SENTENCES_H_
#define BATCHPLAN_SERVER_EXPLAIN_PLAN_SENTENCES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/planner/plan.h"
#include "server/planner/request/manifest.h"
#include "server/planner/request/options.h"

namespace batchplan {

struct PlanSentences {
  // Of each pass, Explanation.sentences.
  std::vector<std::vector<std::string>> waiting;
  // Deferral.sentences.
  std::vector<std::string> deferral;
};

// Errors as by Explain.
absl::StatusOr<PlanSentences> SentencesOfPlan(const Manifest& manifest, const PlanOptions& options,
                                              const Plan& plan);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_EXPLAIN_PLAN_SENTENCES_H_
