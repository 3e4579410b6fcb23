#include "tests/support/generated_request.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/planner/request/presets.h"
#include "tests/support/generators.h"

namespace batchplan::testing {
namespace {

// What distinguishes kinds of random requests.
struct Family {
  size_t most_sequences = 100;
  std::vector<uint32_t> ranks = {1, 1, 2, 2, 3, 4, 8};
  bool shuffles = true;
  // Empty: every pass has options of its own.
  absl::string_view preset = {};
};

class RequestGenerator {
 public:
  RequestGenerator(const Family& family, uint64_t seed)
      : family_(family), random_(seed), of_counts_(seed ^ 0x6D6D6D6D) {}

  GeneratedRequest Generate() {
    GenerateTopology();
    ChooseGroups();
    const uint32_t passes = random_.OneOf<uint32_t>({1, 1, 1, 1, 1, 2, 2, 3});
    for (uint32_t i = 0; i < passes; ++i) GeneratePass(i);
    GenerateMiniBatches();
    GenerateLengths();
    Scatter();
    GenerateRest();
    if (random_.Chance(15)) GenerateRanks();
    CutOtherwise();
    CountWithinOne();
    return std::move(request_);
  }

 private:
  PlanOptions& options() { return request_.options; }
  uint32_t ranks() const { return request_.options.topology.data_parallel; }
  bool grouped() const {
    return request_.options.mini_batches.groups != GroupPolicy::kIgnore && group_size_ > 0;
  }

  void GenerateTopology() {
    Topology& topology = options().topology;
    topology.data_parallel = random_.OneOf(family_.ranks);
    topology.context_parallel = random_.OneOf<uint32_t>({1, 1, 1, 2, 3});
    topology.tensor_parallel = random_.OneOf<uint32_t>({1, 1, 2, 4});
    topology.pipeline_parallel = random_.OneOf<uint32_t>({1, 1, 1, 1, 1, 1, 2, 2, 3, 5});
    topology.virtual_pipeline = random_.OneOf<uint32_t>({1, 1, 2});
    topology.sequence_parallel = random_.Chance(40);
    if (topology.pipeline_parallel > 1) GeneratePipeline();
  }

  void GeneratePipeline() {
    const Topology& topology = options().topology;
    PipelineOptions& pipeline = options().pipeline;
    if (topology.virtual_pipeline > 1 && random_.Chance(20)) {
      pipeline.group_size = topology.pipeline_parallel + 1;
    }
    pipeline.backward_ratio = random_.OneOf<double>({2, 2, 1, 3.5});
    if (random_.Chance(30)) pipeline.transfer = random_.OneOf<double>({0.5, 10, 100, 1000});
    if (random_.Chance(30)) {
      const uint32_t stages = topology.pipeline_parallel * topology.virtual_pipeline;
      for (uint32_t q = 0; q < stages; ++q) {
        pipeline.stage_shares.push_back(static_cast<double>(random_.Between(0, 4)));
      }
      pipeline.stage_shares.front() += 1;
    }
  }

  // Chooses the policy and the size of groups.
  void ChooseGroups() {
    if (random_.Chance(50)) return;
    options().mini_batches.groups = random_.OneOf<GroupPolicy>(
        {GroupPolicy::kSameMiniBatch, GroupPolicy::kSameRank, GroupPolicy::kSameMicrobatch});
    // Sometimes a policy without groups.
    if (random_.Chance(2)) return;
    const bool small = family_.most_sequences <= kMaxSmallSequences;
    group_size_ = random_.OneOf<uint32_t>(small ? std::vector<uint32_t>{1, 2, 2, 3}
                                                : std::vector<uint32_t>{1, 2, 2, 3, 4, 4, 8});
    unequal_groups_ = random_.Chance(25);
  }

  // The most sequences that must share a micro-batch.
  uint32_t Inseparable() const {
    if (request_.options.mini_batches.groups != GroupPolicy::kSameMicrobatch) return 1;
    return std::max(1u, unequal_groups_ ? 2 * group_size_ - 1 : group_size_);
  }

  // A multiple of the length multiple of the topology and the pass.
  uint32_t RowUnit(const PassOptions& pass) {
    const Topology& topology = options().topology;
    const uint32_t context = topology.context_parallel > 1 ? 2 * topology.context_parallel : 1;
    return context * topology.tensor_parallel * pass.length_multiple;
  }

