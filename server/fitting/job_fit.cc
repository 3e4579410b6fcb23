#include "server/fitting/job_fit.h"

#include <algorithm>
#include <array>
#include <bit>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/base/fnv_hash.h"

namespace batchplan {
namespace {

TimingSample SampleOf(const ReportedMicrobatch& microbatch) {
  return {.tokens = static_cast<double>(microbatch.tokens),
          .tokens_squared = static_cast<double>(microbatch.tokens_squared),
          .milliseconds = microbatch.milliseconds / microbatch.model_share,
          .sequences = static_cast<double>(microbatch.sequences),
          .context_parallel = static_cast<double>(microbatch.context_parallel),
          .loads = microbatch.loads};
}

// Brings the loads of a sample of `report` into the order of `names`, which are the same names.
void OrderLoads(const StepReport& report, const std::vector<std::string>& names,
                std::vector<double>& loads) {
  if (report.loads == names) return;
  const std::vector<double> reported = loads;
  for (size_t i = 0; i < names.size(); ++i) {
    loads[i] = reported[static_cast<size_t>(std::ranges::find(report.loads, names[i]) -
                                            report.loads.begin())];
  }
}

// Whether `report` is not among the latest kSeenReports. Adds it to them.
bool IsNew(const StepReport& report, SeenReports& seen) {
  FnvHash hash;
  hash.Add(report.step);
  for (const ReportedMicrobatch& microbatch : report.microbatches) {
    hash.Add(microbatch.tokens);
    hash.Add(microbatch.tokens_squared);
    hash.Add(std::bit_cast<uint64_t>(microbatch.milliseconds));
    hash.Add(microbatch.peak_bytes);
    const bool divided = microbatch.context_parallel > 1 || microbatch.model_share < 1;
    if (microbatch.sequences > 0 || divided) hash.Add(microbatch.sequences);
    if (!divided) continue;
    hash.Add(uint64_t{microbatch.context_parallel});
    hash.Add(std::bit_cast<uint64_t>(microbatch.model_share));
  }
  for (size_t i = 0; i < report.loads.size(); ++i) {
    hash.Add(report.loads[i]);
    for (const ReportedMicrobatch& microbatch : report.microbatches) {
      hash.Add(std::bit_cast<uint64_t>(microbatch.loads[i]));
    }
  }
  if (std::ranges::find(seen.hashes, hash.value()) != seen.hashes.end()) return false;
  if (seen.hashes.size() == kSeenReports) seen.hashes.erase(seen.hashes.begin());
  seen.hashes.push_back(hash.value());
  return true;
}

static_assert(kMaxReportedLoads == kMaxFittedLoads);

constexpr absl::string_view kMark = "BPFT";
constexpr size_t kHeaderBytes = 8;
constexpr uint32_t kVersionWithoutSequences = 1;
constexpr uint32_t kVersionWithoutContextParallel = 2;
constexpr uint32_t kVersionWithoutExchange = 3;
constexpr uint32_t kVersionWithoutLoads = 4;
constexpr size_t kHashBytes = 8;

class Writer {
 public:
  void Visit(uint64_t value) {
    for (int shift = 0; shift < 64; shift += 8) bytes_ += static_cast<char>(value >> shift);
  }
  void Visit(double value) { Visit(std::bit_cast<uint64_t>(value)); }
  void Visit(bool value) { Visit(uint64_t{value}); }
  void Visit(const std::string& value) {
    Visit(uint64_t{value.size()});
    bytes_ += value;
  }
  // Writes the size of a list, which has no limit here.
  template <typename T>
  bool VisitCount(const std::vector<T>& list, size_t /*most*/) {
    Visit(uint64_t{list.size()});
    return true;
  }

  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(absl::string_view bytes) : rest_(bytes) {}

