#include "server/planner/request/cost.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

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

// The entry of model.exchange for groups of `ranks` ranks; its size if there is none.
size_t ExchangeEntry(const CostModel& model, uint32_t ranks) {
  const auto reaches = [ranks](const ContextExchange& exchange) {
    return exchange.up_to_size == 0 || ranks <= exchange.up_to_size;
  };
  return static_cast<size_t>(std::ranges::find_if(model.exchange, reaches) -
                             model.exchange.begin());
}

// The costs of one rank, in the units of the model.
struct RankCosts {
  double per_token = 0;
  double per_token_squared = 0;
  double exchange = 0;  // of a token
  // The ranks of the groups that exchange.
  uint32_t ranks = 1;
};

RankCosts RankCostsOf(const CostModel& model, uint32_t ranks) {
  return {.per_token = model.per_token / ranks,
          .per_token_squared = model.per_token_squared / ranks,
          .exchange = ExchangePerToken(model, ranks),
          .ranks = ranks};
}

// The most that a pass costs one rank.
struct MostCosts {
  double exchange = 0;
  double all_else = 0;
  // The ranks of the groups that exchange.
  uint32_t ranks = 1;
};

// An upper bound on the cost of these sequences in this many micro-batches with this much tail
// padding.
MostCosts MostOf(const CostModel& model, const RankCosts& costs, std::span<const uint32_t> lengths,
                 uint64_t microbatches, uint64_t tail_tokens) {
  uint64_t tokens = 0;
  absl::uint128 squares = 0;
  for (const uint64_t length : lengths) {
    tokens += length;
    squares += length * length;
  }
  return {.exchange = costs.exchange * static_cast<double>(tokens),
          .all_else = costs.per_token * static_cast<double>(tokens + tail_tokens) +
                      costs.per_token_squared * ToDouble(squares) +
                      model.per_sequence * static_cast<double>(lengths.size()) +
                      model.per_microbatch * static_cast<double>(microbatches),
          .ranks = costs.ranks};
}

// The power of two that scales `ranks` times the costs, and `ranks` times costs plus `waiting`, to
// below 2^62.
absl::StatusOr<int> ScaleOf(const MostCosts& costs, double waiting, double ranks) {
  const double total = costs.exchange + costs.all_else;
  if (!std::isfinite(total * ranks)) {
    return absl::InvalidArgumentError(
        "cost_model: the cost of the whole batch overflows a double; lower the coefficients");
  }
  if (!(waiting <= CostFunction::kMostWaiting * total)) {
    return absl::InvalidArgumentError(
        absl::StrCat("pipeline.transfer: what micro-batches wait to arrive, ", waiting,
                     ", is above the limit of ", CostFunction::kMostWaiting,
                     " times what the whole batch costs, ", total, "; lower it"));
  }
  int exponent = 0;  // all < 2^exponent
  std::frexp((total + waiting) * ranks, &exponent);
  return kTotalBits - exponent;
}

absl::Status CheckExchangeFigures(const ModelShape& shape) {
  const struct {
    absl::string_view name;
    double value;
  } figures[] = {{"flops_per_second", shape.flops_per_second},
                 {"node_bytes_per_second", shape.node_bytes_per_second},
                 {"network_bytes_per_second", shape.network_bytes_per_second}};
  for (const auto& [name, value] : figures) {
    if (!(value == 0 || (value >= kMinCoefficient && value <= kMaxCoefficient))) {
      return absl::InvalidArgumentError(absl::StrCat("cost_model.shape.", name, " is ", value,
                                                     "; it must be 0, or between ", kMinCoefficient,
                                                     " and ", kMaxCoefficient));
    }
    if (value > 0 && shape.flops_per_second == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("cost_model.shape.", name, " is ", value,
                       ", but flops_per_second is 0; what is received takes the time of so much "
                       "computation, so set both or neither"));
    }
  }
  if (shape.network_bytes_per_second > 0 && shape.node_size == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cost_model.shape.network_bytes_per_second is ", shape.network_bytes_per_second,
        ", but node_size is 0, all ranks in one node; set it, or leave both out"));
  }
  return absl::OkStatus();
}

// From the bytes that each rank receives of a token, times the unit of cost.
std::vector<ContextExchange> ExchangeOf(const ModelShape& shape, double bytes) {
  const double seconds = bytes * shape.flops_per_second;
  std::vector<ContextExchange> exchange;
  if (shape.node_bytes_per_second > 0 || shape.network_bytes_per_second > 0) {
    const double node = shape.node_bytes_per_second;
    exchange.push_back({.up_to_size = shape.node_size, .per_token = node > 0 ? seconds / node : 0});
  }
  if (shape.network_bytes_per_second > 0) {
    exchange.push_back({.up_to_size = 0, .per_token = seconds / shape.network_bytes_per_second});
  }
  return exchange;
}