  void GeneratePass(uint32_t number) {
    PassOptions pass;
    if (!family_.preset.empty()) pass = PresetPass(family_.preset, options().topology).value();
    pass.name = number == 0 && random_.Chance(50) ? "" : absl::StrCat("pass", number);
    pass.length_multiple = random_.OneOf<uint32_t>({1, 1, 1, 2, 5, 16});
    // Some budgets are multiples of the length multiple, others not.
    const uint32_t unit = RowUnit(pass);
    const auto units = static_cast<uint32_t>(random_.Between(2, 12)) * Inseparable();
    pass.max_tokens_per_microbatch =
        unit * units +
        (random_.Chance(40) ? static_cast<uint32_t>(random_.Between(0, unit - 1)) : 0);
    pass.min_microbatches = random_.OneOf<uint32_t>({1, 1, 1, 2, 3});
    pass.microbatch_count_multiple = random_.OneOf<uint32_t>({1, 1, 1, 2, 3});
    if (random_.Chance(25)) {
      const uint32_t together = random_.Chance(90) ? Inseparable() : 1;
      pass.max_sequences_per_microbatch = static_cast<uint32_t>(random_.Between(1, 6)) * together;
    }
    pass.ignore_mini_batches = random_.Chance(number == 0 ? 10 : 50);
    if (family_.preset.empty()) ChooseAlgorithms(number, unit, units, pass);
    // Leaves room for each group in every pass.
    const uint32_t longest = units / Inseparable() * unit;
    longest_ = std::min(longest_, longest);
    options().passes.push_back(std::move(pass));
  }

  void ChooseAlgorithms(uint32_t number, uint32_t unit, uint32_t units, PassOptions& pass) {
    pass.balance_on = random_.OneOf<BalanceOn>({BalanceOn::kTokens, BalanceOn::kCost});
    pass.order = random_.OneOf<MicrobatchOrder>(
        {MicrobatchOrder::kAsAssigned, MicrobatchOrder::kLargestFirst,
         MicrobatchOrder::kSmallAtBothEnds, MicrobatchOrder::kPipeline});
    pass.forward_only = random_.Chance(20);
    if (random_.Chance(35)) {
      pass.layout = Layout::kPadded;
      pass.scan = random_.OneOf<Scan>({Scan::kSorted, Scan::kOptimal});
    } else {
      ChoosePacking(unit, units, pass);
    }
    if (number == 0) {
      ChooseSharding(pass);
    } else if (random_.Chance(50)) {
      // Ignored in later passes.
      pass.sharding = options().passes[0].sharding;
      pass.sequence_counts =
          number % 2 == 0 ? options().passes[0].sequence_counts : EqualCounts::kExact;
    }
  }

  void ChoosePacking(uint32_t unit, uint32_t units, PassOptions& pass) {
    pass.packer = random_.OneOf<Packer>({Packer::kBalanced, Packer::kConcatenative,
                                         Packer::kFirstFitDecreasing, Packer::kFirstFitShuffle,
                                         Packer::kModifiedFirstFitDecreasing,
                                         Packer::kBestFitDecreasing, Packer::kKarmarkarKarp});
    pass.rows =
        random_.OneOf<RowPadding>({RowPadding::kNone, RowPadding::kNone, RowPadding::kLongest,
                                   RowPadding::kCapacity, RowPadding::kBuckets});
    if (pass.rows != RowPadding::kBuckets) return;
    for (uint32_t bucket = 1; bucket < units; ++bucket) {
      if (random_.Chance(40)) pass.buckets.push_back(bucket * unit);
    }
    if (pass.buckets.empty() || random_.Chance(90)) pass.buckets.push_back(units * unit);
  }

  void ChooseSharding(PassOptions& pass) {
    pass.sharding =
        random_.OneOf<Sharding>({Sharding::kBalanced, Sharding::kStrideSorted,
                                 Sharding::kKarmarkarKarp, Sharding::kLpt, Sharding::kContiguous});
    if (pass.layout == Layout::kPacked && random_.Chance(25)) pass.sharding = Sharding::kDealBins;
    if (pass.sharding != Sharding::kDealBins && random_.Chance(25)) {
      pass.sequence_counts = EqualCounts::kExact;
    }
  }

