#include <initializer_list>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "proto/batchplan/v1/convert.h"
#include "server/base/ids.h"
#include "server/planner/request/cost.h"
#include "server/planner/request/presets.h"

namespace batchplan {
namespace {

// Where in the request an error is.
using Where = absl::string_view;

// A wire enum's planner value: 0 (unspecified) keeps `value`, the planner's enumerators follow in
// the contract's order. Unimplemented for a number that this version does not know: another one
// may.
template <typename PlannerEnum, typename WireEnum>
absl::Status ReadEnum(WireEnum wire, bool known, Where field, PlannerEnum& value) {
  if (!known) {
    return absl::UnimplementedError(absl::StrCat(field, " is ", static_cast<int>(wire),
                                                 ", a value that this version does not know"));
  }
  if (static_cast<int>(wire) != 0) value = static_cast<PlannerEnum>(static_cast<int>(wire) - 1);
  return absl::OkStatus();
}

// ReadEnum relies on this order.
static_assert(static_cast<int>(Packer::kKarmarkarKarp) == v1::PACKER_KARMARKAR_KARP - 1);
static_assert(static_cast<int>(Sharding::kArtPrefixTree) == v1::SHARDING_ART_PREFIX_TREE - 1);
static_assert(static_cast<int>(RowPadding::kBuckets) == v1::ROW_PADDING_BUCKETS - 1);
static_assert(static_cast<int>(Scan::kOptimal) == v1::SCAN_OPTIMAL - 1);
static_assert(static_cast<int>(BalanceOn::kCost) == v1::BALANCE_ON_COST - 1);
static_assert(static_cast<int>(MicrobatchOrder::kPipeline) == v1::MICROBATCH_ORDER_PIPELINE - 1);
static_assert(static_cast<int>(PipelineSchedule::kInterleaved) ==
              v1::PIPELINE_SCHEDULE_INTERLEAVED - 1);
static_assert(static_cast<int>(Order::kStratified) == v1::ORDER_STRATIFIED - 1);
static_assert(static_cast<int>(GroupPolicy::kSameMicrobatch) ==
              v1::GROUP_POLICY_SAME_MICROBATCH - 1);
static_assert(static_cast<int>(LastMiniBatch::kSmaller) == v1::LAST_MINI_BATCH_SMALLER - 1);
static_assert(static_cast<int>(Synchronization::kAccumulated) ==
              v1::SYNCHRONIZATION_ACCUMULATED - 1);
static_assert(static_cast<int>(Effort::kThorough) == v1::EFFORT_THOROUGH - 1);
static_assert(static_cast<int>(OverlongPolicy::kAlone) == v1::OVERLONG_POLICY_ALONE - 1);
static_assert(static_cast<int>(KindsPerSlot::kAlike) == v1::KINDS_PER_SLOT_ALIKE - 1);

// The first error, in order.
absl::Status FirstError(std::initializer_list<absl::Status> statuses) {
  for (const absl::Status& status : statuses) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

uint32_t ZeroAsOne(uint32_t value) { return value == 0 ? 1 : value; }

Topology ReadTopology(const v1::Topology& wire) {
  Topology topology = {.data_parallel = ZeroAsOne(wire.data_parallel()),
                       .context_parallel = ZeroAsOne(wire.context_parallel()),
                       .tensor_parallel = ZeroAsOne(wire.tensor_parallel()),
                       .pipeline_parallel = ZeroAsOne(wire.pipeline_parallel()),
                       .virtual_pipeline = ZeroAsOne(wire.virtual_pipeline()),
                       .sequence_parallel = wire.sequence_parallel()};
  if (wire.has_dynamic_context()) {
    topology.dynamic_context = {.min_size = ZeroAsOne(wire.dynamic_context().min_size()),
                                .max_size = wire.dynamic_context().max_size()};
  }
  return topology;
}

absl::Status ReadMiniBatching(const v1::MiniBatching& wire, MiniBatching& options) {
  options.size = wire.size();
  options.seed = wire.seed();
  options.max_delay = wire.max_delay();
  options.group_count = wire.group_count();
  return FirstError({
      ReadEnum(wire.order(), v1::Order_IsValid(wire.order()), "mini_batches.order", options.order),
      ReadEnum(wire.groups(), v1::GroupPolicy_IsValid(wire.groups()), "mini_batches.groups",
               options.groups),
      ReadEnum(wire.last(), v1::LastMiniBatch_IsValid(wire.last()), "mini_batches.last",
               options.last),
  });
}

Selection ReadSelection(const v1::Selection& wire) {
  return {.sequences = wire.sequences(),
          .groups = wire.groups(),
          .max_tokens = wire.max_tokens(),
          .max_age = wire.max_age(),
          .max_overtaking = wire.max_overtaking()};
}

std::vector<ContextExchange> ReadExchange(const v1::CostModel& wire) {
  std::vector<ContextExchange> exchange;
  exchange.reserve(static_cast<size_t>(wire.exchange_size()));
  for (const v1::Exchange& entry : wire.exchange()) {
    exchange.push_back({.up_to_size = entry.up_to_size(), .per_token = entry.per_token()});
  }
  return exchange;
}

ModelShape ReadShape(const v1::ModelShape& wire) {
  return {.layers = wire.layers(),
          .hidden_size = wire.hidden_size(),
          .ffn_hidden_size = wire.ffn_hidden_size(),
          .attention_heads = wire.attention_heads(),
          .kv_heads = wire.kv_heads(),
          .vocabulary_size = wire.vocabulary_size(),
          .causal = wire.causal(),
          .flops_per_second = wire.flops_per_second(),
          .node_size = wire.node_size(),
          .node_bytes_per_second = wire.node_bytes_per_second(),
          .network_bytes_per_second = wire.network_bytes_per_second()};
}

absl::Status ReadCostModel(const v1::CostModel& wire, CostModel& model) {
  if (wire.fitted()) {
    absl::Status alone = CheckFittedStandsAlone(wire);
    if (!alone.ok()) return alone;
    return absl::FailedPreconditionError(
        "cost_model.fitted is set, but there are no fitted costs here: a server holds those of the "
        "steps reported to it; plan there, or set the coefficients");
  }
  model = {.per_token = wire.per_token(),
           .per_token_squared = wire.per_token_squared(),
           .per_microbatch = wire.per_microbatch(),
           .per_sequence = wire.per_sequence(),
           .exchange = ReadExchange(wire),
           .exchange_overlaps = wire.exchange_overlaps(),
           .loads = ReadLoadCosts(wire)};
  if (!wire.has_shape()) return absl::OkStatus();
  if (model.per_token != 0 || model.per_token_squared != 0 || model.per_microbatch != 0 ||
      model.per_sequence != 0 || !model.exchange.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cost_model.shape is set beside per_token ", model.per_token, ", per_token_squared ",
        model.per_token_squared, ", per_microbatch ", model.per_microbatch, " and per_sequence ",
        model.per_sequence, model.exchange.empty() ? "" : " and exchange",
        "; the coefficients follow from the shape, leave them unset"));
  }
  absl::StatusOr<CostModel> of_shape = CostModelOf(ReadShape(wire.shape()));
  if (!of_shape.ok()) return of_shape.status();
  model = *std::move(of_shape);
  model.exchange_overlaps = wire.exchange_overlaps();
  model.loads = ReadLoadCosts(wire);
  return absl::OkStatus();
}

absl::Status ReadPipeline(const v1::PlanBatchRequest& request, PlanOptions& options) {
  if (!request.has_pipeline()) return absl::OkStatus();
  if (options.topology.pipeline_parallel == 1) {
    return absl::InvalidArgumentError(
        "pipeline is set, but topology.pipeline_parallel is 1; leave it unset, or set that");
  }
  const v1::Pipeline& wire = request.pipeline();
  PipelineOptions& pipeline = options.pipeline;
  pipeline.group_size = wire.group_size();
  if (wire.backward_ratio() != 0) pipeline.backward_ratio = wire.backward_ratio();
  pipeline.stage_shares.assign(wire.stage_shares().begin(), wire.stage_shares().end());
  pipeline.transfer = wire.transfer();
  PipelineSchedule schedule = PipelineSchedule::kOneFOneB;
  absl::Status status = ReadEnum(wire.schedule(), v1::PipelineSchedule_IsValid(wire.schedule()),
                                 "pipeline.schedule", schedule);
  if (wire.schedule() != v1::PIPELINE_SCHEDULE_UNSPECIFIED) pipeline.schedule = schedule;
  return status;
}

absl::Status ReadLayout(const v1::Pass& wire, const std::string& where, PassOptions& pass) {
  switch (wire.layout_case()) {
    case v1::Pass::LAYOUT_NOT_SET:
      return absl::OkStatus();
    case v1::Pass::kPacked:
      pass.layout = Layout::kPacked;
      pass.buckets.assign(wire.packed().buckets().begin(), wire.packed().buckets().end());
      return FirstError({
          ReadEnum(wire.packed().packer(), v1::Packer_IsValid(wire.packed().packer()),
                   where + ".packed.packer", pass.packer),
          ReadEnum(wire.packed().rows(), v1::RowPadding_IsValid(wire.packed().rows()),
                   where + ".packed.rows", pass.rows),
      });
    case v1::Pass::kPadded:
      pass.layout = Layout::kPadded;
      return ReadEnum(wire.padded().scan(), v1::Scan_IsValid(wire.padded().scan()),
                      where + ".padded.scan", pass.scan);
  }
  return absl::OkStatus();
}

// equal_sequence_counts is the older way to say EXACT.
absl::Status ReadEqualCounts(const v1::Pass& wire, const std::string& where, PassOptions& pass) {
  if (wire.has_equal_sequence_counts()) {
    pass.sequence_counts = wire.equal_sequence_counts() ? EqualCounts::kExact : EqualCounts::kAny;
  }
  if (wire.sequence_counts() == v1::EQUAL_COUNTS_UNSPECIFIED) return absl::OkStatus();
  EqualCounts counts = EqualCounts::kAny;
  switch (wire.sequence_counts()) {
    case v1::EQUAL_COUNTS_EXACT:
      counts = EqualCounts::kExact;
      break;
    case v1::EQUAL_COUNTS_WITHIN_ONE:
      counts = EqualCounts::kWithinOne;
      break;
    default:
      return absl::UnimplementedError(absl::StrCat(where, ".sequence_counts is ",
                                                   static_cast<int>(wire.sequence_counts()),
                                                   ", a value that this version does not know"));
  }
  if (wire.has_equal_sequence_counts() && counts != pass.sequence_counts) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ".sequence_counts is ", v1::EqualCounts_Name(wire.sequence_counts()),
                     ", but equal_sequence_counts is ",
                     wire.equal_sequence_counts() ? "true" : "false", "; set one of them"));
  }
  pass.sequence_counts = counts;
  return absl::OkStatus();
}

