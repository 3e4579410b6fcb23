#include "tests/support/generators.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace batchplan::testing {
namespace {

// e^x for |x| < 30 from additions and multiplications alone, which IEEE 754 fixes to the last bit.
double Exp(double x) {
  constexpr int kHalvings = 10;
  const double reduced = x / (1 << kHalvings);
  double term = 1;
  double sum = 1;
  for (int i = 1; i <= 12; ++i) {
    term *= reduced / i;
    sum += term;
  }
  for (int i = 0; i < kHalvings; ++i) sum *= sum;
  return sum;
}

uint32_t Clip(double length, uint32_t low, uint32_t high) {
  if (length <= low) return low;
  if (length >= high) return high;
  return static_cast<uint32_t>(length);
}

uint32_t Lognormal(RandomStream& random, double median, double sigma, uint32_t low, uint32_t high) {
  return Clip(median * Exp(sigma * random.Normal()), low, high);
}

// A chance in proportion to 1 / length.
uint32_t Zipf(RandomStream& random, uint32_t low, uint32_t octaves) {
  constexpr double kLog2 = 0.69314718055994530942;
  return Clip(low * Exp(random.Uniform() * octaves * kLog2), low, low << octaves);
}

template <typename Make>
std::vector<uint32_t> Repeat(size_t count, uint64_t seed, Make make) {
  RandomStream random(seed);
  std::vector<uint32_t> lengths;
  lengths.reserve(count);
  for (size_t i = 0; i < count; ++i) lengths.push_back(make(random));
  return lengths;
}

Topology GenerateTopology(RandomStream& random) {
  Topology topology;
  topology.data_parallel = random.OneOf<uint32_t>({1, 1, 2, 2, 3, 4, 8});
  topology.context_parallel = random.OneOf<uint32_t>({1, 1, 1, 2, 3});
  topology.tensor_parallel = random.OneOf<uint32_t>({1, 1, 2, 4});
  topology.pipeline_parallel = random.OneOf<uint32_t>({1, 1, 1, 2, 3});
  topology.virtual_pipeline = random.OneOf<uint32_t>({1, 1, 2});
  topology.sequence_parallel = random.Chance(40);
  return topology;
}

CostModel GenerateCostModel(RandomStream& random) {
  switch (random.Between(0, 4)) {
    case 0:
      return {1, 0, 0};
    case 1:
      return {0, 1.0 / 24576, 0};
    case 2:
      return {0.25, 0.0001, 1000};
    case 3:
      return {0, 0, 1};
    default:
      return {};
  }
}

// A multiple of the length multiple that the topology and the pass give.
uint32_t RowUnit(const Topology& topology, const PassOptions& pass) {
  const uint32_t context = topology.context_parallel > 1 ? 2 * topology.context_parallel : 1;
  return context * topology.tensor_parallel * pass.length_multiple;
}

PassOptions GeneratePass(RandomStream& random, const Topology& topology) {
  PassOptions pass;
  pass.name = random.Chance(50) ? "train" : "";
  pass.length_multiple = random.OneOf<uint32_t>({1, 1, 1, 2, 5, 16});
  // Budgets that the multiple divides, and budgets that it does not.
  const uint32_t unit = RowUnit(topology, pass);
  const auto units = static_cast<uint32_t>(random.Between(2, 12));
  pass.max_tokens_per_microbatch =
      unit * units + (random.Chance(40) ? static_cast<uint32_t>(random.Between(0, unit - 1)) : 0);
  pass.min_microbatches = random.OneOf<uint32_t>({1, 1, 1, 2, 3});
  pass.microbatch_count_multiple = random.OneOf<uint32_t>({1, 1, 1, 2, 3});
  if (random.Chance(25)) {
    pass.max_sequences_per_microbatch = static_cast<uint32_t>(random.Between(1, 6));
  }
  pass.balance_on = random.OneOf<BalanceOn>({BalanceOn::kTokens, BalanceOn::kCost});
  pass.packer = random.OneOf<Packer>({Packer::kConcatenative, Packer::kFirstFitDecreasing,
                                      Packer::kFirstFitShuffle, Packer::kModifiedFirstFitDecreasing,
                                      Packer::kBestFitDecreasing});
  pass.sharding = random.OneOf<Sharding>({Sharding::kDealBins, Sharding::kContiguous});
  pass.equal_sequence_counts = pass.sharding == Sharding::kContiguous && random.Chance(30);
  pass.order =
      random.OneOf<MicrobatchOrder>({MicrobatchOrder::kAsAssigned, MicrobatchOrder::kLargestFirst,
                                     MicrobatchOrder::kSmallAtBothEnds});
  pass.rows = random.OneOf<RowPadding>({RowPadding::kNone, RowPadding::kNone, RowPadding::kLongest,
                                        RowPadding::kCapacity, RowPadding::kBuckets});
  if (pass.rows == RowPadding::kBuckets) {
    for (uint32_t bucket = 1; bucket < units; ++bucket) {
      if (random.Chance(40)) pass.buckets.push_back(bucket * unit);
    }
    pass.buckets.push_back(units * unit);
  }
  return pass;
}

MiniBatching GenerateMiniBatching(RandomStream& random, size_t count) {
  MiniBatching mini_batches;
  if (random.Chance(60)) {
    std::vector<uint32_t> divisors;
    for (uint32_t size = 1; size <= count; ++size) {
      if (count % size == 0 && count / size <= 4) divisors.push_back(size);
    }
    mini_batches.size = random.OneOf(divisors);
  }
  mini_batches.order = random.OneOf<Order>({Order::kPreserved, Order::kShuffled});
  mini_batches.seed = random.Between(0, 1000);
  return mini_batches;
}

}  // namespace