  // Sizes of groups with the sum `total`.
  std::vector<uint32_t> GroupsOf(uint32_t total) {
    std::vector<uint32_t> sizes;
    while (total > 0) {
      const uint32_t most = unequal_groups_ ? 2 * group_size_ - 1 : group_size_;
      const uint32_t wanted =
          unequal_groups_ ? static_cast<uint32_t>(random_.Between(1, most)) : most;
      sizes.push_back(std::min(wanted, total));
      total -= sizes.back();
    }
    return sizes;
  }

  // Chooses the number and size of mini-batches, and the groups in them.
  void GenerateMiniBatches() {
    const auto most = static_cast<uint32_t>(family_.most_sequences);
    // Usually enough sequences for the ranks and minimums, sometimes too few.
    const uint32_t floor = random_.Chance(90) ? std::min(ranks() * 4, most) : 1;
    const auto wanted = static_cast<uint32_t>(random_.Between(floor, std::min(most, floor + 64)));
    uint32_t mini_batches = random_.OneOf<uint32_t>({1, 1, 1, 2, 3, 4});
    const uint32_t group = std::max(1u, group_size_);
    uint32_t groups = std::max(1u, wanted / mini_batches / group);
    // Usually equally many for each rank.
    if (random_.Chance(75)) groups = (groups + ranks() - 1) / ranks() * ranks();
    while (mini_batches > 1 && groups * group * mini_batches > most) --mini_batches;
    uint32_t size = std::min(groups * group, most);

    request_.lengths.resize(size_t{size} * mini_batches);
    if (group_size_ > 0) {
      const auto base = static_cast<uint32_t>(random_.Between(0, 1000000));
      const uint32_t step = random_.OneOf<uint32_t>({1, 7, 0xFFFFFFFF});
      uint32_t id = base;
      for (uint32_t k = 0; k < mini_batches; ++k) {
        for (uint32_t members : GroupsOf(size)) {
          request_.group_ids.insert(request_.group_ids.end(), members, id);
          id += step;
        }
      }
    } else if (random_.Chance(25)) {
      // Ids that no policy uses, or random groups.
      for (size_t i = 0; i < request_.lengths.size(); ++i) {
        request_.group_ids.push_back(static_cast<uint32_t>(random_.Between(0, 9)));
      }
    }
    MiniBatching& batching = options().mini_batches;
    batching.size = mini_batches == 1 && random_.Chance(50) ? 0 : size;
    // Sometimes a size that divides the manifest but cuts groups.
    if (mini_batches == 1 && size % 2 == 0 && random_.Chance(10)) batching.size = size / 2;
    batching.seed = random_.Between(0, 1000);
    if (family_.shuffles && random_.Chance(35)) {
      batching.order = Order::kShuffled;
    } else if (random_.Chance(20)) {
      batching.order = Order::kStratified;
    }
    mini_batch_size_ = size;
  }

  // The number of sequences in each group.
  std::map<uint32_t, uint32_t> Members() const {
    std::map<uint32_t, uint32_t> members;
    for (uint32_t id : request_.group_ids) ++members[id];
    return members;
  }

  // Whether a sequence above the budget does not change the rows of others.
  bool MayRunAlone() const {
    const PlanOptions& asked = request_.options;
    if (asked.mini_batches.groups == GroupPolicy::kSameMicrobatch) return false;
    for (const PassOptions& pass : asked.passes) {
      const bool padded = pass.layout == Layout::kPadded;
      const bool strided = asked.passes[0].sharding == Sharding::kStrideSorted;
      if (padded ? pass.scan == Scan::kSorted && strided : pass.rows == RowPadding::kLongest) {
        return false;
      }
    }
    return true;
  }

