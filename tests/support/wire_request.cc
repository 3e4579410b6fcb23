#include "tests/support/wire_request.h"

namespace batchplan::testing {
namespace {

// The wire's enumerators are the planner's, behind one for "unspecified".
template <typename WireEnum, typename PlannerEnum>
WireEnum ToWire(PlannerEnum value) {
  return static_cast<WireEnum>(static_cast<int>(value) + 1);
}

void FillTopology(const Topology& topology, v1::Topology* wire) {
  wire->set_data_parallel(topology.data_parallel);
  wire->set_context_parallel(topology.context_parallel);
  wire->set_tensor_parallel(topology.tensor_parallel);
  wire->set_pipeline_parallel(topology.pipeline_parallel);
  wire->set_virtual_pipeline(topology.virtual_pipeline);
  wire->set_sequence_parallel(topology.sequence_parallel);
  if (topology.dynamic_context) {
    wire->mutable_dynamic_context()->set_min_size(topology.dynamic_context->min_size);
    wire->mutable_dynamic_context()->set_max_size(topology.dynamic_context->max_size);
  }
}

void FillPipeline(const PipelineOptions& pipeline, v1::Pipeline* wire) {
  if (pipeline.schedule) wire->set_schedule(ToWire<v1::PipelineSchedule>(*pipeline.schedule));
  wire->set_group_size(pipeline.group_size);
  wire->set_backward_ratio(pipeline.backward_ratio);
  wire->mutable_stage_shares()->Add(pipeline.stage_shares.begin(), pipeline.stage_shares.end());
  wire->set_transfer(pipeline.transfer);
}

void FillSelection(const Selection& selection, v1::Selection* wire) {
  if (selection.sequences > 0) wire->set_sequences(selection.sequences);
  if (selection.groups > 0) wire->set_groups(selection.groups);
  if (selection.max_tokens > 0) wire->set_max_tokens(selection.max_tokens);
  wire->set_max_age(selection.max_age);
  wire->set_max_overtaking(selection.max_overtaking);
}

void FillPass(const PassOptions& pass, v1::Pass* wire) {
  wire->set_name(pass.name);
  wire->set_max_tokens_per_microbatch(pass.max_tokens_per_microbatch);
  wire->set_length_multiple(pass.length_multiple);
  wire->set_min_microbatches(pass.min_microbatches);
  wire->set_microbatch_count_multiple(pass.microbatch_count_multiple);
  wire->set_max_sequences_per_microbatch(pass.max_sequences_per_microbatch);
  wire->set_sequence_count_multiple(pass.sequence_count_multiple);
  wire->set_balance_on(ToWire<v1::BalanceOn>(pass.balance_on));
  wire->set_order(ToWire<v1::MicrobatchOrder>(pass.order));
  wire->set_ignore_mini_batches(pass.ignore_mini_batches);
  wire->set_forward_only(pass.forward_only);
  wire->set_ignore_shared_prefixes(pass.ignore_shared_prefixes);
  for (const LoadLimit& limit : pass.limits) {
    v1::LoadLimit* entry = wire->add_limits();
    entry->set_load(limit.load);
    entry->set_max_per_microbatch(limit.max_per_microbatch);
  }
  wire->set_kinds_per_slot(ToWire<v1::KindsPerSlot>(pass.kinds_per_slot));
  if (pass.layout == Layout::kPadded) {
    wire->mutable_padded()->set_scan(ToWire<v1::Scan>(pass.scan));
  } else {
    v1::PackedLayout* packed = wire->mutable_packed();
    packed->set_packer(ToWire<v1::Packer>(pass.packer));
    packed->set_rows(ToWire<v1::RowPadding>(pass.rows));
    packed->mutable_buckets()->Add(pass.buckets.begin(), pass.buckets.end());
  }
}

void FillLoads(const GeneratedRequest& request, v1::PlanBatchRequest* wire) {
  for (const OwnedLoad& load : request.loads) {
    v1::Load* entry = wire->mutable_manifest()->add_loads();
    entry->set_name(load.name);
    if (!load.has_items) {
      entry->mutable_values()->Add(load.values.begin(), load.values.end());
      continue;
    }
    v1::LoadItems* items = wire->mutable_manifest()->add_items();
    items->set_load(load.name);
    items->mutable_sequences()->Add(load.sequences.begin(), load.sequences.end());
    items->mutable_values()->Add(load.values.begin(), load.values.end());
  }
  wire->mutable_manifest()->mutable_kinds()->Add(request.kinds.begin(), request.kinds.end());
  for (const LoadCost& cost : request.options.cost_model.loads) {
    v1::LoadCost* entry = wire->mutable_cost_model()->add_loads();
    entry->set_load(cost.load);
    entry->set_per_unit(cost.per_unit);
    entry->set_separate(cost.separate);
    entry->set_dealt(cost.dealt);
  }
}

}  // namespace

v1::PlanBatchRequest WireRequest(const GeneratedRequest& request) {
  const PlanOptions& options = request.options;
  v1::PlanBatchRequest wire;
  wire.mutable_manifest()->mutable_lengths()->Add(request.lengths.begin(), request.lengths.end());
  wire.mutable_manifest()->mutable_group_ids()->Add(request.group_ids.begin(),
                                                    request.group_ids.end());
  wire.mutable_manifest()->set_pad_to(request.pad_to);
  wire.mutable_manifest()->mutable_ranks()->Add(request.ranks.begin(), request.ranks.end());
  wire.mutable_manifest()->mutable_ages()->Add(request.ages.begin(), request.ages.end());
  wire.mutable_manifest()->mutable_shared_prefixes()->Add(request.shared_prefixes.begin(),
                                                          request.shared_prefixes.end());
  wire.mutable_manifest()->mutable_shared_with()->Add(request.shared_with.begin(),
                                                      request.shared_with.end());
  FillTopology(options.topology, wire.mutable_topology());
  if (options.selection) FillSelection(*options.selection, wire.mutable_selection());
  if (options.topology.pipeline_parallel > 1) {
    FillPipeline(options.pipeline, wire.mutable_pipeline());
  }

  v1::MiniBatching* mini_batches = wire.mutable_mini_batches();
  mini_batches->set_size(options.mini_batches.size);
  mini_batches->set_order(ToWire<v1::Order>(options.mini_batches.order));
  mini_batches->set_seed(options.mini_batches.seed);
  mini_batches->set_max_delay(options.mini_batches.max_delay);
  mini_batches->set_group_count(options.mini_batches.group_count);
  mini_batches->set_last(ToWire<v1::LastMiniBatch>(options.mini_batches.last));
  mini_batches->set_groups(ToWire<v1::GroupPolicy>(options.mini_batches.groups));

  wire.mutable_cost_model()->set_per_token(options.cost_model.per_token);
  wire.mutable_cost_model()->set_per_token_squared(options.cost_model.per_token_squared);
  wire.mutable_cost_model()->set_per_microbatch(options.cost_model.per_microbatch);
  wire.mutable_cost_model()->set_per_sequence(options.cost_model.per_sequence);
  for (const ContextExchange& exchange : options.cost_model.exchange) {
    v1::Exchange* entry = wire.mutable_cost_model()->add_exchange();
    entry->set_up_to_size(exchange.up_to_size);
    entry->set_per_token(exchange.per_token);
  }
  wire.mutable_cost_model()->set_exchange_overlaps(options.cost_model.exchange_overlaps);
  FillLoads(request, &wire);
  wire.set_synchronization(ToWire<v1::Synchronization>(options.synchronization));
  wire.set_effort(ToWire<v1::Effort>(options.effort));
  wire.set_overlong(ToWire<v1::OverlongPolicy>(options.overlong));
  wire.set_allow_empty_microbatches(options.allow_empty_microbatches);
  for (size_t i = 0; i < options.passes.size(); ++i) {
    FillPass(options.passes[i], wire.add_passes());
  }
  if (options.passes.empty()) return wire;
  // The first pass decides this for all passes.
  if (options.passes[0].sequence_counts == EqualCounts::kWithinOne) {
    wire.mutable_passes(0)->set_sequence_counts(v1::EQUAL_COUNTS_WITHIN_ONE);
  } else {
    wire.mutable_passes(0)->set_equal_sequence_counts(options.passes[0].keeps_counts());
  }
  if (request.ranks.empty()) {
    wire.mutable_passes(0)->set_sharding(ToWire<v1::Sharding>(options.passes[0].sharding));
  }
  return wire;
}

}  // namespace batchplan::testing