uint64_t Cases(uint64_t count) {
  const char* const scale = std::getenv("BATCHPLAN_TEST_SCALE");
  return scale == nullptr ? count : count * std::max(1, std::atoi(scale));
}

uint64_t RandomStream::Between(uint64_t low, uint64_t high) {
  const uint64_t span = high - low + 1;
  // The remainder prefers low numbers by less than span / 2^64. A span of 0 is all of 2^64.
  return span == 0 ? bits_() : low + bits_() % span;
}

double RandomStream::Uniform() { return static_cast<double>(bits_() >> 11) * 0x1p-53; }

double RandomStream::Normal() {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += Uniform();
  return sum;
}

std::vector<uint32_t> MathsLengths(size_t count, uint64_t seed) {
  return Repeat(count, seed,
                [](RandomStream& random) { return Lognormal(random, 900, 0.9, 16, 16384); });
}

std::vector<uint32_t> LongCotLengths(size_t count, uint64_t seed) {
  return Repeat(count, seed,
                [](RandomStream& random) { return Lognormal(random, 4000, 1.1, 64, 65536); });
}

std::vector<uint32_t> ZipfLengths(size_t count, uint64_t seed) {
  return Repeat(count, seed, [](RandomStream& random) { return Zipf(random, 8, 10); });
}

std::vector<uint32_t> AgenticLengths(size_t count, uint64_t seed) {
  return Repeat(count, seed, [](RandomStream& random) {
    return Lognormal(random, random.Chance(60) ? 2000 : 24000, 0.2, 64, 32768);
  });
}

std::vector<uint32_t> UniformLengths(size_t count, uint64_t seed, uint32_t capacity) {
  return Repeat(count, seed, [capacity](RandomStream& random) {
    return static_cast<uint32_t>(random.Between(capacity / 4, capacity / 2));
  });
}

std::vector<uint32_t> TripletLengths(size_t triplets, uint64_t seed, uint32_t capacity) {
  RandomStream random(seed);
  std::vector<uint32_t> lengths;
  lengths.reserve(3 * triplets);
  const uint32_t least = capacity / 4 + 1;
  const uint32_t most = (capacity - 1) / 2;
  for (size_t t = 0; t < triplets; ++t) {
    // The first leaves room for two more of the least, the second keeps the third within limits.
    const auto first =
        static_cast<uint32_t>(random.Between(least, std::min(most, capacity - 2 * least)));
    const uint32_t rest = capacity - first;
    const auto second = static_cast<uint32_t>(
        random.Between(std::max(least, rest - most), std::min(most, rest - least)));
    lengths.insert(lengths.end(), {first, second, rest - second});
  }
  for (size_t i = lengths.size(); i > 1; --i) {
    std::swap(lengths[i - 1], lengths[random.Between(0, i - 1)]);
  }
  return lengths;
}