  void GenerateLengths() {
    options().overlong = random_.OneOf<OverlongPolicy>(
        {OverlongPolicy::kReject, OverlongPolicy::kTruncate, OverlongPolicy::kDrop});
    if (MayRunAlone() && random_.Chance(30)) options().overlong = OverlongPolicy::kAlone;
    const bool some_overlong =
        options().overlong == OverlongPolicy::kReject ? random_.Chance(3) : random_.Chance(50);
    const uint32_t overlong_chance = request_.lengths.size() <= kMaxSmallSequences ? 20 : 5;
    // The longest length that fits with the largest group; or with each group by itself; or,
    // rarely, more than the budget for a sequence alone.
    const uint32_t whole = longest_ * Inseparable();
    const auto reach = random_.Between(1, 100);
    const std::map<uint32_t, uint32_t> members = Members();
    // Few distinct lengths make many ties.
    const bool few_kinds = random_.Chance(33);
    for (size_t i = 0; i < request_.lengths.size(); ++i) {
      uint32_t longest = longest_;
      if (reach > 60 && !members.empty()) longest = whole / members.at(request_.group_ids[i]);
      if (reach > 92) longest = whole;
      longest = std::max(longest, 1u);
      const uint64_t kinds = few_kinds ? 3 : longest;
      uint64_t length = random_.Between(1, longest);
      if (kinds < longest) length = (1 + length % kinds) * longest / (kinds + 1);
      if (some_overlong && random_.Chance(overlong_chance)) {
        const uint32_t budget = options().passes[0].max_tokens_per_microbatch;
        length = random_.Between(budget, 2 * uint64_t{budget});
      }
      request_.lengths[i] = static_cast<uint32_t>(std::max<uint64_t>(length, 1));
    }
  }

  // Sometimes scatters groups: usually within their mini-batches, else over the whole batch.
  void Scatter() {
    if (!grouped() || !random_.Chance(25)) return;
    const size_t count = request_.lengths.size();
    const size_t reach = random_.Chance(75) ? mini_batch_size_ : count;
    for (size_t begin = 0; begin < count; begin += reach) {
      for (size_t i = reach; i > 1; --i) {
        const size_t other = random_.Between(0, i - 1);
        std::swap(request_.group_ids[begin + i - 1], request_.group_ids[begin + other]);
      }
    }
  }

  void GenerateRest() {
    options().allow_empty_microbatches = random_.Chance(20);
    options().cost_model = random_.OneOf<CostModel>(
        {{1, 0, 0}, {0, 1.0 / 24576, 0}, {0.25, 0.0001, 1000}, {0, 0, 1}, {}});
    if (random_.Chance(30)) {
      options().cost_model.per_sequence = random_.OneOf<double>({0.5, 100, 20000});
    }
    if (random_.Chance(5)) options().cost_model = {0, 0, 0, 1};
    if (random_.Chance(40)) {
      options().cost_model.exchange = random_.OneOf<std::vector<ContextExchange>>(
          {{{0, 0.02}}, {{2, 0.02}, {0, 0.3}}, {{1, 7}, {2, 5}}, {{2, 0}, {3, 1e6}}});
      options().cost_model.exchange_overlaps = random_.Chance(30);
    }
    options().synchronization =
        random_.OneOf<Synchronization>({Synchronization::kLockstep, Synchronization::kAccumulated});
    options().effort = random_.OneOf<Effort>({Effort::kFast, Effort::kDefault, Effort::kThorough});
    if (random_.Chance(25)) {
      request_.pad_to = *std::max_element(request_.lengths.begin(), request_.lengths.end()) +
                        static_cast<uint32_t>(random_.Between(0, 100));
    }
  }

  // Gives ranks as in a batch that was dispatched before: usually in turn, so that every rank has a
  // share of every mini-batch, and usually whole groups.
  void GenerateRanks() {
    const GroupPolicy policy = options().mini_batches.groups;
    const bool whole = grouped() && policy != GroupPolicy::kSameMiniBatch && random_.Chance(95);
    const bool in_turn = random_.Chance(75);
    const auto random_rank = [&] { return static_cast<uint32_t>(random_.Between(0, ranks() - 1)); };
    std::map<uint32_t, uint32_t> of_group;
    uint32_t units = 0;
    for (size_t i = 0; i < request_.lengths.size(); ++i) {
      const uint32_t next = in_turn ? units % ranks() : random_rank();
      uint32_t rank = random_.Chance(5) ? random_rank() : next;
      if (whole) rank = of_group.try_emplace(request_.group_ids[i], rank).first->second;
      units = whole ? static_cast<uint32_t>(of_group.size()) : units + 1;
      request_.ranks.push_back(rank);
    }
    for (PassOptions& pass : options().passes) {
      pass.sharding = Sharding::kBalanced;
      if (!family_.preset.empty()) pass.sequence_counts = EqualCounts::kAny;
    }
  }