  void Visit(uint64_t& value) {
    value = 0;
    if (rest_.size() < 8) {
      complete_ = false;
      return;
    }
    for (size_t i = 0; i < 8; ++i) {
      value |= uint64_t{static_cast<unsigned char>(rest_[i])} << (8 * i);
    }
    rest_.remove_prefix(8);
  }
  void Visit(double& value) {
    uint64_t bits = 0;
    Visit(bits);
    value = std::bit_cast<double>(bits);
  }
  void Visit(bool& value) {
    uint64_t number = 0;
    Visit(number);
    if (number > 1) complete_ = false;
    value = number == 1;
  }
  void Visit(std::string& value) {
    uint64_t size = 0;
    Visit(size);
    if (size > rest_.size()) {
      complete_ = false;
      return;
    }
    value = std::string(rest_.substr(0, size));
    rest_.remove_prefix(size);
  }
  template <typename T>
  bool VisitCount(std::vector<T>& list, size_t most) {
    uint64_t count = 0;
    Visit(count);
    if (count > most) {
      complete_ = false;
      return false;
    }
    list.resize(count);
    return true;
  }

  // Whether the state had everything, and nothing more.
  bool complete() const { return complete_ && rest_.empty(); }

 private:
  absl::string_view rest_;
  bool complete_ = true;
};

// Visits one number for each column that the layout has.
template <typename Visitor, typename Values>
void VisitColumns(Visitor& visitor, size_t columns, Values& values) {
  for (size_t column = 0; column < columns; ++column) visitor.Visit(values[column]);
}

template <typename Visitor, typename Sums>
void VisitSums(Visitor& visitor, size_t columns, Sums& sums) {
  for (size_t line = 0; line < columns; ++line) VisitColumns(visitor, columns, sums.matrix[line]);
  VisitColumns(visitor, columns, sums.right);
  visitor.Visit(sums.square);
  visitor.Visit(sums.weight);
}

template <typename Visitor, typename Classes>
void VisitClasses(Visitor& visitor, Classes& classes) {
  if (!visitor.VisitCount(classes, kPeakClasses)) return;
  for (auto& peaks : classes) {
    visitor.Visit(peaks.min_tokens);
    visitor.Visit(peaks.max_tokens);
    visitor.Visit(peaks.min_bytes);
    visitor.Visit(peaks.max_bytes);
  }
}

// Describes the layout once, for reading and writing. The writer's `Fit` is a const JobFit.
template <typename Visitor, typename Fit>
void VisitFit(Visitor& visitor, uint32_t version, Fit& fit) {
  const bool has_sequences = version > kVersionWithoutSequences;
  size_t columns = has_sequences ? kFirstLoad : kFirstLoad - 1;
  if (version > kVersionWithoutLoads) {
    if (!visitor.VisitCount(fit.costs.load_names, kMaxFittedLoads)) return;
    for (auto& name : fit.costs.load_names) visitor.Visit(name);
    visitor.Visit(fit.costs.with_loads);
    visitor.Visit(fit.costs.loads_in_sums);
    columns += fit.costs.load_names.size();
  }
  if (!visitor.VisitCount(fit.costs.recent, kRecentSamples)) return;
  for (auto& sample : fit.costs.recent) {
    visitor.Visit(sample.tokens);
    visitor.Visit(sample.tokens_squared);
    visitor.Visit(sample.milliseconds);
    if (has_sequences) visitor.Visit(sample.sequences);
    if (version > kVersionWithoutContextParallel) visitor.Visit(sample.context_parallel);
    if (version <= kVersionWithoutLoads) continue;
    if (!visitor.VisitCount(sample.loads, kMaxFittedLoads)) return;
    for (auto& load : sample.loads) visitor.Visit(load);
  }
  VisitSums(visitor, columns, fit.costs.sums);
  if (version > kVersionWithoutExchange) {
    if (!visitor.VisitCount(fit.costs.sizes, kMaxContextSizes)) return;
    for (auto& size : fit.costs.sizes) {
      visitor.Visit(size.ranks);
      VisitSums(visitor, columns, size.sums);
    }
    if (!visitor.VisitCount(fit.costs.model.exchange, kMaxContextSizes)) return;
    for (auto& exchange : fit.costs.model.exchange) {
      visitor.Visit(exchange.ranks);
      visitor.Visit(exchange.per_token);
    }
  }
  VisitColumns(visitor, columns, fit.costs.model.coefficients);
  visitor.Visit(fit.costs.model.scale);
  visitor.Visit(fit.costs.model.typical_milliseconds);
  visitor.Visit(fit.costs.samples);
  if (has_sequences) visitor.Visit(fit.costs.said);
  VisitClasses(visitor, fit.memory.current);
  VisitClasses(visitor, fit.memory.previous);
  visitor.Visit(fit.memory.in_current);
  if (!visitor.VisitCount(fit.seen.hashes, kSeenReports)) return;
  for (auto& hash : fit.seen.hashes) visitor.Visit(hash);
}

uint64_t HashOf(absl::string_view bytes) {
  FnvHash hash;
  hash.Add(bytes);
  return hash.value();
}

// Sums, coefficients and scales are 0 or between 1 / kLargest and kLargest. Reports never lead
// beyond that, and whatever is computed from such numbers is finite.
constexpr double kLargest = 1e100;

bool IsReportedLoad(double load) {
  return load == 0 || (load >= kMinReportedLoad && load <= kMaxReportedLoad);
}

bool AreModerate(std::span<const double> values) {
  return std::ranges::all_of(
      values, [](double x) { return x == 0 || (x >= 1 / kLargest && x <= kLargest); });
}

// Whether the sample is within the limits of reports; NaN is not.
bool IsSample(const TimingSample& sample) {
  return sample.tokens >= 1 && sample.tokens <= static_cast<double>(kMaxReportedTokens) &&
         sample.tokens_squared >= sample.tokens &&
         sample.tokens_squared <= sample.tokens * sample.tokens &&
         sample.milliseconds >= kMinReportedMilliseconds &&
         sample.milliseconds <= kMaxReportedMilliseconds && sample.sequences >= 0 &&
         sample.sequences <= sample.tokens && sample.context_parallel >= 1 &&
         sample.context_parallel <= kMaxReportedContextParallel &&
         std::ranges::all_of(sample.loads, IsReportedLoad);
}

bool SaysSequences(const TimingSample& sample) { return sample.sequences > 0; }

// Whether any sample has a number of sequences. If none does, all sums of them are 0.
bool HasSequences(const CostFit& fit) {
  return fit.said > 0 || std::ranges::any_of(fit.recent, SaysSequences);
}

bool HasSeveralSizes(const CostFit& fit) {
  return std::ranges::any_of(fit.recent, [&](const TimingSample& sample) {
    return sample.context_parallel != fit.recent.front().context_parallel;
  });
}

// The first version whose layout has everything in the fit.
uint32_t VersionOf(const CostFit& fit) {
  if (!fit.load_names.empty()) return kFitStateVersion;
  const auto shared = [](const TimingSample& sample) { return sample.context_parallel != 1; };
  if (!fit.sizes.empty() || !fit.model.exchange.empty() || HasSeveralSizes(fit)) {
    return kVersionWithoutLoads;
  }
  if (std::ranges::any_of(fit.recent, shared)) return kVersionWithoutExchange;
  return HasSequences(fit) ? kVersionWithoutContextParallel : kVersionWithoutSequences;
}

// Whether the fit has as many samples as it counts.
bool CountsAgree(const CostFit& fit) {
  const uint64_t recent = fit.recent.size();
  // Every restart keeps at least half of the samples.
  if (recent > fit.samples || recent < std::min<uint64_t>(fit.samples, kRecentSamples / 2)) {
    return false;
  }
  const auto silent = std::find_if_not(fit.recent.rbegin(), fit.recent.rend(), SaysSequences);
  const auto said = static_cast<uint64_t>(silent - fit.recent.rbegin());
  return said == recent ? fit.said >= said && fit.said <= fit.samples : fit.said == said;
}

// Whether exactly the latest `with_loads` samples have loads.
bool LoadsAgree(const CostFit& fit) {
  const size_t recent = fit.recent.size();
  const size_t without = recent - std::min<uint64_t>(recent, fit.with_loads);
  for (size_t i = 0; i < recent; ++i) {
    if (fit.recent[i].loads.size() != (i < without ? 0 : fit.load_names.size())) return false;
  }
  if (fit.load_names.empty()) return fit.with_loads == 0 && !fit.loads_in_sums;
  const StepReport named = {.microbatches = {}, .loads = fit.load_names};
  return fit.with_loads <= fit.samples && named.Validate().ok() &&
         (!fit.loads_in_sums || (without == 0 && fit.sums.weight > 0));
}

bool AreSums(const NormalEquations& sums) {
  if (!std::ranges::all_of(sums.matrix, AreModerate) || !AreModerate(sums.right) ||
      !AreModerate(std::array{sums.square, sums.weight})) {
    return false;
  }
  if (sums.weight == 0) return true;
  // Tokens, squares and micro-batches are in every row.
  for (size_t column = 0; column < kFirstLoad - 1; ++column) {
    if (sums.matrix[column][column] == 0 || sums.right[column] == 0) return false;
  }
  return true;
}

bool IsContextSize(double ranks) { return ranks >= 1 && ranks <= kMaxReportedContextParallel; }

// Whether sizes ascend and all have rows.
bool AreSizes(const SumsBySize& sizes) {
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (!IsContextSize(sizes[i].ranks) || !AreSums(sizes[i].sums) || sizes[i].sums.weight == 0) {
      return false;
    }
    if (i > 0 && sizes[i - 1].ranks >= sizes[i].ranks) return false;
  }
  return true;
}

bool AreExchanges(const std::vector<SizeExchange>& exchange) {
  for (size_t i = 0; i < exchange.size(); ++i) {
    if (!IsContextSize(exchange[i].ranks) || !AreModerate(std::array{exchange[i].per_token})) {
      return false;
    }
    if (i > 0 && exchange[i - 1].ranks >= exchange[i].ranks) return false;
  }
  return true;
}

// Checks everything that AddSample and Costs rely on.
bool IsCostFit(const CostFit& fit) {
  if (!std::ranges::all_of(fit.recent, IsSample) || !CountsAgree(fit) || !LoadsAgree(fit)) {
    return false;
  }
  const RobustFit& model = fit.model;
  // With fewer samples nothing is fitted yet.
  if (fit.samples < kRefreshSamples) {
    return model == RobustFit() && fit.sums == NormalEquations() && fit.sizes.empty();
  }
  if (!AreSums(fit.sums) || !AreModerate(model.coefficients) ||
      !AreModerate(std::array{model.scale, model.typical_milliseconds})) {
    return false;
  }
  if (!AreSizes(fit.sizes) || !AreExchanges(model.exchange)) return false;
  if (!fit.sizes.empty() && fit.sums.weight == 0) return false;
  if (fit.sums.weight > 0 && fit.recent.size() != kRecentSamples) return false;
  const Columns known = ColumnsOf(fit.recent);
  for (size_t column = kFirstLoad - 1; column < kColumns; ++column) {
    const bool in_sums = fit.sums.matrix[column][column] > 0;
    if ((model.coefficients[column] > 0 || in_sums) && !HasColumn(known, column)) return false;
    if (column >= kFirstLoad && in_sums && !fit.loads_in_sums) return false;
  }
  return model.typical_milliseconds > 0 && model.scale >= kLeastScale;
}

bool AreClasses(const std::vector<PeakClass>& classes) {
  for (size_t i = 0; i < classes.size(); ++i) {
    const PeakClass& peaks = classes[i];
    if (peaks.min_tokens < 1 || peaks.max_tokens < peaks.min_tokens || peaks.min_bytes < 1 ||
        peaks.max_bytes < peaks.min_bytes || peaks.max_tokens > kMaxReportedTokens ||
        peaks.max_bytes > kMaxReportedBytes ||
        PeakClassOf(peaks.min_tokens) != PeakClassOf(peaks.max_tokens)) {
      return false;
    }
    if (i > 0 && PeakClassOf(classes[i - 1].min_tokens) >= PeakClassOf(peaks.min_tokens)) {
      return false;
    }
  }
  return true;
}

// Checks everything that AddPeak and SuggestTokens rely on.
bool IsMemoryFit(const MemoryFit& fit) {
  return AreClasses(fit.current) && AreClasses(fit.previous) &&
         fit.current.size() <= fit.in_current && fit.in_current <= kPeakGeneration;
}

}  // namespace

