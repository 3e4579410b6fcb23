#include "server/planner/packing/column_generation.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/numeric/int128.h"
#include "server/planner/packing/bin_search.h"
#include "server/planner/packing/covering_program.h"
#include "server/planner/packing/lower_bounds.h"

namespace batchplan {
namespace {

// A kind of which a filling has at most `times` items.
struct Choice {
  uint32_t kind = 0;
  uint32_t length = 0;
  uint64_t value = 0;
  uint32_t times = 0;
};

std::vector<Choice> ByValuePerLength(const Kinds& kinds, std::span<const uint32_t> demand,
                                     std::span<const uint64_t> values) {
  std::vector<Choice> choices;
  for (uint32_t kind = 0; kind < kinds.size(); ++kind) {
    const uint32_t length = kinds.lengths[kind];
    const uint32_t times = std::min(demand[kind], kinds.capacity / length);
    if (times > 0 && values[kind] > 0) choices.push_back({kind, length, values[kind], times});
  }
  std::stable_sort(choices.begin(), choices.end(), [](const Choice& a, const Choice& b) {
    return a.value * b.length > b.value * a.length;
  });
  return choices;
}

struct Branching {
  KnapsackFill fill;
  bool complete = false;
};

// Whether floor(dividend / divisor) is above `quotient`, without a division.
bool IsAbove(uint64_t dividend, uint64_t divisor, uint64_t quotient) {
  return dividend >= (absl::uint128(quotient) + 1) * divisor;
}

Branching Branch(std::span<const Choice> choices, uint32_t capacity, uint64_t more_than,
                 uint64_t& steps) {
  // The shortest length from each choice on.
  std::vector<uint64_t> shortest(choices.size() + 1, uint64_t{capacity} + 1);
  for (size_t i = choices.size(); i-- > 0;) {
    shortest[i] = std::min<uint64_t>(shortest[i + 1], choices[i].length);
  }
  std::vector<std::pair<size_t, uint32_t>> taken;  // (choice, times)
  std::vector<std::pair<size_t, uint32_t>> best;
  uint64_t best_value = more_than;
  uint64_t value = 0;
  uint32_t room = capacity;
  bool complete = true;
  for (size_t next = 0;;) {
    // Forward: as many of every choice as fit, while more than the best value is possible.
    for (; next < choices.size() && room >= shortest[next]; ++next) {
      const Choice& choice = choices[next];
      if (value <= best_value && !IsAbove(choice.value * room, choice.length, best_value - value)) {
        break;
      }
      if (steps == 0) {
        complete = false;
        break;
      }
      --steps;
      if (choice.length > room) continue;
      const uint32_t times = choice.times == 1 ? 1 : std::min(choice.times, room / choice.length);
      taken.emplace_back(next, times);
      value += choice.value * times;
      room -= choice.length * times;
    }
    if (value > best_value) {
      best_value = value;
      best = taken;
    }
    if (!complete || taken.empty()) break;
    // Back: one less of the last choice.
    auto& [last, times] = taken.back();
    value -= choices[last].value;
    room += choices[last].length;
    next = last + 1;
    if (--times == 0) taken.pop_back();
  }
  Branching result{.fill = {.kinds = {}, .value = best.empty() ? 0 : best_value},
                   .complete = complete};
  result.fill.at_most = best_value;
  for (const auto& [choice, times] : best) {
    result.fill.kinds.insert(result.fill.kinds.end(), times, choices[choice].kind);
  }
  return result;
}

KnapsackFill ByCapacity(std::span<const Choice> choices, uint32_t capacity, uint64_t more_than) {
  // most[c]: the greatest value that fits into c tokens; took[row][c]: whether it has the row's
  // item.
  std::vector<uint64_t> most(size_t{capacity} + 1, 0);
  std::vector<const Choice*> rows;
  for (const Choice& choice : choices) rows.insert(rows.end(), choice.times, &choice);
  std::vector<uint8_t> took(rows.size() * most.size(), 0);
  for (size_t row = 0; row < rows.size(); ++row) {
    uint8_t* const took_row = &took[row * most.size()];
    for (size_t room = capacity; room >= rows[row]->length; --room) {
      const uint64_t with = most[room - rows[row]->length] + rows[row]->value;
      took_row[room] = with > most[room];
      most[room] = std::max(most[room], with);
    }
  }
  KnapsackFill fill{.kinds = {}, .value = most[capacity], .at_most = most[capacity]};
  if (fill.value <= more_than) return {.kinds = {}, .value = 0, .at_most = more_than};
  size_t room = capacity;
  for (size_t row = rows.size(); row-- > 0;) {
    if (took[row * most.size() + room] == 0) continue;
    fill.kinds.push_back(rows[row]->kind);
    room -= rows[row]->length;
  }
  return fill;
}

}  // namespace

KnapsackFill FillKnapsack(const Kinds& kinds, std::span<const uint32_t> demand,
                          std::span<const uint64_t> values, uint64_t more_than, uint64_t& steps) {
  // The largest table, in bytes. An instance that needs a larger one gets kMaxBranches steps of
  // branch and bound instead.
  constexpr uint64_t kMaxTable = uint64_t{1} << 22;
  constexpr uint64_t kMaxBranches = uint64_t{1} << 14;
  const std::vector<Choice> choices = ByValuePerLength(kinds, demand, values);
  if (choices.empty()) return {.kinds = {}, .value = 0, .at_most = more_than};
  uint64_t table = 0;
  for (const Choice& choice : choices) table += uint64_t{choice.times} * kinds.capacity;
  const bool has_table = table <= std::min(kMaxTable, steps);

  const uint64_t allowed = has_table ? table / 4 : std::min(steps, kMaxBranches);
  uint64_t left = allowed;
  Branching branching = Branch(choices, kinds.capacity, more_than, left);
  steps -= std::min(steps, allowed - left + choices.size());
  if (branching.complete) return branching.fill;
  if (has_table) {
    steps -= std::min(steps, table);
    return ByCapacity(choices, kinds.capacity, more_than);
  }
  branching.fill.at_most = choices[0].value * kinds.capacity / choices[0].length;
  return branching.fill;
}

namespace {

// Integer prices are in units of 2^-31 bins.
constexpr uint64_t kBin = uint64_t{1} << 31;

// A dive leaves the rest to bin completion once it has at most kMaxCompletedItems items. Completion
// has kMaxCompletionSteps steps, each of which counts as several here.
constexpr uint64_t kMaxCompletedItems = 96;
constexpr uint64_t kMaxCompletionSteps = 20000;
constexpr uint64_t kStepsPerCompletion = 10;

// Pivots between two patterns. Patterns can be found by inexact prices, and most of more pivots
// would be undone.
constexpr size_t kPivotsPerPattern = 3;
constexpr size_t kManyPivots = 1000;

constexpr size_t kMaxDives = 40;
// A round of a dive fixes one more bin for every kBinsPerExtraBin that are still to be filled.
constexpr size_t kBinsPerExtraBin = 32;

CoveringProgram::Pattern PatternOf(std::vector<uint32_t> kinds) {
  std::sort(kinds.begin(), kinds.end());
  CoveringProgram::Pattern pattern;
  for (uint32_t kind : kinds) {
    if (pattern.empty() || pattern.back().first != kind) pattern.emplace_back(kind, 0);
    ++pattern.back().second;
  }
  return pattern;
}

std::vector<uint32_t> MostInABin(const Kinds& kinds) {
  std::vector<uint32_t> most(kinds.size());
  for (size_t kind = 0; kind < kinds.size(); ++kind) {
    most[kind] = std::min(kinds.demand[kind], kinds.capacity / kinds.lengths[kind]);
  }
  return most;
}

// The linear program over all patterns that the demand allows, solved for less and less demand.
class Relaxation {
 public:
  Relaxation(const Kinds& kinds, const std::stop_token& stop)
      : kinds_(kinds),
        stop_(stop),
        demand_(kinds.demand),
        program_(kinds.demand, MostInABin(kinds)),
        center_(kinds.size()) {
    ResetCenter();
  }