  // Counts mini-batches in groups, or allows a smaller last one.
  void CutOtherwise() {
    MiniBatching& batching = options().mini_batches;
    if (of_counts_.Chance(15)) {
      batching.last = LastMiniBatch::kSmaller;
      if (batching.size > 1 && of_counts_.Chance(50)) {
        batching.size = static_cast<uint32_t>(of_counts_.Between(1, batching.size));
      }
    }
    if (!request_.group_ids.empty() && of_counts_.Chance(20)) {
      const auto parts = static_cast<uint32_t>(of_counts_.Between(1, 4));
      batching.size = 0;
      batching.group_count = std::max(1u, static_cast<uint32_t>(Members().size()) / parts);
    }
  }

  // Sometimes asks for counts within one, mostly in place of equal counts.
  void CountWithinOne() {
    PassOptions& first = options().passes[0];
    if (first.sharding == Sharding::kDealBins || IsOfTrees(first.sharding)) return;
    if (!of_counts_.Chance(first.keeps_counts() ? 50 : 12)) return;
    first.sequence_counts = EqualCounts::kWithinOne;
  }

  const Family& family_;
  RandomStream random_;
  // A separate stream for what was added later, so that older requests do not change.
  RandomStream of_counts_;
  GeneratedRequest request_;
  // 0: no groups.
  uint32_t group_size_ = 0;
  bool unequal_groups_ = false;
  uint32_t mini_batch_size_ = 0;
  uint32_t longest_ = std::numeric_limits<uint32_t>::max();
};

// Chooses row padding for groups. A bucket suits every size if it is a multiple of the multiple for
// one rank (from the length multiple, two chunks and tensor parallelism) times context_parallel.
void PadRows(const Topology& topology, RandomStream& random, PassOptions& pass) {
  pass.rows = random.OneOf<RowPadding>({RowPadding::kNone, RowPadding::kNone, RowPadding::kLongest,
                                        RowPadding::kCapacity, RowPadding::kBuckets});
  pass.buckets.clear();
  if (pass.rows != RowPadding::kBuckets) return;
  const uint32_t unit =
      topology.context_parallel * std::lcm(pass.length_multiple, 2 * topology.tensor_parallel);
  const uint32_t units = pass.max_tokens_per_microbatch / unit;
  if (units == 0) {
    pass.rows = RowPadding::kCapacity;
    return;
  }
  for (uint32_t bucket = 1; bucket < units; ++bucket) {
    if (random.Chance(40)) pass.buckets.push_back(bucket * unit);
  }
  if (pass.buckets.empty() || random.Chance(90)) pass.buckets.push_back(units * unit);
}

// Makes a request's ranks a pool, and removes options that exclude one.
void MakeDynamic(uint64_t seed, GeneratedRequest& request) {
  RandomStream random(seed ^ 0x5A5A5A5A);
  PlanOptions& options = request.options;
  Topology& topology = options.topology;
  topology.context_parallel = random.OneOf<uint32_t>({1, 1, 2, 3});
  const uint32_t pool = topology.data_parallel * topology.context_parallel;
  DynamicContext& dynamic = topology.dynamic_context.emplace();
  dynamic.min_size = random.OneOf<uint32_t>({1, 1, 1, 2, 4});
  while (dynamic.min_size > pool) dynamic.min_size /= 2;
  if (random.Chance(30)) {
    dynamic.max_size = static_cast<uint32_t>(random.Between(dynamic.min_size, pool));
    // If groups do not add up to the pool, allows only the whole pool.
    if (pool % dynamic.min_size != 0) dynamic.max_size = pool;
  }
  if (options.mini_batches.groups == GroupPolicy::kSameRank) {
    options.mini_batches.groups = GroupPolicy::kSameMicrobatch;
  }
  if (options.overlong == OverlongPolicy::kAlone) options.overlong = OverlongPolicy::kTruncate;
  request.ranks.clear();
  if (options.cost_model.exchange.empty() && random.Chance(60)) {
    options.cost_model.exchange = {{.up_to_size = 4, .per_token = 0.02},
                                   {.up_to_size = 0, .per_token = 0.1}};
    options.cost_model.exchange_overlaps = random.Chance(30);
  }
  RandomStream of_rows(seed ^ 0x3C3C3C3C);
  for (PassOptions& pass : options.passes) {
    pass.layout = Layout::kPacked;
    PadRows(topology, of_rows, pass);
    pass.packer = Packer::kBalanced;
    pass.balance_on = BalanceOn::kCost;
    pass.sequence_counts = EqualCounts::kAny;
    pass.sharding = Sharding::kBalanced;
  }
  if (random.Chance(30)) options.passes[0].sharding = Sharding::kMegatronDynamicCp;
}

std::string DescribeDynamic(const PlanOptions& options) {
  if (!options.topology.dynamic_context) return "";
  std::string text = absl::StrCat(" groups of ", options.topology.dynamic_context->min_size, " to ",
                                  options.topology.dynamic_context->max_size, ", exchange");
  for (const ContextExchange& exchange : options.cost_model.exchange) {
    absl::StrAppend(&text, " ", exchange.up_to_size, ":", exchange.per_token);
  }
  return text;
}

std::string DescribeSelection(const PlanOptions& options) {
  if (!options.selection) return "";
  const Selection& selection = *options.selection;
  return absl::StrCat("; ", selection.sequences, " sequences ", selection.groups, " groups ",
                      selection.max_tokens, " tokens, age ", selection.max_age, " overtaking ",
                      selection.max_overtaking);
}

}  // namespace

std::string GeneratedRequest::Describe() const {
  const Topology& t = options.topology;
  const MiniBatching& m = options.mini_batches;
  std::string text = absl::StrCat(
      "lengths [", absl::StrJoin(lengths, ","), "] groups [", absl::StrJoin(group_ids, ","),
      "] ranks [", absl::StrJoin(ranks, ","), "] ages [", absl::StrJoin(ages, ","), "] pad_to ",
      pad_to, "; DP ", t.data_parallel, " CP ", t.context_parallel, " TP ", t.tensor_parallel,
      " PP ", t.pipeline_parallel, " VPP ", t.virtual_pipeline, t.sequence_parallel ? " SP" : "",
      DescribeDynamic(options), " groups of ", options.pipeline.group_size, " ratio ",
      options.pipeline.backward_ratio, " transfer ", options.pipeline.transfer, " shares [",
      absl::StrJoin(options.pipeline.stage_shares, ","), "]; mini-batches of ", m.size,
      m.group_count > 0 ? absl::StrCat(m.group_count, " groups") : "",
      m.last == LastMiniBatch::kSmaller ? ", the last smaller," : "", " order ",
      static_cast<int>(m.order), " seed ", m.seed, " group policy ", static_cast<int>(m.groups),
      " delay ", m.max_delay, DescribeSelection(options), "; overlong ",
      static_cast<int>(options.overlong), "; cost ", options.cost_model.per_token, " ",
      options.cost_model.per_token_squared, " ", options.cost_model.per_microbatch, " ",
      options.cost_model.per_sequence, "; exchange",
      absl::StrJoin(options.cost_model.exchange, ",",
                    [](std::string* out, const ContextExchange& exchange) {
                      absl::StrAppend(out, " ", exchange.up_to_size, ":", exchange.per_token);
                    }),
      options.cost_model.exchange_overlaps ? " overlaps" : "", "; synchronization ",
      static_cast<int>(options.synchronization), " effort ", static_cast<int>(options.effort),
      options.allow_empty_microbatches ? "; empty micro-batches allowed" : "");
  if (!shared_prefixes.empty()) {
    absl::StrAppend(&text, "; prefixes [", absl::StrJoin(shared_prefixes, ","), "] with [",
                    absl::StrJoin(shared_with, ","), "]");
  }
  text += DescribeLoads();
  for (const PassOptions& pass : options.passes) {
    absl::StrAppend(&text, "; pass \"", pass.name, "\": budget ", pass.max_tokens_per_microbatch,
                    " multiple ", pass.length_multiple, " minimum ", pass.min_microbatches,
                    " count multiple ", pass.microbatch_count_multiple, " max sequences ",
                    pass.max_sequences_per_microbatch, " sequence multiple ",
                    pass.sequence_count_multiple, " sharding ", static_cast<int>(pass.sharding),
                    pass.sequence_counts == EqualCounts::kExact       ? " equal counts"
                    : pass.sequence_counts == EqualCounts::kWithinOne ? " counts within one"
                                                                      : "",
                    " order ", static_cast<int>(pass.order), " balance on ",
                    static_cast<int>(pass.balance_on),
                    pass.ignore_mini_batches ? " ignores mini-batches" : "",
                    pass.forward_only ? " forward only" : "",
                    pass.ignore_shared_prefixes ? " ignores prefixes" : "", " limits [",
                    absl::StrJoin(pass.limits, ",",
                                  [](std::string* out, const LoadLimit& limit) {
                                    absl::StrAppend(out, limit.load, ":", limit.max_per_microbatch);
                                  }),
                    "] kinds per slot ", static_cast<int>(pass.kinds_per_slot));
    if (pass.layout == Layout::kPadded) {
      absl::StrAppend(&text, " padded, scan ", static_cast<int>(pass.scan));
    } else {
      absl::StrAppend(&text, " packed, packer ", static_cast<int>(pass.packer), " rows ",
                      static_cast<int>(pass.rows), " buckets [", absl::StrJoin(pass.buckets, ","),
                      "]");
    }
  }
  return text;
}

GeneratedRequest GenerateRequest(uint64_t seed) {
  const Family family;
  return RequestGenerator(family, seed).Generate();
}

GeneratedRequest GenerateDynamicRequest(uint64_t seed) {
  GeneratedRequest request = GenerateRequest(seed);
  MakeDynamic(seed, request);
  return request;
}

GeneratedRequest GenerateSmallRequest(uint64_t seed) {
  const Family family = {
      .most_sequences = kMaxSmallSequences, .ranks = {1, 2, 2, 3}, .shuffles = false};
  return RequestGenerator(family, seed).Generate();
}

GeneratedRequest GeneratePresetRequest(absl::string_view preset, uint64_t seed) {
  const Family family = {.preset = preset};
  GeneratedRequest request = RequestGenerator(family, seed).Generate();
  if (request.options.passes[0].sharding == Sharding::kMegatronDynamicCp) {
    MakeDynamic(seed, request);
    request.options.passes[0].sharding = Sharding::kMegatronDynamicCp;
  }
  if (IsOfTrees(request.options.passes[0].sharding)) {
    AddSharedPrefixes(seed, &request);
    GroupPolicy& groups = request.options.mini_batches.groups;
    if (groups != GroupPolicy::kIgnore) groups = GroupPolicy::kSameMiniBatch;
  }
  return request;
}

void AddSelection(uint64_t seed, GeneratedRequest* request) {
  RandomStream random(seed);
  const uint64_t count = request->lengths.size();
  if (random.Chance(60)) {
    for (size_t i = 0; i < count; ++i) {
      request->ages.push_back(static_cast<uint32_t>(random.Between(0, 4)));
    }
  }
  Selection& selection = request->options.selection.emplace();
  if (!request->ages.empty() && random.Chance(70)) {
    selection.max_age = static_cast<uint32_t>(random.Between(3, 6));
  }
  selection.max_overtaking = static_cast<uint32_t>(random.Between(0, 6));
  const std::set<uint32_t> groups(request->group_ids.begin(), request->group_ids.end());
  if (!groups.empty() && random.Chance(50)) {
    selection.groups = static_cast<uint32_t>(random.Between(1, groups.size()));
  } else if (random.Chance(70)) {
    selection.sequences = static_cast<uint32_t>(random.Between(1, count));
  } else {
    selection.max_tokens = random.Between(1, 400 * count);
  }
  MiniBatching& mini_batches = request->options.mini_batches;
  mini_batches.size = 0;
  mini_batches.group_count = 0;
  const auto parts = static_cast<uint32_t>(random.Between(2, 4));
  if (selection.sequences >= parts && random.Chance(40)) {
    mini_batches.size = selection.sequences / parts;
    selection.sequences = mini_batches.size * parts;
    mini_batches.max_delay = static_cast<uint32_t>(random.Between(0, 2));
  } else if (selection.groups >= parts && random.Chance(40)) {
    mini_batches.group_count = selection.groups / parts;
    if (mini_batches.last == LastMiniBatch::kExact) {
      selection.groups = mini_batches.group_count * parts;
    }
    mini_batches.max_delay = static_cast<uint32_t>(random.Between(0, 2));
  }
}

}  // namespace batchplan::testing
