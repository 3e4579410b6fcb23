#include "client/cli/input/request_input.h"

#include <google/protobuf/message.h>

#include <CLI/CLI.hpp>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "client/cli/input/choice.h"
#include "client/cli/input/count.h"
#include "client/cli/input/field_flag.h"
#include "client/cli/input/flag_names.h"
#include "client/cli/input/input_files.h"
#include "client/cli/input/load_flags.h"
#include "proto/batchplan/v1/convert.h"
#include "proto/batchplan/v1/json.h"
#include "server/planner/request/presets.h"

namespace batchplan::cli {
namespace {

// A flag of the request, and the field that it sets.
struct FieldFlag {
  const char* flag;
  const char* path;
  const char* help;
};

struct Group {
  const char* title;
  std::vector<FieldFlag> flags;
};

const std::vector<Group>& RequestGroups() {
  static const auto* const groups = new std::vector<Group>{
      {"Training job",
       {{"--dp", "topology.data_parallel", "Data-parallel ranks [1]"},
        {"--cp", "topology.context_parallel", "Context-parallel size [1]"},
        {"--tp", "topology.tensor_parallel", "Tensor-parallel size [1]"},
        {"--pp", "topology.pipeline_parallel", "Pipeline-parallel size [1]"},
        {"--vpp", "topology.virtual_pipeline",
         "Chunks of the model on a stage, of the interleaved schedule [1]"},
        {"--sequence_parallel", "topology.sequence_parallel",
         "Activations are split along the sequence across --tp"},
        {"--sync", "synchronization",
         "When ranks wait for each other [lockstep, with --pp accumulated]"}}},
      {"Pipeline, with --pp",
       {{"--pipeline_schedule", "pipeline.schedule",
         "In which order stages run micro-batches [one_f_one_b, with --vpp interleaved]"},
        {"--pipeline_group", "pipeline.group_size",
         "Micro-batches of a group of the interleaved schedule [--pp]"},
        {"--backward_ratio", "pipeline.backward_ratio", "Time of a backward over a forward [2]"},
        {"--stage_shares", "pipeline.stage_shares",
         "What parts of the model's time the --pp times --vpp virtual stages take [equal ones]"},
        {"--transfer", "pipeline.transfer",
         "What comes on top from stage to stage, in units of --cost [0]"}}},
      {"Mini-batches",
       {{"--mini_batch_size", "mini_batches.size",
         "Sequences in a mini-batch, over all ranks [all of them]"},
        {"--mini_batch_groups", "mini_batches.group_count",
         "Groups, the second column of --lengths, in a mini-batch, however many sequences they "
         "have, "
         "in the place of --mini_batch_size"},
        {"--last_mini_batch", "mini_batches.last",
         "What is left at the end: smaller makes a mini-batch of it [exact: refused]"},
        {"--mini_batch_order", "mini_batches.order",
         "Order in which sequences come to mini-batches; stratified: by length, so that each has "
         "like lengths, which biases its gradient [preserved]"},
        {"--seed", "mini_batches.seed", "Seed of every random choice [0]"},
        {"--groups", "mini_batches.groups",
         "Where sequences of one group, the second column of --lengths, stay together [ignore]"},
        {"--max_delay", "mini_batches.max_delay",
         "Mini-batches that a sequence may be trained later than its place, so that long ones meet "
         "[0]"}}},
      {"Some of what waits, by one of --take, --take_groups and --take_tokens",
       {{"--take", "selection.sequences", "Plan exactly so many sequences; the others wait [all]"},
        {"--take_groups", "selection.groups",
         "Plan exactly so many groups, the second column of --lengths"},
        {"--take_tokens", "selection.max_tokens",
         "Plan as many as first in, first out takes within so many tokens"},
        {"--max_age", "selection.max_age",
         "Leave older ones out for good, and take those of this age now [any age]"},
        {"--max_overtaking", "selection.max_overtaking",
         "What waits is passed by at most so many that stand behind it [first in, first out]"}}},
      {"Names, for the server's logs and metrics",
       {{"--job", "job_id", "Job"},
        {"--step", "step", "Step"},
        {"--request_id", "request_id", "Request"}}},
      {"Algorithm",
       {{"--preset", "preset", "A named bundle of the options below, such as verl [balanced]"},
        {"--effort", "effort", "How hard the balanced solver searches [default]"},
        {"--fitted_cost", "cost_model.fitted",
         "Take the costs that the server fitted to what --job reported, instead of --cost"},
        {"--overlong", "overlong",
         "What to do with sequences longer than a micro-batch; alone: in one of its own, above the "
         "budget [reject]"},
        {"--allow_empty_microbatches", "allow_empty_microbatches",
         "Let ranks with too few sequences run empty micro-batches"},
        {"--pad_to", "manifest.pad_to",
         "The width to compare with; the plan stays as it is [longest sequence]"}}}};
  return *groups;
}

const Group& PassGroup() {
  static const auto* const group = new Group{
      "Micro-batches",
      {{"--packer", "packed.packer", "How sequences come to packed rows"},
       {"--rows", "packed.rows", "What packed rows are padded to"},
       {"--buckets", "packed.buckets", "Row widths for --rows buckets"},
       {"--scan", "padded.scan", "Padded rows instead of packed ones, split by"},
       {"--sharding", "sharding", "How sequences come to ranks"},
       {"--balance_on", "balance_on", "What is balanced between ranks"},
       {"--order", "order", "Order of the micro-batches of a rank"},
       {"--length_multiple", "length_multiple",
        "Round lengths up to a multiple of this, besides what --cp and --tp need [1]"},
       {"--min_microbatches", "min_microbatches", "At least so many a rank and mini-batch [1]"},
       {"--microbatch_count_multiple", "microbatch_count_multiple",
        "A multiple of this a rank and mini-batch [1]"},
       {"--max_sequences", "max_sequences_per_microbatch",
        "At most so many sequences in a micro-batch [any number]"},
       {"--sequence_count_multiple", "sequence_count_multiple",
        "Sequences of each micro-batch are a multiple of this [1]"},
       {"--equal_counts", "equal_sequence_counts", "Every rank gets the same number of sequences"},
       {"--sequence_counts", "sequence_counts",
        "How equal ranks are in that: exact, as --equal_counts, or within_one"},
       {"--kinds_per_slot", "kinds_per_slot",
        "Which of --kinds run at the same time: any, together or alike"},
       {"--ignore_mini_batches", "ignore_mini_batches",
        "Plan the batch as one mini-batch, for a pass without a gradient update"},
       {"--forward_only", "forward_only", "Pipelines run forwards alone, as for log-probabilities"},
       {"--ignore_shared_prefixes", "ignore_shared_prefixes",
        "Compute every sequence whole, whatever --prompt_lengths or --shared_prefixes say"}}};
  return *group;
}

// "A,B,C" or "A,B,C,D": the coefficients.
void SetCost(const std::string& text, v1::CostModel* cost) {
  std::vector<double> coefficients;
  for (const absl::string_view item : absl::StrSplit(text, ',')) {
    if (!absl::SimpleAtod(item, &coefficients.emplace_back())) {
      coefficients.clear();
      break;
    }
  }
  if (coefficients.size() != 3 && coefficients.size() != 4) {
    throw CLI::ValidationError(
        "--cost", absl::StrCat("\"", text, "\" is not three or four numbers separated by commas"));
  }
  cost->set_per_token(coefficients[0]);
  cost->set_per_token_squared(coefficients[1]);
  cost->set_per_microbatch(coefficients[2]);
  if (coefficients.size() == 4) cost->set_per_sequence(coefficients[3]);
}

// "MIN" or "MIN,MAX": the sizes of groups.
void SetDynamicContext(const std::string& text, v1::DynamicContext* dynamic) {
  constexpr uint64_t kNoSize = uint64_t{1} << 32;
  std::vector<uint32_t> sizes;
  for (const absl::string_view item : absl::StrSplit(text, ',')) {
    const uint64_t size = ParseCount(item).value_or(kNoSize);
    if (size >= kNoSize) {
      sizes.clear();
      break;
    }
    sizes.push_back(static_cast<uint32_t>(size));
  }
  if (sizes.size() != 1 && sizes.size() != 2) {
    throw CLI::ValidationError(
        "--dynamic_cp",
        absl::StrCat("\"", text, "\" is not the least size of a group, or the least and the most"));
  }
  dynamic->set_min_size(sizes[0]);
  if (sizes.size() == 2) dynamic->set_max_size(sizes[1]);
}

// Reads "8:0.02,0:0.065": group sizes, and what each of their ranks spends on a token.
void SetExchange(const std::string& text, v1::CostModel* cost) {
  for (const absl::string_view item : absl::StrSplit(text, ',')) {
    const std::vector<absl::string_view> parts = absl::StrSplit(item, ':');
    uint32_t size = 0;
    double per_token = 0;
    if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &size) ||
        !absl::SimpleAtod(parts[1], &per_token)) {
      throw CLI::ValidationError(
          "--exchange", absl::StrCat("\"", item, "\" is not a size and a number, as in 8:0.02"));
    }
    v1::Exchange* entry = cost->add_exchange();
    entry->set_up_to_size(size);
    entry->set_per_token(per_token);
  }
}

