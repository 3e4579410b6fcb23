#include "server/rendezvous/outcome.h"

#include "server/rendezvous/step_record.pb.h"

namespace batchplan {

std::string EncodeOutcome(const Outcome& outcome) {
  rendezvous::OutcomeRecord record;
  record.set_planner_version(outcome.planner_version);
  if (outcome.is_plan()) {
    record.mutable_plan()->set_fingerprint(outcome.fingerprint);
    if (outcome.fitted_costs)
      *record.mutable_plan()->mutable_fitted_costs() = *outcome.fitted_costs;
  } else {
    record.set_invalid_argument(outcome.invalid_argument);
  }
  return record.SerializeAsString();
}

std::optional<Outcome> DecodeOutcome(const std::string& bytes) {
  rendezvous::OutcomeRecord record;
  if (!record.ParseFromString(bytes)) return std::nullopt;
  Outcome outcome;
  outcome.planner_version = record.planner_version();
  switch (record.result_case()) {
    case rendezvous::OutcomeRecord::kPlan:
      if (record.plan().fingerprint().empty()) return std::nullopt;
      outcome.fingerprint = record.plan().fingerprint();
      if (record.plan().has_fitted_costs()) outcome.fitted_costs = record.plan().fitted_costs();
      return outcome;
    case rendezvous::OutcomeRecord::kInvalidArgument:
      outcome.invalid_argument = record.invalid_argument();
      return outcome;
    case rendezvous::OutcomeRecord::RESULT_NOT_SET:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace batchplan