// What `wire` sets over `pass`, which holds the preset's values.
absl::Status ReadPass(const v1::Pass& wire, const std::string& where, PassOptions& pass) {
  pass.name = wire.name();
  pass.max_tokens_per_microbatch = wire.max_tokens_per_microbatch();
  if (wire.has_length_multiple()) pass.length_multiple = ZeroAsOne(wire.length_multiple());
  if (wire.has_min_microbatches()) pass.min_microbatches = ZeroAsOne(wire.min_microbatches());
  if (wire.has_microbatch_count_multiple()) {
    pass.microbatch_count_multiple = ZeroAsOne(wire.microbatch_count_multiple());
  }
  if (wire.has_max_sequences_per_microbatch()) {
    pass.max_sequences_per_microbatch = wire.max_sequences_per_microbatch();
  }
  if (wire.has_sequence_count_multiple()) {
    pass.sequence_count_multiple = ZeroAsOne(wire.sequence_count_multiple());
  }
  pass.ignore_mini_batches = wire.ignore_mini_batches();
  pass.forward_only = wire.forward_only();
  pass.ignore_shared_prefixes = wire.ignore_shared_prefixes();
  pass.limits.clear();
  pass.limits.reserve(static_cast<size_t>(wire.limits_size()));
  for (const v1::LoadLimit& limit : wire.limits()) {
    pass.limits.push_back({.load = limit.load(), .max_per_microbatch = limit.max_per_microbatch()});
  }
  return FirstError({
      CheckId(where + ".name", wire.name()),
      ReadEqualCounts(wire, where, pass),
      ReadLayout(wire, where, pass),
      ReadEnum(wire.balance_on(), v1::BalanceOn_IsValid(wire.balance_on()), where + ".balance_on",
               pass.balance_on),
      ReadEnum(wire.sharding(), v1::Sharding_IsValid(wire.sharding()), where + ".sharding",
               pass.sharding),
      ReadEnum(wire.order(), v1::MicrobatchOrder_IsValid(wire.order()), where + ".order",
               pass.order),
      ReadEnum(wire.kinds_per_slot(), v1::KindsPerSlot_IsValid(wire.kinds_per_slot()),
               where + ".kinds_per_slot", pass.kinds_per_slot),
  });
}