// Adds the flags for the exchange among context-parallel ranks. They fill `exchange`. Returns the
// flags.
std::vector<CLI::Option*> AddExchangeFlags(CLI::App* app, v1::CostModel* exchange,
                                           FlagNames* names) {
  names->Add("cost_model.exchange", "--exchange");
  names->Add("cost_model.exchange_overlaps", "--exchange_overlaps");
  CLI::Option* by_size =
      app->add_option_function<std::string>(
             "--exchange", [exchange](const std::string& text) { SetExchange(text, exchange); },
             "What ranks of context-parallel groups of up to SIZE, or of all larger ones (0), "
             "spend on a token that another one holds, in units of --cost [nothing; with "
             "--dynamic_cp, where --cost is unset too, 8:0.02,0:0.065]")
          ->type_name("SIZE:COST,...")
          ->excludes(app->get_option("--fitted_cost"))
          ->group("Algorithm");
  CLI::Option* overlaps =
      app->add_flag_callback(
             "--exchange_overlaps", [exchange] { exchange->set_exchange_overlaps(true); },
             "Attention hides the exchange: only what takes longer is paid")
          ->needs(by_size)
          ->group("Algorithm");
  return {by_size, overlaps};
}

// Adds the flags of a request to `app`, except those in `without`, and returns them. They fill
// `request`, which gets one pass. `names` gets all flags, since a command has its own flags instead
// of those in `without`.
std::vector<CLI::Option*> AddRequestFlags(CLI::App* app, v1::PlanBatchRequest* request,
                                          const std::set<std::string>& without, FlagNames* names) {
  std::vector<CLI::Option*> flags;
  const auto add = [&](const FieldFlag& field, google::protobuf::Message* message,
                       const char* title) {
    names->Add(absl::StrCat(message == request ? "" : "passes.", field.path), field.flag);
    if (without.contains(field.flag)) return;
    flags.push_back(AddFieldFlag(app, field.flag, message, field.path, field.help)->group(title));
  };
  v1::Pass* pass = request->add_passes();
  add({kBudgetFlag, "max_tokens_per_microbatch",
       "Tokens that a micro-batch holds at most, padding included; 16k is 16384, as k is 1024 in "
       "every N"},
      pass, "Training job");
  for (const Group& group : RequestGroups()) {
    for (const FieldFlag& field : group.flags) add(field, request, group.title);
  }
  for (const FieldFlag& field : PassGroup().flags) add(field, pass, PassGroup().title);
  flags.push_back(
      app->add_flag_callback(
             "--shuffle",
             [request] { request->mutable_mini_batches()->set_order(v1::ORDER_SHUFFLED); },
             "Shuffle, with --seed, before cutting into mini-batches: --mini_batch_order shuffled")
          ->excludes(app->get_option("--mini_batch_order"))
          ->group("Mini-batches"));
  if (!without.contains("--dynamic_cp")) {
    names->Add("topology.dynamic_context", "--dynamic_cp");
    flags.push_back(
        app->add_option_function<std::string>(
               "--dynamic_cp",
               [request](const std::string& text) {
                 SetDynamicContext(text, request->mutable_topology()->mutable_dynamic_context());
               },
               "The --dp times --cp ranks are one pool, of which each micro-batch takes a group of "
               "its own size, from MIN to MAX [a group is --cp ranks]")
            ->type_name("MIN[,MAX]")
            ->group("Training job"));
  }
  names->Add("passes.limits", "--limit");
  flags.push_back(AddLimitFlag(app, pass)->group(PassGroup().title));
  names->Add("cost_model", "--cost");
  flags.push_back(
      app->add_option_function<std::string>(
             "--cost",
             [request](const std::string& text) { SetCost(text, request->mutable_cost_model()); },
             "Cost a token, a token squared, a micro-batch, a sequence; with --dynamic_cp give "
             "--exchange with it, or there is none "
             "[1,1/24576,0,0; with --pp or --dynamic_cp 1024 a micro-batch]")
          ->type_name("A,B,C[,D]")
          ->excludes(app->get_option("--fitted_cost"))
          ->group("Algorithm"));
  // The contract has the preset as a string, but the planner knows all names.
  if (CLI::Option* preset = app->get_option_no_throw("--preset"); preset != nullptr) {
    const std::vector<std::string> names(kPresetNames.begin(), kPresetNames.end());
    preset->check(OneOf(names))
        ->type_name("NAME")
        ->description(absl::StrCat(preset->get_description(), ": ", absl::StrJoin(names, ", ")));
  }
  // A selection has one target: set together, the later flag would silently undo the earlier one.
  for (const auto& [one, other] : {std::pair{"--take", "--take_groups"},
                                   {"--take", "--take_tokens"},
                                   {"--take_groups", "--take_tokens"}}) {
    app->get_option(one)->excludes(app->get_option(other));
  }
  // A message has one layout: set together, the later flag would silently undo the earlier one.
  if (CLI::Option* padded = app->get_option_no_throw("--scan"); padded != nullptr) {
    for (const char* packed : {"--packer", "--rows", "--buckets"}) {
      padded->excludes(app->get_option(packed));
    }
  }
  return flags;
}

