#include "client/cpp/examples/worker/ranks_step.h"

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "batchplan/kernels.hpp"
#include "batchplan/worker_client.h"
#include "client/cpp/examples/worker/group_exchange.h"

namespace batchplan::examples {
namespace {

// The packed inputs and outputs of one micro-batch on one rank.
struct PackedRow {
  explicit PackedRow(size_t tokens)
      : input_ids(tokens),
        labels(tokens),
        position_ids(tokens),
        sequence_ids(tokens),
        loss_mask(tokens),
        advantages(tokens),
        loss_scales(tokens),
        losses(tokens),
        hidden_gradients(tokens * kHidden) {}

  std::vector<int64_t> input_ids;
  std::vector<int64_t> labels;
  std::vector<int64_t> position_ids;
  std::vector<int64_t> sequence_ids;
  std::vector<uint8_t> loss_mask;
  std::vector<float> advantages;
  std::vector<float> loss_scales;
  std::vector<float> losses;
  std::vector<float> hidden_gradients;
};

absl::Status PackInputs(const WorkerPlan& plan, const WorkerMicrobatch& microbatch,
                        const Batch& batch, PackedRow& row) {
  return plan.Pack(
      microbatch,
      {kernels::Tokens(batch.input_ids.data(), row.input_ids.data(), batch.width, kPadToken),
       kernels::NextTokens(batch.input_ids.data(), row.labels.data(), batch.width, kNoLabel),
       kernels::NextTokens(batch.loss_mask.data(), row.loss_mask.data(), batch.width, 0),
       kernels::PerSequence(batch.advantages.data(), row.advantages.data()),
       kernels::PerSequence(batch.loss_scales.data(), row.loss_scales.data()),
       kernels::PositionIds(row.position_ids.data()),
       kernels::SequenceIds(row.sequence_ids.data())});
}

// The values of whole sequences of a rank's micro-batch: [sequences, width], in the batch's order.
struct WholeSequences {
  std::vector<Hidden> hidden;
  std::vector<Hidden> mixed_gradients;
};

TokenInputs InputsOf(const PackedRow& row, size_t i) {
  TokenInputs inputs;
  inputs.token = row.input_ids[i];
  inputs.position = row.position_ids[i];
  inputs.label = row.labels[i];
  inputs.advantage = row.advantages[i];
  inputs.scale = row.loss_mask[i] != 0 ? row.loss_scales[i] : 0;
  return inputs;
}

// Gathers a value of each token from the ranks of the micro-batch's group and unpacks it into
// `whole`, [sequences, width].
absl::Status Gather(const WorkerPlan& plan, const WorkerMicrobatch& microbatch, const Batch& batch,
                    GroupExchange& exchange, int round, std::vector<Hidden> own,
                    std::vector<Hidden>& whole) {
  absl::StatusOr<std::vector<Hidden>> gathered =
      exchange.AllGather(microbatch, round, std::move(own));
  if (!gathered.ok()) return gathered.status();
  batchplan_field field =
      kernels::Tokens<double>(gathered->data()->data(), whole.data()->data(), batch.width);
  field.elements_per_token = kHidden;
  return plan.Unpack(microbatch, {field}, {}, RowPart::kAllRanks);
}

// Forward and backward of this rank's shard. Attention needs whole sequences: the group's ranks
// first exchange h, then the gradients of m.
absl::Status RunModel(const WorkerPlan& plan, const WorkerMicrobatch& microbatch,
                      const Batch& batch, const Model& model, GroupExchange& exchange,
                      WholeSequences& whole, PackedRow& row, TableGradients& gradients) {
  if (microbatch.num_sequences() == 0) return absl::OkStatus();
  const size_t cells = row.losses.size();
  std::vector<Hidden> own(cells);
  for (size_t i = 0; i < cells; ++i) own[i] = Embed(model, InputsOf(row, i));
  absl::Status status = Gather(plan, microbatch, batch, exchange, 0, std::move(own), whole.hidden);
  if (!status.ok()) return status;

  // Padding within a sequence is none of its tokens, and the tail belongs to no sequence.
  const auto sequence_of = [&](size_t i, absl::Span<const Hidden> values) {
    const auto place = static_cast<size_t>(row.sequence_ids[i]);
    return values.subspan(microbatch.sequence_index[place] * batch.width,
                          microbatch.sequence_lengths[place]);
  };
  const auto is_token = [&](size_t i) {
    return row.sequence_ids[i] >= 0 &&
           row.position_ids[i] <
               microbatch.sequence_lengths[static_cast<size_t>(row.sequence_ids[i])];
  };
  std::vector<Hidden> mixed_gradients(cells);
  for (size_t i = 0; i < cells; ++i) {
    if (!is_token(i)) continue;
    const Hidden mixed =
        Attend(sequence_of(i, whole.hidden), static_cast<size_t>(row.position_ids[i]));
    row.losses[i] = TokenLoss(model, InputsOf(row, i), mixed, mixed_gradients[i], gradients);
  }
  status = Gather(plan, microbatch, batch, exchange, 1, std::move(mixed_gradients),
                  whole.mixed_gradients);
  if (!status.ok()) return status;
  for (size_t i = 0; i < cells; ++i) {
    if (!is_token(i)) continue;
    const Hidden gradient =
        AttendBackward(sequence_of(i, whole.hidden), sequence_of(i, whole.mixed_gradients),
                       static_cast<size_t>(row.position_ids[i]));
    EmbedBackward(InputsOf(row, i), gradient, gradients);
    std::copy(gradient.begin(), gradient.end(), &row.hidden_gradients[i * kHidden]);
  }
  return absl::OkStatus();
}

// Writes the means of the micro-batch's sequences to the batch's order; returns their part of the
// loss.
absl::StatusOr<double> ReduceLosses(const WorkerPlan& plan, const WorkerMicrobatch& microbatch,
                                    const Batch& batch, const PackedRow& row,
                                    std::vector<float>& sequence_means) {
  // The denominators and the total are those of whole sequences and of the whole batch, of which
  // this rank holds only a part.
  std::vector<float> denominators(microbatch.num_sequences());
  absl::Status status = plan.GatherPerSequence(
      microbatch, {kernels::Tokens(batch.denominators.data(), denominators.data(), 1)});
  if (!status.ok()) return status;
  const auto total_denominator = static_cast<float>(batch.sequences());

  std::vector<float> means(microbatch.num_sequences());
  float loss = 0;
  batchplan_reduction reduction = {};
  reduction.values = row.losses.data();
  reduction.value_type = BATCHPLAN_FLOAT32;
  reduction.weights = row.loss_mask.data();
  reduction.weight_type = BATCHPLAN_UINT8;
  reduction.denominators = denominators.data();
  reduction.total_denominator = &total_denominator;
  reduction.means = means.data();
  reduction.mean_total = &loss;
  status = plan.Reduce(microbatch, reduction);
  if (!status.ok()) return status;
  status = plan.ScatterPerSequence(microbatch,
                                   {kernels::Tokens(means.data(), sequence_means.data(), 1)});
  if (!status.ok()) return status;
  return loss;
}

// Ranks at the same place in their groups share these: they have different sequences, and write
// different rows.
struct SharedOutputs {
  std::vector<float> token_losses;
  std::vector<float> hidden_gradients;
  std::vector<float> sequence_means;
};

absl::Status UnpackOutputs(const WorkerPlan& plan, const WorkerMicrobatch& microbatch,
                           const Batch& batch, const PackedRow& row, SharedOutputs& outputs) {
  batchplan_field hidden_gradients =
      kernels::Tokens(row.hidden_gradients.data(), outputs.hidden_gradients.data(), batch.width, 0);
  hidden_gradients.elements_per_token = kHidden;
  return plan.Unpack(microbatch, {kernels::NextTokens(row.losses.data(),
                                                      outputs.token_losses.data(), batch.width, 0),
                                  hidden_gradients});
}

struct RankResults {
  absl::Status status;
  std::string fingerprint;
  size_t microbatches = 0;
  uint64_t scheduled_tokens = 0;
  uint32_t largest_group = 0;
  double loss = 0;
  TableGradients gradients;
};

absl::Status RunRank(const Client& client, const v1::PlanBatchRequest& request,
                     const WorkerOptions& options, const Batch& batch, const Model& model,
                     GroupExchange& exchange, std::vector<SharedOutputs>& outputs_by_place,
                     RankResults& rank) {
  const absl::StatusOr<WorkerClient> worker = WorkerClient::Create(client, options);
  if (!worker.ok()) return worker.status();
  const absl::StatusOr<WorkerPlan> plan = worker->FetchPlan(request);
  if (!plan.ok()) return plan.status();
  rank.fingerprint = plan->fingerprint();
  rank.microbatches = plan->microbatches().size();

  WholeSequences whole;
  whole.hidden.resize(batch.input_ids.size());
  whole.mixed_gradients.resize(batch.input_ids.size());
  for (const WorkerMicrobatch& microbatch : plan->microbatches()) {
    rank.scheduled_tokens += microbatch.row_width_per_rank;
    rank.largest_group = std::max(rank.largest_group, microbatch.context_parallel);
    SharedOutputs& outputs = outputs_by_place[microbatch.context_parallel_rank];
    PackedRow row(microbatch.row_width_per_rank);
    absl::Status status = PackInputs(*plan, microbatch, batch, row);
    if (!status.ok()) return status;
    status = RunModel(*plan, microbatch, batch, model, exchange, whole, row, rank.gradients);
    if (!status.ok()) return status;
    const absl::StatusOr<double> loss =
        ReduceLosses(*plan, microbatch, batch, row, outputs.sequence_means);
    if (!loss.ok()) return loss.status();
    rank.loss += *loss;
    status = UnpackOutputs(*plan, microbatch, batch, row, outputs);
    if (!status.ok()) return status;
  }
  return plan->CheckErrors();
}

void AddTo(std::vector<float>& sum, const std::vector<float>& part) {
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
}

}  // namespace

absl::StatusOr<RanksResults> RunRanks(const Client& client, const v1::PlanBatchRequest& request,
                                      const Batch& batch, const Model& model) {
  const uint32_t data_parallel = std::max(1U, request.topology().data_parallel());
  const uint32_t context_parallel = std::max(1U, request.topology().context_parallel());
  const size_t pool = size_t{data_parallel} * context_parallel;
  const bool dynamic = request.topology().has_dynamic_context();
  const StepResults zeros = ZeroResults(batch, model);
  std::vector<SharedOutputs> outputs(
      dynamic ? pool : context_parallel,
      {zeros.token_losses, zeros.hidden_gradients, zeros.sequence_means});
  std::vector<RankResults> ranks(pool);
  GroupExchange exchange;
  {
    std::vector<std::jthread> threads;
    threads.reserve(ranks.size());
    for (size_t i = 0; i < ranks.size(); ++i) {
      threads.emplace_back([&, i] {
        WorkerOptions options;
        // With groups that differ in size, a rank of the pool.
        options.data_parallel_rank = static_cast<uint32_t>(dynamic ? i : i / context_parallel);
        options.context_parallel_rank = static_cast<uint32_t>(dynamic ? 0 : i % context_parallel);
        ranks[i].gradients = zeros.gradients;
        ranks[i].status =
            RunRank(client, request, options, batch, model, exchange, outputs, ranks[i]);
        if (!ranks[i].status.ok()) exchange.Abort();
      });
    }
  }

  RanksResults sum;
  sum.results = zeros;
  sum.fingerprint = ranks[0].fingerprint;
  sum.microbatches_per_rank = ranks[0].microbatches;
  // The error of the rank that failed, not of the ranks that waited for it.
  for (const RankResults& rank : ranks) {
    if (!rank.status.ok() && !absl::IsAborted(rank.status)) return rank.status;
  }
  for (const RankResults& rank : ranks) {
    if (rank.fingerprint != sum.fingerprint) {
      return absl::InternalError(
          absl::StrCat("ranks have different plans: ", sum.fingerprint, " and ", rank.fingerprint));
    }
    sum.scheduled_tokens += rank.scheduled_tokens;
    sum.largest_group = std::max(sum.largest_group, rank.largest_group);
    sum.results.loss += rank.loss;
    AddTo(sum.results.gradients, rank.gradients);
  }
  for (const SharedOutputs& part : outputs) {
    AddTo(sum.results.token_losses, part.token_losses);
    AddTo(sum.results.hidden_gradients, part.hidden_gradients);
    AddTo(sum.results.sequence_means, part.sequence_means);
  }
  return sum;
}

}  // namespace batchplan::examples