absl::Status CheckLoadNames(const v1::Manifest& manifest) {
  for (int i = 0; i < manifest.loads_size(); ++i) {
    absl::Status status =
        CheckId(absl::StrCat("manifest.loads[", i, "].name"), manifest.loads(i).name());
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// The first pass decides on the ranks for all.
absl::Status CheckLaterPass(const v1::Pass& wire, const std::string& where) {
  const bool shards = wire.sharding() != v1::SHARDING_UNSPECIFIED;
  const bool counts = wire.sequence_counts() != v1::EQUAL_COUNTS_UNSPECIFIED;
  if (!shards && !counts && !wire.has_equal_sequence_counts()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(where,
                   shards   ? ".sharding"
                   : counts ? ".sequence_counts"
                            : ".equal_sequence_counts",
                   " is set, but which rank has a sequence is decided by passes[0] for all passes; "
                   "leave it unset"));
}

// A sharding that is set can't be kept where the manifest has the ranks.
absl::Status CheckFirstPass(const v1::PlanBatchRequest& request) {
  const v1::Sharding sharding = request.passes(0).sharding();
  if (request.manifest().ranks().empty() || sharding == v1::SHARDING_UNSPECIFIED) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("passes[0].sharding is ", v1::Sharding_Name(sharding),
                   ", but manifest.ranks has the rank of every sequence; leave one of them out"));
}

absl::StatusOr<ParsedRequest> Parse(const v1::PlanBatchRequest& request, bool read_costs) {
  ParsedRequest parsed;
  parsed.manifest = ReadManifest(request.manifest());

  PlanOptions& options = parsed.options;
  options.topology = ReadTopology(request.topology());
  options.allow_empty_microbatches = request.allow_empty_microbatches();
  if (request.has_selection()) options.selection = ReadSelection(request.selection());
  options.synchronization = DefaultSynchronization(options.topology);
  options.cost_model = DefaultCosts(options.topology);
  absl::Status status = FirstError({
      CheckId("job_id", request.job_id()),
      CheckId("request_id", request.request_id()),
      CheckLoadNames(request.manifest()),
      ReadMiniBatching(request.mini_batches(), options.mini_batches),
      ReadPipeline(request, options),
      read_costs && request.has_cost_model()
          ? ReadCostModel(request.cost_model(), options.cost_model)
          : absl::OkStatus(),
      ReadEnum(request.synchronization(), v1::Synchronization_IsValid(request.synchronization()),
               "synchronization", options.synchronization),
      ReadEnum(request.effort(), v1::Effort_IsValid(request.effort()), "effort", options.effort),
      ReadEnum(request.overlong(), v1::OverlongPolicy_IsValid(request.overlong()), "overlong",
               options.overlong),
  });
  if (!status.ok()) return status;

  absl::StatusOr<PassOptions> preset = PresetPass(request.preset(), options.topology);
  // A newer version may have it.
  if (!preset.ok()) return absl::UnimplementedError(preset.status().message());
  if (!parsed.manifest.ranks.empty()) {
    // What comes to which rank is no longer for the preset to say.
    preset->sharding = Sharding::kBalanced;
    preset->sequence_counts = EqualCounts::kAny;
  }
  for (int i = 0; i < request.passes_size(); ++i) {
    PassOptions pass = *preset;
    const std::string where = absl::StrCat("passes[", i, "]");
    status =
        FirstError({ReadPass(request.passes(i), where, pass),
                    i == 0 ? CheckFirstPass(request) : CheckLaterPass(request.passes(i), where)});
    if (!status.ok()) return status;
    options.passes.push_back(std::move(pass));
  }
  return parsed;
}

}  // namespace