absl::Status ReadRequest(const std::string& path, v1::PlanBatchRequest* request) {
  Input input(path);
  if (!input.status().ok()) return input.status();
  const std::string json{std::istreambuf_iterator<char>(input.stream()),
                         std::istreambuf_iterator<char>()};
  request->Clear();
  if (const absl::Status parsed = FromJson(json, request); !parsed.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(DisplayName(path), ": not a PlanBatchRequest in JSON: ", parsed.message()));
  }
  return absl::OkStatus();
}

}  // namespace

v1::CostModel DefaultCosts(const v1::Topology& topology) {
  Topology planned;
  planned.pipeline_parallel = topology.pipeline_parallel() > 1 ? 2 : 1;
  if (topology.has_dynamic_context()) planned.dynamic_context.emplace();
  const CostModel model = batchplan::DefaultCosts(planned);
  v1::CostModel costs;
  costs.set_per_token(model.per_token);
  costs.set_per_token_squared(model.per_token_squared);
  costs.set_per_microbatch(model.per_microbatch);
  costs.set_per_sequence(model.per_sequence);
  for (const ContextExchange& exchange : model.exchange) {
    v1::Exchange* entry = costs.add_exchange();
    entry->set_up_to_size(exchange.up_to_size);
    entry->set_per_token(exchange.per_token);
  }
  return costs;
}