std::string GeneratedRequest::Describe() const {
  const Topology& t = options.topology;
  std::string text = absl::StrCat(
      "lengths [", absl::StrJoin(lengths, ","), "] pad_to ", pad_to, "; DP ", t.data_parallel,
      " CP ", t.context_parallel, " TP ", t.tensor_parallel, " PP ", t.pipeline_parallel, " VPP ",
      t.virtual_pipeline, t.sequence_parallel ? " SP" : "", "; mini-batches of ",
      options.mini_batches.size, " order ", static_cast<int>(options.mini_batches.order), " seed ",
      options.mini_batches.seed, "; overlong ", static_cast<int>(options.overlong), "; cost ",
      options.cost_model.per_token, " ", options.cost_model.per_token_squared, " ",
      options.cost_model.per_microbatch, "; synchronization ",
      static_cast<int>(options.synchronization));
  for (const PassOptions& pass : options.passes) {
    absl::StrAppend(
        &text, "; pass: budget ", pass.max_tokens_per_microbatch, " multiple ",
        pass.length_multiple, " minimum ", pass.min_microbatches, " count multiple ",
        pass.microbatch_count_multiple, " max sequences ", pass.max_sequences_per_microbatch,
        " packer ", static_cast<int>(pass.packer), " sharding ", static_cast<int>(pass.sharding),
        pass.equal_sequence_counts ? " equal counts" : "", " order ", static_cast<int>(pass.order),
        " balance on ", static_cast<int>(pass.balance_on), " rows ", static_cast<int>(pass.rows),
        " buckets [", absl::StrJoin(pass.buckets, ","), "]");
  }
  return text;
}

GeneratedRequest GenerateRequest(uint64_t seed) {
  RandomStream random(seed);
  GeneratedRequest request;
  PlanOptions& options = request.options;
  options.topology = GenerateTopology(random);
  options.passes.push_back(GeneratePass(random, options.topology));
  PassOptions& pass = options.passes.front();
  options.cost_model = GenerateCostModel(random);
  options.synchronization =
      random.OneOf<Synchronization>({Synchronization::kLockstep, Synchronization::kAccumulated});
  options.effort = random.OneOf<Effort>({Effort::kFast, Effort::kDefault, Effort::kThorough});
  options.overlong = random.OneOf<OverlongPolicy>(
      {OverlongPolicy::kReject, OverlongPolicy::kTruncate, OverlongPolicy::kDrop});

  // Mostly enough sequences for the ranks and minimums, sometimes too few.
  const uint64_t floor = random.Chance(90) ? options.topology.data_parallel * uint64_t{4} : 1;
  const size_t count = random.Between(floor, floor + 64);
  const uint32_t unit = RowUnit(options.topology, pass);
  const uint32_t fitting = pass.max_tokens_per_microbatch / unit * unit;
  const bool some_overlong =
      options.overlong == OverlongPolicy::kReject ? random.Chance(5) : random.Chance(70);
  // Few distinct lengths make many ties.
  const uint64_t kinds = random.OneOf<uint64_t>({fitting, fitting, 3});
  for (size_t i = 0; i < count; ++i) {
    uint64_t length = random.Between(1, fitting);
    if (kinds < fitting) length = (1 + length % kinds) * fitting / (kinds + 1);
    if (some_overlong && random.Chance(10)) length = random.Between(fitting + 1, 2 * fitting);
    request.lengths.push_back(static_cast<uint32_t>(std::max<uint64_t>(length, 1)));
  }
  options.mini_batches = GenerateMiniBatching(random, count);
  if (random.Chance(25)) {
    // Ids that no policy heeds.
    for (size_t i = 0; i < count; ++i) {
      request.group_ids.push_back(static_cast<uint32_t>(random.Between(0, 9)));
    }
  }
  if (random.Chance(25)) {
    request.pad_to = *std::max_element(request.lengths.begin(), request.lengths.end()) +
                     static_cast<uint32_t>(random.Between(0, 100));
  }
  return request;
}

}  // namespace batchplan::testing
