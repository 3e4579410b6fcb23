// The outcome of a step, which is written into the store once: which plan, or why there is none.
//
//   const std::string bytes = EncodeOutcome(mine);
//   std::optional<Outcome> stands = DecodeOutcome(*store.PutOutcome(key, bytes));
//
// Not the plan, which every replica can make from the parts: only what is needed to make, and
// recognise, the same plan.

#ifndef BATCHPLAN_SERVER_RENDEZVOUS_OUTCOME_H_
#define BATCHPLAN_SERVER_RENDEZVOUS_OUTCOME_H_

#include <optional>
#include <string>

#include "batchplan/v1/batch_planner.pb.h"

namespace batchplan {

struct Outcome {
  // The version of its writer.
  std::string planner_version;
  // Empty if the request can't be planned.
  std::string fingerprint;
  // The coefficients used for CostModel.fitted, if the request asks for them.
  std::optional<v1::CostModel> fitted_costs;
  // Why the request can't be planned.
  std::string invalid_argument;

  bool is_plan() const { return !fingerprint.empty(); }
};

std::string EncodeOutcome(const Outcome& outcome);

// None if this version does not know such an outcome.
std::optional<Outcome> DecodeOutcome(const std::string& bytes);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_RENDEZVOUS_OUTCOME_H_