// Checks that the figures give valid coefficients.
absl::Status CheckExchangeOf(const ModelShape& shape,
                             const std::vector<ContextExchange>& exchange) {
  for (const ContextExchange& entry : exchange) {
    if (entry.per_token == 0 ||
        (entry.per_token >= kMinCoefficient && entry.per_token <= kMaxCoefficient)) {
      continue;
    }
    const bool in_node = &entry == &exchange.front() && shape.node_bytes_per_second > 0;
    return absl::InvalidArgumentError(
        absl::StrCat("cost_model.shape.flops_per_second is ", shape.flops_per_second, " and ",
                     in_node ? "node_bytes_per_second " : "network_bytes_per_second ",
                     in_node ? shape.node_bytes_per_second : shape.network_bytes_per_second,
                     ", so that a token's exchange would cost ", entry.per_token,
                     "; it must be between ", kMinCoefficient, " and ", kMaxCoefficient));
  }
  return absl::OkStatus();
}

}  // namespace

double ExchangePerToken(const CostModel& model, uint32_t ranks) {
  const size_t entry = ExchangeEntry(model, ranks);
  if (entry == model.exchange.size()) return 0;
  return model.exchange[entry].per_token * (ranks - 1) / ranks;
}

absl::StatusOr<CostFunction> CostFunction::Create(const CostModel& model,
                                                  const SharedSequences& sequences,
                                                  uint64_t microbatches, uint64_t tail_tokens,
                                                  double waiting, double loads) {
  MostCosts most = MostOf(model, RankCostsOf(model, sequences.ranks), sequences.aligned_lengths,
                          microbatches, tail_tokens);
  most.all_else += loads;
  const absl::StatusOr<int> scale = ScaleOf(most, waiting, 1);
  if (!scale.ok()) return scale.status();
  return CostFunction(model, sequences.ranks, *scale);
}

absl::StatusOr<std::vector<CostFunction>> CostFunction::CreateForSizes(
    const CostModel& model, std::span<const SharedSequences> sizes, uint64_t pool,
    uint64_t microbatches, uint64_t tail_tokens, double waiting) {
  RankCosts dearest;
  std::vector<uint32_t> longest(sizes.front().aligned_lengths.size(), 0);
  for (const SharedSequences& size : sizes) {
    const RankCosts costs = RankCostsOf(model, size.ranks);
    dearest.per_token = std::max(dearest.per_token, costs.per_token);
    dearest.per_token_squared = std::max(dearest.per_token_squared, costs.per_token_squared);
    if (costs.exchange > dearest.exchange) {
      dearest.exchange = costs.exchange;
      dearest.ranks = size.ranks;
    }
    for (size_t i = 0; i < longest.size(); ++i) {
      longest[i] = std::max(longest[i], size.aligned_lengths[i]);
    }
  }
  const MostCosts most = MostOf(model, dearest, longest, microbatches, tail_tokens);
  // If all else costs nothing, no precision is lost.
  if (most.all_else > 0 && most.exchange > kMostExchange * most.all_else) {
    const size_t entry = ExchangeEntry(model, most.ranks);
    return absl::InvalidArgumentError(
        absl::StrCat("cost_model.exchange[", entry, "].per_token is ",
                     model.exchange[entry].per_token, ": what groups of ", most.ranks,
                     " ranks exchange, ", most.exchange, ", is above the limit of ", kMostExchange,
                     " times what all else of the batch costs, ", most.all_else, "; lower it"));
  }
  const absl::StatusOr<int> scale = ScaleOf(most, waiting, static_cast<double>(pool));
  if (!scale.ok()) return scale.status();
  std::vector<CostFunction> functions;
  functions.reserve(sizes.size());
  for (const SharedSequences& size : sizes) {
    functions.push_back(CostFunction(model, size.ranks, *scale));
  }
  return functions;
}

CostFunction::CostFunction(const CostModel& model, uint32_t ranks, int scale)
    : scale_(scale), overlaps_(model.exchange_overlaps) {
  const RankCosts costs = RankCostsOf(model, ranks);
  per_token_ = Scaled(costs.per_token, scale);
  per_token_squared_ = Scaled(costs.per_token_squared, scale);
  exchange_ = Scaled(costs.exchange, scale);
  per_sequence_ = Of(Scaled(model.per_sequence, scale), 1);
  per_microbatch_ = Of(Scaled(model.per_microbatch, scale), 1);
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
  if (absl::Status status = CheckExchangeFigures(shape); !status.ok()) return status;
  constexpr double kUnit = 1e-9;
  const double layers = shape.layers;
  const double hidden = shape.hidden_size;
  const double kv_part = static_cast<double>(kv_heads) / shape.attention_heads;
  const double projections = 4 * hidden * hidden * (1 + kv_part);
  const double mlp = 6 * hidden * shape.ffn_hidden_size;
  const double logits = 2 * hidden * shape.vocabulary_size;
  const double bytes = 4 * kv_part * hidden * layers;
  const std::vector<ContextExchange> exchange = ExchangeOf(shape, kUnit * bytes);
  if (absl::Status status = CheckExchangeOf(shape, exchange); !status.ok()) return status;
  return CostModel{.per_token = kUnit * (layers * (projections + mlp) + logits),
                   .per_token_squared = kUnit * layers * hidden * (shape.causal ? 2 : 4),
                   .per_microbatch = 0,
                   .exchange = exchange};
}

}  // namespace batchplan
