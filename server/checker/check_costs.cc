#include "server/checker/check_costs.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/checker/violation.h"

namespace batchplan::checker {
namespace {

// For example "8:0.02 0:0.065 overlaps".
std::string ExchangeText(const CostModel& model) {
  std::string text;
  for (const ContextExchange& exchange : model.exchange) {
    absl::StrAppend(&text, text.empty() ? "" : " ", exchange.up_to_size, ":", exchange.per_token);
  }
  if (text.empty()) text = "none";
  if (model.exchange_overlaps) absl::StrAppend(&text, " overlaps");
  return text;
}

// For example "patches:0.5 dealt logits:2".
std::string LoadsText(const CostModel& model) {
  std::string text;
  for (const LoadCost& load : model.loads) {
    absl::StrAppend(&text, text.empty() ? "" : " ", load.load, ":", load.per_unit,
                    load.separate ? " separate" : "", load.dealt ? " dealt" : "");
  }
  return text.empty() ? "none" : text;
}

bool IsCoefficient(double value) { return std::isfinite(value) && value >= 0; }

}  // namespace

absl::Status CheckCostModel(const CostModel& requested, const CostModel& used) {
  for (double coefficient :
       {used.per_token, used.per_token_squared, used.per_microbatch, used.per_sequence}) {
    if (!IsCoefficient(coefficient)) {
      return Violation("cost_model_used has the coefficient ", coefficient);
    }
  }
  for (const ContextExchange& exchange : used.exchange) {
    if (!IsCoefficient(exchange.per_token)) {
      return Violation("cost_model_used.exchange has the coefficient ", exchange.per_token);
    }
  }
  for (const LoadCost& load : used.loads) {
    if (!IsCoefficient(load.per_unit)) {
      return Violation("cost_model_used.loads has the coefficient ", load.per_unit);
    }
  }
  if (used.per_token == 0 && used.per_token_squared == 0 && used.per_microbatch == 0 &&
      used.per_sequence == 0 &&
      std::ranges::all_of(used.loads, [](const LoadCost& load) { return load.per_unit == 0; })) {
    return Violation("cost_model_used has only coefficients of 0");
  }
  if (used.per_token != requested.per_token ||
      used.per_token_squared != requested.per_token_squared ||
      used.per_microbatch != requested.per_microbatch ||
      used.per_sequence != requested.per_sequence) {
    return Violation("cost_model_used is ", used.per_token, ", ", used.per_token_squared, ", ",
                     used.per_microbatch, ", ", used.per_sequence, ", but the request says ",
                     requested.per_token, ", ", requested.per_token_squared, ", ",
                     requested.per_microbatch, ", ", requested.per_sequence);
  }
  if (used.exchange != requested.exchange ||
      used.exchange_overlaps != requested.exchange_overlaps) {
    return Violation("cost_model_used.exchange is ", ExchangeText(used), ", but the request says ",
                     ExchangeText(requested));
  }
  if (used.loads != requested.loads) {
    return Violation("cost_model_used.loads is ", LoadsText(used), ", but the request says ",
                     LoadsText(requested));
  }
  return absl::OkStatus();
}

}  // namespace batchplan::checker
