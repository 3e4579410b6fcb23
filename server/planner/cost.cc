#include "server/planner/cost.h"

#include <cmath>

#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace batchplan {
namespace {

constexpr int kMantissaBits = 53;
// One bit below the promised 2^62, for the rounding of the estimate that the scale comes from.
constexpr int kTotalBits = 61;

double ToDouble(absl::uint128 value) {
  return std::ldexp(static_cast<double>(absl::Uint128High64(value)), 64) +
         static_cast<double>(absl::Uint128Low64(value));
}

}  // namespace

absl::StatusOr<CostFunction> CostFunction::Create(const CostModel& model,
                                                  std::span<const uint32_t> aligned_lengths,
                                                  uint64_t microbatches, uint64_t tail_tokens,
                                                  double waiting) {
  uint64_t tokens = tail_tokens;
  absl::uint128 squares = 0;
  for (const uint64_t length : aligned_lengths) {
    tokens += length;
    squares += length * length;
  }
  const double total = model.per_token * static_cast<double>(tokens) +
                       model.per_token_squared * ToDouble(squares) +
                       model.per_sequence * static_cast<double>(aligned_lengths.size()) +
                       model.per_microbatch * static_cast<double>(microbatches);
  if (!std::isfinite(total)) {
    return absl::InvalidArgumentError(
        "cost_model: the cost of the whole batch overflows a double; lower the coefficients");
  }
  if (!(waiting <= kMostWaiting * total)) {
    return absl::InvalidArgumentError(
        absl::StrCat("pipeline.transfer: what micro-batches wait to arrive, ", waiting,
                     ", is above the limit of ", kMostWaiting,
                     " times what the whole batch costs, ", total, "; lower it"));
  }
  int exponent = 0;  // all < 2^exponent
  std::frexp(total + waiting, &exponent);
  return CostFunction(model, kTotalBits - exponent);
}

CostFunction::CostFunction(const CostModel& model, int scale)
    : scale_(scale),
      per_token_(Scaled(model.per_token, scale)),
      per_token_squared_(Scaled(model.per_token_squared, scale)) {
  const Coefficient per_sequence = Scaled(model.per_sequence, scale);
  per_sequence_ = ShiftedBy(per_sequence.mantissa, per_sequence.exponent);
  const Coefficient per_microbatch = Scaled(model.per_microbatch, scale);
  per_microbatch_ = ShiftedBy(per_microbatch.mantissa, per_microbatch.exponent);
}

CostFunction::Coefficient CostFunction::Scaled(double value, int scale) {
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);
  return {.mantissa = static_cast<uint64_t>(std::ldexp(fraction, kMantissaBits)),
          .exponent = exponent - kMantissaBits + scale};
}

double CostFunction::ToUnits(double cost) const { return std::ldexp(cost, -scale_); }

double CostFunction::FromUnits(double units) const { return std::ldexp(units, scale_); }

absl::StatusOr<CostModel> CostModelOf(const ModelShape& shape) {
  const struct {
    absl::string_view name;
    uint32_t value;
  } needed[] = {{"layers", shape.layers},
                {"hidden_size", shape.hidden_size},
                {"attention_heads", shape.attention_heads}};
  for (const auto& [name, value] : needed) {
    if (value == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("cost_model.shape.", name, " is 0; it must be at least 1"));
    }
  }
  const uint32_t kv_heads = shape.kv_heads == 0 ? shape.attention_heads : shape.kv_heads;
  if (shape.attention_heads % kv_heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat("cost_model.shape.kv_heads is ", kv_heads,
                                                   ", which does not divide attention_heads ",
                                                   shape.attention_heads));
  }
  constexpr double kUnit = 1e-9;
  const double layers = shape.layers;
  const double hidden = shape.hidden_size;
  const double kv_part = static_cast<double>(kv_heads) / shape.attention_heads;
  const double projections = 4 * hidden * hidden * (1 + kv_part);
  const double mlp = 6 * hidden * shape.ffn_hidden_size;
  const double logits = 2 * hidden * shape.vocabulary_size;
  return CostModel{.per_token = kUnit * (layers * (projections + mlp) + logits),
                   .per_token_squared = kUnit * layers * hidden * (shape.causal ? 2 : 4),
                   .per_microbatch = 0};
}

}  // namespace batchplan
