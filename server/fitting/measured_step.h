// The time of a step, from a report of all of it.
//
//   absl::Status valid = report.Validate();
//   if (std::optional<MeasuredStep> step = MeasureStep(report)) ... step->milliseconds ...

#ifndef BATCHPLAN_SERVER_FITTING_MEASURED_STEP_H_
#define BATCHPLAN_SERVER_FITTING_MEASURED_STEP_H_

#include <optional>

#include "server/fitting/step_report.h"

namespace batchplan {

struct MeasuredStep {
  // In lockstep, the sum over slots of the slowest rank's time; accumulated, the sum over
  // mini-batches of the slowest rank's sum.
  double milliseconds = 0;
  // The part of that in which ranks waited for slower ones, averaged over ranks: 0 .. 1.
  double waited_share = 0;
  // As it was reported; 0: not known.
  double predicted_milliseconds = 0;
};

// None unless the report holds every rank and slot of a step: data_parallel is known, and for each
// mini-batch from 0 on each rank has the slots from 0 on, as many as the others, each once. Slots
// that are missing at the end of all ranks go unnoticed. None if only a part of the model was
// timed: a pipeline's step also has the time in which stages wait for each other.
//
// `report` is valid. Takes O(n log n) for n micro-batches.
std::optional<MeasuredStep> MeasureStep(const StepReport& report);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_FITTING_MEASURED_STEP_H_