void RequestInput::AddTo(CLI::App* app, const std::set<std::string>& without) {
  app_ = app;
  request_file_ =
      app->add_option("--request", request_path_, "A PlanBatchRequest as protobuf JSON; - is stdin")
          ->type_name("FILE")
          ->group("Input, one of");
  lengths_ = app->add_option("--lengths", lengths_path_,
                             "One length a line, or a length and a group, or a length, a group (- "
                             "for none) and the rank that has the sequence already, or with --ages "
                             "its age; blank lines and # comments are fine; - is stdin")
                 ->type_name("FILE")
                 ->group("Input, one of");
  app->add_flag("--ages", columns_.is_age,
                "The third column of --lengths is an age: training steps since the weights that "
                "made the sequence")
      ->needs(lengths_)
      ->group("Some of what waits, by one of --take, --take_groups and --take_tokens");
  CLI::Option* prompts =
      app->add_flag(
             "--prompt_lengths", columns_.has_prompt,
             "The last column of --lengths, besides those above, is the length of the group's "
             "prompt, with which all sequences of the group begin, so that a row computes it once")
          ->needs(lengths_)
          ->group("Input, one of");
  app->add_flag(
         "--shared_prefixes", columns_.has_prefix,
         "The last two columns of --lengths are the first tokens that the sequence has in common "
         "with an earlier one, or 0, and the earlier one's position, from 0")
      ->needs(lengths_)
      ->excludes(prompts)
      ->group("Input, one of");
  app->add_flag(
         "--kinds", columns_.has_kind,
         "Behind the columns of --lengths above stands the sequence's kind: 0 of text, others "
         "as you like")
      ->needs(lengths_)
      ->group("Input, one of");
  AddLoadColumnsFlag(app, &columns_.loads)->needs(lengths_)->group("Input, one of");
  std::vector<CLI::Option*> flags = AddRequestFlags(app, &request_, without, &flag_names_);
  for (CLI::Option* flag : AddExchangeFlags(app, &added_costs_, &flag_names_)) {
    flags.push_back(flag);
  }
  flag_names_.Add("cost_model.loads", "--load_cost");
  flags.push_back(AddLoadCostFlag(app, &added_costs_)->group("Algorithm"));
  if (!without.contains(kBudgetFlag)) {
    budget_ = app->get_option(kBudgetFlag);
    lengths_->needs(budget_);
  }
  lengths_->excludes(request_file_);
  for (CLI::Option* flag : flags) request_file_->excludes(flag);
}

