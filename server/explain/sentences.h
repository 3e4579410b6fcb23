// An explanation in English.

#ifndef BATCHPLAN_SERVER_EXPLAIN_SENTENCES_H_
#define BATCHPLAN_SERVER_EXPLAIN_SENTENCES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "server/explain/explanation.h"
#include "server/planner/plan.h"
#include "server/planner/request/manifest.h"
#include "server/planner/request/options.h"

namespace batchplan::explain {

// What an explanation is of.
struct Circumstances {
  const Manifest& manifest;
  const PlanOptions& options;
  const PassOptions& pass;
  const PassPlan& plan;
  // The position of the sequence that takes longest by itself.
  uint32_t longest = 0;
};

// First how long ranks wait, or that they hardly do; then the causes of a tenth of a percent of the
// step or more, at most four; last what a better plan may gain.
std::vector<std::string> SentencesOf(const Explanation& explanation, const Circumstances& own);

}  // namespace batchplan::explain

#endif  // BATCHPLAN_SERVER_EXPLAIN_SENTENCES_H_
