// What planning is by: the cost model of a transformer from its shape, and predicted compute as
// integers, equal on every machine and safe to add up.

#ifndef BATCHPLAN_SERVER_PLANNER_COST_H_
#define BATCHPLAN_SERVER_PLANNER_COST_H_

#include <cstdint>
#include <span>

#include "absl/numeric/int128.h"
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
  // Of what all costs together.
  static constexpr double kMostWaiting = 1 << 30;

  // For sequences of these aligned lengths, in at most that many micro-batches, with at most
  // `tail_tokens` of padding rows between them. Times that are longer by up to `waiting` units stay
  // below 2^62 too. InvalidArgument if the total is not finite, or if `waiting` is more than
  // kMostWaiting times as much.
  static absl::StatusOr<CostFunction> Create(const CostModel& model,
                                             std::span<const uint32_t> aligned_lengths,
                                             uint64_t microbatches, uint64_t tail_tokens,
                                             double waiting = 0);

  // A sequence of `length` aligned tokens, at least 1. Monotone in the length.
  Cost OfSequence(uint64_t length) const {
    return per_sequence_ +
           ShiftedBy(absl::uint128(per_token_.mantissa) * length, per_token_.exponent) +
           ShiftedBy(absl::uint128(per_token_squared_.mantissa) * (length * length),
                     per_token_squared_.exponent);
  }
  // The tail padding of rows.
  Cost OfTail(uint64_t tokens) const {
    return ShiftedBy(absl::uint128(per_token_.mantissa) * tokens, per_token_.exponent);
  }
  // The fixed cost of one micro-batch.
  Cost OfMicrobatch() const { return per_microbatch_; }

  // In the units of the model, and the other way round.
  double ToUnits(Cost cost) const { return ToUnits(static_cast<double>(cost)); }
  double ToUnits(double cost) const;
  double FromUnits(double units) const;

 private:
  // mantissa * 2^exponent, exactly one coefficient, scaled.
  struct Coefficient {
    uint64_t mantissa = 0;
    int exponent = 0;
  };

  // value * 2^exponent rounded down; the caller knows that the result fits.
  static uint64_t ShiftedBy(absl::uint128 value, int exponent) {
    if (value == 0) return 0;
    if (exponent >= 0) return absl::Uint128Low64(value << exponent);
    return exponent > -128 ? absl::Uint128Low64(value >> -exponent) : 0;
  }

  CostFunction(const CostModel& model, int scale);
  static Coefficient Scaled(double value, int scale);

  int scale_;
  Coefficient per_token_;
  Coefficient per_token_squared_;
  Cost per_sequence_;
  Cost per_microbatch_;
};

struct ModelShape {
  uint32_t layers = 0;
  uint32_t hidden_size = 0;
  // Of a gated MLP (three matrices, as in Llama and Qwen); for two matrices give 2/3 of it.
  uint32_t ffn_hidden_size = 0;
  uint32_t attention_heads = 0;
  // 0: as many as attention_heads.
  uint32_t kv_heads = 0;
  uint32_t vocabulary_size = 0;
  bool causal = false;
};

// Multiply-adds of the forward pass as floating-point operations, in units of 10^9. The backward
// pass takes twice as many, a factor that all sequences share. With h the hidden size, f that of
// the MLP, g = kv_heads/attention_heads, V the vocabulary, for each token and layer:
//
//   4h^2 + 4gh^2   projections of queries, outputs, keys and values
//   6hf            gated MLP
//   4hL            scores and values over L tokens; half of that if causal
//
// and 2hV once for the logits. After D. Narayanan et al., "Efficient large-scale language model
// training on GPU clusters using Megatron-LM" (2021), appendix, with grouped-query attention and a
// gated MLP, without recomputation. h = 4096, g = 1, 6hf = 16h^2, V = 0 gives 24h^2 + 4hL: the
// 24576 L + L^2 that trainers use for 7B models, in units of 4h.
//
// InvalidArgument, naming the field, if layers, hidden_size or attention_heads is 0, or if kv_heads
// does not divide attention_heads.
absl::StatusOr<CostModel> CostModelOf(const ModelShape& shape);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_COST_H_
