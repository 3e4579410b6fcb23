#include "server/checker/sequence_cost.h"

#include <algorithm>

namespace batchplan::checker {
namespace {

// What each of `ranks` ranks spends on exchanging keys and values.
double ExchangeCost(const CostModel& model, double length, double shared, double ranks) {
  double per_token = 0;
  // Entries ascend by size, so that the last match from the back is the tightest.
  for (auto entry = model.exchange.rbegin(); entry != model.exchange.rend(); ++entry) {
    if (entry->up_to_size != 0 && entry->up_to_size < ranks) break;
    per_token = entry->per_token;
  }
  const double own = length - shared;
  const double exchange = per_token * (own - own / ranks);
  if (!model.exchange_overlaps) return exchange;
  return std::max(0.0, exchange - SharedCost(model, 0, own * (length + shared), ranks));
}

}  // namespace

double SharedCost(const CostModel& model, double linear, double squared, double ranks) {
  return (model.per_token * linear + model.per_token_squared * squared) / ranks;
}

double ComputationCost(const CostModel& model, double length, double ranks) {
  return SharedCost(model, length, length * length, ranks) + model.per_sequence;
}

double SequenceCost(const CostModel& model, double length, double shared, double ranks) {
  return SharedCost(model, length - shared, (length - shared) * (length + shared), ranks) +
         model.per_sequence + ExchangeCost(model, length, shared, ranks);
}

}  // namespace batchplan::checker
