// What came of a step, as it is written once into the store: which plan, or why there is none.
//
//   const std::string bytes = EncodeOutcome(mine);
//   std::optional<Outcome> stands = DecodeOutcome(*store.PutOutcome(key, bytes));
//
// Not the plan itself, which every replica can make from the parts: only what it takes to make, and
// to know, the same one.

#ifndef BATCHPLAN_SERVER_RENDEZVOUS_OUTCOME_H_
#define BATCHPLAN_SERVER_RENDEZVOUS_OUTCOME_H_

#include <optional>
#include <string>

#include "batchplan/v1/batch_planner.pb.h"

namespace batchplan {

struct Outcome {
  // Of whoever wrote it.
  std::string planner_version;
  // Empty if the request can't be planned.
  std::string fingerprint;
  // The coefficients in the place of CostModel.fitted, if the request asks for these.
  std::optional<v1::CostModel> fitted_costs;
  // Why it can't.
  std::string invalid_argument;

  bool is_plan() const { return !fingerprint.empty(); }
};

std::string EncodeOutcome(const Outcome& outcome);

// None if the bytes are no outcome that this version knows.
std::optional<Outcome> DecodeOutcome(const std::string& bytes);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_RENDEZVOUS_OUTCOME_H_