absl::StatusOr<ParsedRequest> ParseRequest(const v1::PlanBatchRequest& request) {
  return Parse(request, /*read_costs=*/true);
}

absl::StatusOr<ParsedRequest> ParseRequestWithoutCosts(const v1::PlanBatchRequest& request) {
  return Parse(request, /*read_costs=*/false);
}

absl::StatusOr<Synchronization> ParseSynchronization(v1::Synchronization wire) {
  Synchronization synchronization = Synchronization::kLockstep;
  absl::Status status =
      ReadEnum(wire, v1::Synchronization_IsValid(wire), "synchronization", synchronization);
  if (!status.ok()) return status;
  return synchronization;
}

void SetDefaultExchange(double per_token, v1::CostModel* model) {
  model->clear_exchange();
  const Topology of_groups = {.dynamic_context = DynamicContext()};
  for (const ContextExchange& exchange : DefaultCosts(of_groups).exchange) {
    v1::Exchange* entry = model->add_exchange();
    entry->set_up_to_size(exchange.up_to_size);
    entry->set_per_token(exchange.per_token * per_token);
  }
}

Manifest ReadManifest(const v1::Manifest& wire) {
  const auto view = [](const auto& array) {
    return std::span(array.data(), static_cast<size_t>(array.size()));
  };
  Manifest manifest = {.lengths = view(wire.lengths()),
                       .group_ids = view(wire.group_ids()),
                       .pad_to = wire.pad_to(),
                       .ranks = view(wire.ranks()),
                       .ages = view(wire.ages()),
                       .shared_prefixes = view(wire.shared_prefixes()),
                       .shared_with = view(wire.shared_with()),
                       .loads = {},
                       .items = {},
                       .kinds = view(wire.kinds())};
  manifest.loads.reserve(static_cast<size_t>(wire.loads_size()));
  for (const v1::Load& load : wire.loads()) {
    manifest.loads.push_back({.name = load.name(), .values = view(load.values())});
  }
  manifest.items.reserve(static_cast<size_t>(wire.items_size()));
  for (const v1::LoadItems& items : wire.items()) {
    manifest.items.push_back({.load = items.load(),
                              .sequences = view(items.sequences()),
                              .values = view(items.values())});
  }
  return manifest;
}