FittedCosts CostsOf(const StepReport& report) {
  std::vector<TimingSample> samples;
  for (const ReportedMicrobatch& microbatch : report.microbatches) {
    samples.push_back(SampleOf(microbatch));
  }
  return CostsOf(samples);
}

bool AddReport(const StepReport& report, JobFit& fit) {
  if (report.microbatches.empty() || !IsNew(report, fit.seen)) return false;
  if (!std::ranges::all_of(report.microbatches, &ReportedMicrobatch::empty)) {
    SetLoads(report.loads, fit.costs);
  }
  for (const ReportedMicrobatch& microbatch : report.microbatches) {
    if (microbatch.empty()) continue;
    TimingSample sample = SampleOf(microbatch);
    OrderLoads(report, fit.costs.load_names, sample.loads);
    AddSample(sample, fit.costs);
    if (microbatch.peak_bytes > 0) AddPeak(microbatch.tokens, microbatch.peak_bytes, fit.memory);
  }
  return true;
}

std::string SerializeFit(const JobFit& fit) {
  const uint32_t version = VersionOf(fit.costs);
  Writer writer;
  writer.bytes_ = std::string(kMark);
  for (int shift = 0; shift < 32; shift += 8) {
    writer.bytes_ += static_cast<char>(version >> shift);
  }
  VisitFit(writer, version, fit);
  writer.Visit(HashOf(writer.bytes_));
  return std::move(writer.bytes_);
}