  const CoveringProgram& program() const { return program_; }
  std::span<const uint32_t> demand() const { return demand_; }
  // The bound for the present demand.
  uint64_t bound() const { return bound_; }

  void SetDemand(std::vector<uint32_t> demand) {
    demand_ = std::move(demand);
    program_.SetDemand(demand_);
    bound_ = 0;
  }

  // Generates patterns until the program needs at most `enough` bins, or the bound reaches its
  // value. Gives up as soon as the bound is `too_many`.
  void Solve(uint64_t enough, uint64_t too_many, uint64_t& steps) {
    double smoothing = 0.7;
    while (steps > 0 && !stop_.stop_requested()) {
      const bool optimal = program_.Solve(kPivotsPerPattern, steps, stop_);
      if (bound_ >= too_many) return;
      // The value of the program only falls: once it rounds up to the bound, the bound is final.
      if (static_cast<double>(std::max(enough, bound_)) + 1e-6 >= program_.Value()) break;
      const KnapsackFill fill = Price(smoothing, steps);
      if (!fill.kinds.empty()) {
        CoveringProgram::Pattern pattern = PatternOf(fill.kinds);
        double worth = 0;
        for (const auto& [kind, times] : pattern) worth += program_.prices()[kind] * times;
        if (worth > 1 + 1e-9) {
          program_.Add(std::move(pattern));
          smoothing = std::min(0.9, smoothing + 0.02);
          continue;
        }
      }
      // No pattern at the smoothed prices, and none at the program's own: solved.
      if (smoothing == 0 && optimal) break;
      smoothing = smoothing < 0.2 ? 0 : smoothing / 2;
    }
    // For the next, lower demand the prices must be right.
    program_.Solve(kManyPivots, steps, stop_);
  }

