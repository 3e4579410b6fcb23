// Costs: the cost model of a transformer from its shape, and predicted compute as integers that are
// equal on every machine and safe to add up.

#ifndef BATCHPLAN_SERVER_PLANNER_REQUEST_COST_H_
#define BATCHPLAN_SERVER_PLANNER_REQUEST_COST_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/numeric/int128.h"
#include "absl/status/statusor.h"
#include "server/planner/request/options.h"

namespace batchplan {

// A cost in the scaled units of one CostFunction.
using Cost = uint64_t;

// What each of `ranks` context-parallel ranks spends on exchanging keys and values, for each token
// of the sequences that they share: CostModel.exchange of that size, times (ranks - 1) / ranks.
double ExchangePerToken(const CostModel& model, uint32_t ranks);

// The sequences of a pass as they stand on groups of `ranks` context-parallel ranks; a sequence's
// aligned length may differ from size to size.
struct SharedSequences {
  uint32_t ranks = 1;
  std::span<const uint32_t> aligned_lengths;
};

// The cost model of one pass for groups of one size, its coefficients scaled by a power of two so
// that the cost of the whole pass, whatever the plan, stays below 2^62. Costs are those of one rank
// of a group. They are added and compared exactly, and ToUnits() brings them back to the model's
// units for the metrics.
class CostFunction {
 public:
  // The most that `waiting` may be, as a multiple of all costs together.
  static constexpr double kMostWaiting = 1 << 30;
  // The most that the exchange may be, as a multiple of all other costs. Groups of several sizes
  // are compared in one scale, in which a dearer exchange would leave nothing of the others.
  static constexpr double kMostExchange = 1 << 20;

  // For these sequences, in at most `microbatches` micro-batches whose rows have at most
  // `tail_tokens` tokens of padding in all, and whose loads cost `loads` units. Costs plus up to
  // `waiting` units stay below 2^62. InvalidArgument if the total is not finite, or if `waiting` is
  // more than kMostWaiting times the total.
  static absl::StatusOr<CostFunction> Create(const CostModel& model,
                                             const SharedSequences& sequences,
                                             uint64_t microbatches, uint64_t tail_tokens,
                                             double waiting = 0, double loads = 0);

  // One cost function for each size of groups, all in one scale. Whichever sizes the sequences are
  // on, `pool` times the sum of all costs stays below 2^62, and so does all that `pool` ranks
  // compute and wait. `sizes` is not empty, and the lengths of all sizes are parallel. Errors as by
  // Create; also InvalidArgument if the exchange is more than kMostExchange times all other costs.
  static absl::StatusOr<std::vector<CostFunction>> CreateForSizes(
      const CostModel& model, std::span<const SharedSequences> sizes, uint64_t pool,
      uint64_t microbatches, uint64_t tail_tokens, double waiting = 0);

  // A sequence of `length` aligned tokens, at least 1. Monotone and convex in the length. With
  // exchange_overlaps it is the linear part plus the greater of attention and exchange.
  Cost OfSequence(uint64_t length) const {
    const Cost attention = OfAttention(length);
    const Cost exchange = Of(exchange_, length);
    return per_sequence_ + Of(per_token_, length) +
           (overlaps_ ? std::max(attention, exchange) : attention + exchange);
  }
  // OfSequence without the exchange.
  Cost OfComputation(uint64_t length) const {
    return per_sequence_ + Of(per_token_, length) + OfAttention(length);
  }
  // OfSequence and OfComputation of a sequence whose first `shared` tokens are computed with
  // another sequence: the cost of its other tokens, each of which attends to all tokens before it,
  // shared or not.
  Cost OfBranch(uint64_t length, uint64_t shared) const {
    const Cost attention = OfAttention(length) - OfAttention(shared);
    const Cost exchange = Of(exchange_, length - shared);
    return per_sequence_ + Of(per_token_, length) - Of(per_token_, shared) +
           (overlaps_ ? std::max(attention, exchange) : attention + exchange);
  }
  Cost OfBranchComputation(uint64_t length, uint64_t shared) const {
    return OfComputation(length) - Of(per_token_, shared) - OfAttention(shared);
  }
  // Whether attention hides the exchange, so that a branch costs less as a part of its path than by
  // itself.
  bool overlaps() const { return overlaps_; }
  // The tail padding of rows.
  Cost OfTail(uint64_t tokens) const { return Of(per_token_, tokens); }
  // The fixed cost of one micro-batch.
  Cost OfMicrobatch() const { return per_microbatch_; }

  // To the units of the model, and back.
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

  static Cost Of(const Coefficient& coefficient, uint64_t count) {
    return ShiftedBy(absl::uint128(coefficient.mantissa) * count, coefficient.exponent);
  }
  Cost OfAttention(uint64_t length) const { return Of(per_token_squared_, length * length); }

  CostFunction(const CostModel& model, uint32_t ranks, int scale);
  static Coefficient Scaled(double value, int scale);

  int scale_;
  Coefficient per_token_;
  Coefficient per_token_squared_;
  Coefficient exchange_;
  bool overlaps_;
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
  // Floating-point operations of a rank in a second; 0: no exchange.
  double flops_per_second = 0;
  // Context-parallel ranks in one node; 0: all.
  uint32_t node_size = 0;
  // Bytes that a rank receives in a second: in groups within one node, and in groups across nodes.
  double node_bytes_per_second = 0;
  double network_bytes_per_second = 0;
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
// The exchange of context-parallel ranks, as ring attention (H. Liu, M. Zaharia, P. Abbeel, "Ring
// attention with blockwise transformers for near-infinite context", 2023) or an all-gather of keys
// and values (A. Grattafiori et al., "The Llama 3 herd of models", 2024, section 3.3) make it: in
// the forward pass a rank receives, in each layer, the keys and values of the tokens that the
// others hold, 2gh numbers of 2 bytes (bf16) a token. The backward pass takes them once more, and
// their gradients, as many bytes, to the ranks that hold them. So it moves twice what the forward
// pass does, and computes twice as much. One ratio holds for both: a received token costs
//
//   4gh * layers * flops_per_second / bytes_per_second
//
// of the units above. Groups of up to node_size ranks receive at node_bytes_per_second; in larger
// groups all that a rank receives has passed between nodes, at network_bytes_per_second. Tensor
// parallelism divides what a GPU computes and what it receives alike: give the three figures of one
// GPU.
//
// InvalidArgument, naming the field, if layers, hidden_size or attention_heads is 0, if kv_heads
// does not divide attention_heads, if a figure of the exchange is negative or not finite, or is set
// without another that it needs, or if the figures give no valid coefficient.
absl::StatusOr<CostModel> CostModelOf(const ModelShape& shape);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_REQUEST_COST_H_