absl::StatusOr<JobFit> ParseFit(absl::string_view state) {
  JobFit fit;
  if (state.empty()) return fit;
  const auto corrupt = [&state] {
    return absl::DataLossError(absl::StrCat("the stored fit of ", state.size(),
                                            " bytes is no state that batchplan wrote"));
  };
  if (state.size() < kHeaderBytes + kHashBytes || state.substr(0, kMark.size()) != kMark) {
    return corrupt();
  }
  uint32_t version = 0;
  for (size_t i = 0; i < 4; ++i) {
    version |= uint32_t{static_cast<unsigned char>(state[kMark.size() + i])} << (8 * i);
  }
  if (version < kVersionWithoutSequences || version > kFitStateVersion) {
    return absl::UnimplementedError(absl::StrCat("the stored fit is of version ", version,
                                                 ", this server reads up to ", kFitStateVersion));
  }
  const size_t hashed = state.size() - kHashBytes;
  uint64_t hash = 0;
  Reader(state.substr(hashed)).Visit(hash);
  if (hash != HashOf(state.substr(0, hashed))) return corrupt();
  Reader reader(state.substr(kHeaderBytes, hashed - kHeaderBytes));
  VisitFit(reader, version, fit);
  if (!reader.complete() || !IsCostFit(fit.costs) || !IsMemoryFit(fit.memory)) return corrupt();
  // Sums over several group sizes do not show what each size exchanges.
  if (version == kVersionWithoutExchange && HasSeveralSizes(fit.costs)) fit.costs.sums = {};
  return fit;
}

}  // namespace batchplan