std::vector<LoadCost> ReadLoadCosts(const v1::CostModel& wire) {
  std::vector<LoadCost> loads;
  loads.reserve(static_cast<size_t>(wire.loads_size()));
  for (const v1::LoadCost& load : wire.loads()) {
    loads.push_back({.load = load.load(),
                     .per_unit = load.per_unit(),
                     .separate = load.separate(),
                     .dealt = load.dealt()});
  }
  return loads;
}

absl::Status CheckFittedStandsAlone(const v1::CostModel& model) {
  for (int i = 0; i < model.loads_size(); ++i) {
    if (model.loads(i).per_unit() == 0) continue;
    return absl::InvalidArgumentError(absl::StrCat("cost_model.fitted is set beside loads[", i,
                                                   "].per_unit ", model.loads(i).per_unit(),
                                                   "; what loads cost is fitted, leave it unset"));
  }
  if (model.per_token() == 0 && model.per_token_squared() == 0 && model.per_microbatch() == 0 &&
      model.per_sequence() == 0 && model.exchange().empty() && !model.exchange_overlaps() &&
      !model.has_shape()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "cost_model.fitted is set beside per_token ", model.per_token(), ", per_token_squared ",
      model.per_token_squared(), ", per_microbatch ", model.per_microbatch(), " and per_sequence ",
      model.per_sequence(), model.exchange().empty() ? "" : " and exchange",
      model.exchange_overlaps() ? " and exchange_overlaps" : "",
      model.has_shape() ? " and shape" : "",
      "; the coefficients are fitted, leave the others unset"));
}

}  // namespace batchplan