void RequestInput::AddAlternative(CLI::Option* option) {
  alternative_ = option->excludes(lengths_)->excludes(request_file_)->group("Input, one of");
  if (budget_ != nullptr) alternative_->needs(budget_);
}

void RequestInput::Check() const {
  if (alternative_ != nullptr && alternative_->count() > 0) return;
  if (request_path_.empty() && lengths_path_.empty()) {
    throw CLI::RequiredError(absl::StrCat(
        "--lengths FILE or --request FILE",
        alternative_ == nullptr
            ? ""
            : absl::StrCat(" or ", alternative_->get_name(), " ", alternative_->get_type_name())));
  }
}

absl::Status RequestInput::Read(bool pipeline) {
  if (!request_path_.empty()) return ReadRequest(request_path_, &request_);
  if (added_costs_.exchange_size() > 0 || added_costs_.loads_size() > 0) {
    if (!request_.has_cost_model()) {
      v1::Topology topology = request_.topology();
      if (pipeline) topology.set_pipeline_parallel(2);
      *request_.mutable_cost_model() = DefaultCosts(topology);
      if (added_costs_.exchange_size() > 0) request_.mutable_cost_model()->clear_exchange();
    }
    request_.mutable_cost_model()->MergeFrom(added_costs_);
  }
  Input input(lengths_path_);
  if (!input.status().ok()) return input.status();
  return ReadLengths(input.stream(), DisplayName(lengths_path_), columns_,
                     request_.mutable_manifest());
}

absl::Status RequestInput::NameFlags(const absl::Status& refused) const {
  if (refused.ok() || !request_path_.empty()) return refused;
  return {refused.code(), flag_names_.Annotate(refused.message(), *app_)};
}

}  // namespace batchplan::cli