 private:
  // The most valuable pattern at prices between the best known and the program's.
  KnapsackFill Price(double smoothing, uint64_t& steps) {
    std::vector<double> mixed(kinds_.size());
    std::vector<uint64_t> values(kinds_.size());
    uint64_t worth = 0;
    for (size_t kind = 0; kind < kinds_.size(); ++kind) {
      mixed[kind] =
          smoothing * center_[kind] + (1 - smoothing) * std::max(0.0, program_.prices()[kind]);
      values[kind] = static_cast<uint64_t>(std::min(1.0, mixed[kind]) * static_cast<double>(kBin));
      worth += values[kind] * demand_[kind];
    }
    KnapsackFill fill = FillKnapsack(kinds_, demand_, values, kBin, steps);
    const uint64_t bound = CeilDiv(worth, fill.at_most);
    bound_ = std::max(bound_, bound);
    const double exact = static_cast<double>(worth) / static_cast<double>(fill.at_most);
    if (exact > best_exact_) {
      best_exact_ = exact;
      center_ = mixed;
    }
    return fill;
  }

  void ResetCenter() {
    best_exact_ = 0;
    for (size_t kind = 0; kind < kinds_.size(); ++kind) {
      center_[kind] = static_cast<double>(kinds_.lengths[kind]) / kinds_.capacity;
    }
  }

