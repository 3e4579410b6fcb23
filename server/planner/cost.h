// Predicted compute, as integers: equal on every machine, and safe to add up.

#ifndef BATCHPLAN_SERVER_PLANNER_COST_H_
#define BATCHPLAN_SERVER_PLANNER_COST_H_

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "server/planner/options.h"

namespace batchplan {

// A cost in the scaled units of one CostFunction.
using Cost = uint64_t;

// The cost model of one pass, its coefficients scaled by a power of two so that the cost of the
// whole pass, whatever the plan, stays below 2^62. Costs then are added and compared exactly, and
// ToUnits() brings them back to the model's units for the metrics.
class CostFunction {
 public:
  // For sequences of these aligned lengths, in at most that many micro-batches, with at most
  // `tail_tokens` of padding rows between them. InvalidArgument if the total is not finite.
  static absl::StatusOr<CostFunction> Create(const CostModel& model,
                                             std::span<const uint32_t> aligned_lengths,
                                             uint64_t microbatches, uint64_t tail_tokens);

  // A sequence of `length` aligned tokens. Monotone in the length.
  Cost OfSequence(uint64_t length) const;
  // The tail padding of rows.
  Cost OfTail(uint64_t tokens) const;
  // The fixed cost of one micro-batch.
  Cost OfMicrobatch() const { return per_microbatch_; }

  // In the units of the model.
  double ToUnits(Cost cost) const;

 private:
  // mantissa * 2^exponent, exactly one coefficient, scaled.
  struct Coefficient {
    uint64_t mantissa = 0;
    int exponent = 0;
  };

  CostFunction(const CostModel& model, int scale);
  static Coefficient Scaled(double value, int scale);

  int scale_;
  Coefficient per_token_;
  Coefficient per_token_squared_;
  Cost per_microbatch_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_COST_H_