  const Kinds& kinds_;
  const std::stop_token& stop_;
  std::vector<uint32_t> demand_;
  CoveringProgram program_;
  std::vector<double> center_;
  double best_exact_ = 0;
  uint64_t bound_ = 0;
};

// Adds a bin of the pattern, without items that are not in demand, and deducts it from the demand.
void TakeBin(const CoveringProgram::Pattern& pattern, std::vector<uint32_t>& demand, Bins& bins) {
  std::vector<uint32_t> bin;
  for (const auto& [kind, times] : pattern) {
    const uint32_t taken = std::min(times, demand[kind]);
    bin.insert(bin.end(), taken, kind);
    demand[kind] -= taken;
  }
  if (!bin.empty()) bins.Add(bin);
}

bool IsInDemand(const CoveringProgram::Pattern& pattern, std::span<const uint32_t> demand) {
  return std::all_of(pattern.begin(), pattern.end(),
                     [&](const auto& part) { return part.second <= demand[part.first]; });
}

// Fixes in each round the pattern with the largest fraction, but in round `discrepancy`, counted
// from 1, the one with the second largest.
std::optional<Bins> Dive(const Kinds& kinds, Relaxation relaxation, size_t target,
                         size_t discrepancy, uint64_t& steps, const std::stop_token& stop) {
  Bins bins;
  size_t round = 0;
  std::vector<uint32_t> demand(relaxation.demand().begin(), relaxation.demand().end());
  while (steps > 0 && !stop.stop_requested()) {
    const uint64_t tokens = TokensIn(kinds, demand);
    if (tokens == 0) return bins;
    if (bins.size() + CeilDiv(tokens, kinds.capacity) > target) return std::nullopt;
    if (std::accumulate(demand.begin(), demand.end(), uint64_t{0}) <= kMaxCompletedItems) {
      uint64_t completion_steps = std::min(steps / kStepsPerCompletion, kMaxCompletionSteps);
      steps -= completion_steps * kStepsPerCompletion;
      const std::optional<Bins> rest =
          CompleteBins(kinds, demand, target - bins.size(), completion_steps, stop).bins;
      steps += completion_steps * kStepsPerCompletion;
      if (rest) {
        for (size_t bin = 0; bin < rest->size(); ++bin) bins.Add((*rest)[bin]);
        return bins;
      }
    }
    // All whole bins and the largest fraction; if many bins are left, more of the fractions, to
    // save time.
    const CoveringProgram& program = relaxation.program();
    if (program.is_singular()) return std::nullopt;
    std::vector<std::pair<double, size_t>> fractions;
    for (const auto& [index, amount] : program.Solution()) {
      // Rounding may leave amounts of any size, but more bins than these are useless.
      const auto allowed = static_cast<double>(target - std::min(target, bins.size()));
      const double whole = std::min(allowed, std::floor(amount + 1e-6));
      for (auto left = static_cast<int64_t>(whole); left > 0; --left) {
        TakeBin(program.pattern(index), demand, bins);
      }
      if (amount - whole > 1e-6) fractions.emplace_back(whole - amount, index);
    }
    std::sort(fractions.begin(), fractions.end());
    const size_t first = ++round == discrepancy && fractions.size() > 1 ? 1 : 0;
    const size_t more = (target - std::min(target, bins.size())) / kBinsPerExtraBin;
    for (size_t i = first; i < fractions.size() && i <= first + more; ++i) {
      const CoveringProgram::Pattern& pattern = program.pattern(fractions[i].second);
      if (i == first || IsInDemand(pattern, demand)) TakeBin(pattern, demand, bins);
    }
    relaxation.SetDemand(demand);
    const uint64_t bins_left = target - std::min(target, bins.size());
    relaxation.Solve(bins_left, bins_left + 1, steps);
    if (bins.size() + relaxation.bound() > target) return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

GeneratedBins GenerateColumns(const Kinds& kinds, uint64_t enough, uint64_t fewer_than,
                              uint64_t& steps, const std::stop_token& stop) {
  Relaxation relaxation(kinds, stop);
  relaxation.Solve(enough, fewer_than, steps);
  GeneratedBins result{.bins = std::nullopt, .bound = relaxation.bound()};
  const uint64_t target = std::max(enough, result.bound);
  // Dives for the fewest bins, for one more, and so on up to the known number; then all over again,
  // each time with another choice.
  for (size_t dive = 0, extra = 0, discrepancy = 0;
       dive < kMaxDives && target < fewer_than && steps > 0 && !stop.stop_requested(); ++dive) {
    if (std::optional<Bins> bins =
            Dive(kinds, relaxation, target + extra, discrepancy, steps, stop)) {
      if (bins->size() < fewer_than) {
        fewer_than = bins->size();
        result.bins = std::move(bins);
      }
    }
    ++extra;
    if (target + extra >= fewer_than) {
      extra = 0;
      ++discrepancy;
    }
  }
  return result;
}

}  // namespace batchplan
