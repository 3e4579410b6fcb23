#include "server/planner/padded/equal_runs.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <tuple>
#include <utility>

namespace batchplan {
namespace {

// Ticks to look at the cost of one run.
constexpr uint64_t kTicksADealtRun = 15;

// Up to this many runs leave their local optimum, so often.
constexpr size_t kMostToShake = 32;
constexpr int kShakes = 40;
constexpr int kChangesAShake = 3;

constexpr uint64_t kImpossible = std::numeric_limits<uint64_t>::max();

// A run by its number of items; where it begins depends on the runs before it.
struct Run {
  uint32_t items = 0;
  uint32_t rank = 0;
};

std::vector<Run> RunsFrom(const EqualRuns& runs) {
  std::vector<Run> result;
  result.reserve(runs.rank_of.size());
  for (size_t run = 0; run < runs.rank_of.size(); ++run) {
    result.push_back({.items = runs.cuts[run + 1] - runs.cuts[run], .rank = runs.rank_of[run]});
  }
  return result;
}

EqualRuns RunsOf(std::span<const Run> runs) {
  EqualRuns result{.cuts = {0}, .rank_of = {}};
  result.cuts.reserve(runs.size() + 1);
  result.rank_of.reserve(runs.size());
  for (const Run& run : runs) {
    result.cuts.push_back(result.cuts.back() + run.items);
    result.rank_of.push_back(run.rank);
  }
  return result;
}

// A step, and of equal ones what all runs cost together.
struct Value {
  uint64_t time = kImpossible;
  uint64_t all = kImpossible;
  bool operator<(const Value& other) const {
    return std::tie(time, all) < std::tie(other.time, other.all);
  }
};

class Clock {
 public:
  explicit Clock(const EqualRunsTask& task) : task_(task) {}

  // Impossible if a run breaks the limits.
  Value Of(std::span<const Run> runs) {
    costs_.resize(runs.size());
    filled_.assign(task_.ranks, 0);
    uint32_t end = 0;
    Value value{.time = 0, .all = 0};
    for (const Run& run : runs) {
      end += run.items;
      if (run.items == 0 || !task_.limits.Allow(run.items, task_.items.widths[end - 1])) return {};
      const uint64_t cost = run.items * task_.costs[end - 1];
      costs_[run.rank * task_.slots + filled_[run.rank]++] = cost;
      value.all += cost;
    }
    for (uint32_t rank = 0; rank < task_.ranks; ++rank) {
      const auto own = std::span(costs_).subspan(rank * task_.slots, task_.slots);
      if (task_.lockstep) {
        std::ranges::sort(own, std::greater<>());
      } else {
        value.time = std::max(value.time, std::accumulate(own.begin(), own.end(), uint64_t{0}));
      }
    }
    if (!task_.lockstep) return value;
    for (size_t slot = 0; slot < task_.slots; ++slot) {
      uint64_t most = 0;
      for (uint32_t rank = 0; rank < task_.ranks; ++rank) {
        most = std::max(most, costs_[rank * task_.slots + slot]);
      }
      value.time += most;
    }
    return value;
  }

 private:
  const EqualRunsTask& task_;
  std::vector<uint64_t> costs_;  // of each rank's runs
  std::vector<size_t> filled_;
};

class Improver {
 public:
  Improver(const EqualRunsTask& task, std::vector<Run> runs, uint64_t steps,
           const Allowance& allowance)
      : clock_(task),
        allowance_(allowance),
        least_(task.items.size() / task.ranks),
        search_(allowance, steps, kTicksADealtRun),
        runs_(std::move(runs)),
        value_(clock_.Of(runs_)) {
    counts_.resize(task.ranks, 0);
    for (const Run& run : runs_) counts_[run.rank] += run.items;
  }

  std::vector<Run> Take() {
    Descend();
    if (runs_.size() > kMostToShake) return std::move(runs_);
    std::mt19937_64 random(runs_.size());
    for (int shake = 0; shake < kShakes && !Ended(); ++shake) {
      const std::vector<Run> best = runs_;
      const std::vector<uint64_t> counts = counts_;
      const Value value = value_;
      for (int change = 0; change < kChangesAShake; ++change) Shake(random);
      value_ = clock_.Of(runs_);
      Descend();
      if (value_ < value) continue;
      runs_ = best;
      counts_ = counts;
      value_ = value;
    }
    return std::move(runs_);
  }

 private:
  bool Ended() const { return search_.left == 0 || allowance_.stop_requested(); }

  void Descend() {
    for (bool improved = true; improved && !Ended();) {
      improved = false;
      // The widest runs matter most.
      for (size_t a = runs_.size(); a-- > 0 && !Ended();) {
        for (size_t b = 0; b < runs_.size() && !Ended(); ++b) {
          if (a != b) improved = Exchange(a, b) || Give(a, b) || Insert(a, b) || improved;
        }
      }
    }
  }

  // Whether the changed runs are better, which are then kept.
  bool Keeps() {
    search_.left -= std::min<uint64_t>(search_.left, runs_.size());
    const Value value = clock_.Of(runs_);
    if (!(value < value_)) return false;
    value_ = value;
    return true;
  }

  bool Exchange(size_t a, size_t b) {
    if (a > b || (runs_[a].items == runs_[b].items && runs_[a].rank == runs_[b].rank)) return false;
    std::swap(runs_[a], runs_[b]);
    if (Keeps()) return true;
    std::swap(runs_[a], runs_[b]);
    return false;
  }

  bool Insert(size_t from, size_t to) {
    Move(from, to);
    if (Keeps()) return true;
    Move(to, from);
    return false;
  }

  void Move(size_t from, size_t to) {
    const auto at = [&](size_t place) { return runs_.begin() + static_cast<ptrdiff_t>(place); };
    if (from < to) {
      std::rotate(at(from), at(from + 1), at(to + 1));
    } else {
      std::rotate(at(to), at(from), at(from + 1));
    }
  }

  // One item fewer in run a, one more in run b.
  bool Give(size_t a, size_t b) {
    if (!MayGive(a, b)) return false;
    Transfer(a, b);
    if (Keeps()) return true;
    Transfer(b, a);
    return false;
  }

  bool MayGive(size_t a, size_t b) const {
    const uint32_t from = runs_[a].rank;
    const uint32_t to = runs_[b].rank;
    return runs_[a].items > 1 && (from == to || (counts_[from] > least_ && counts_[to] == least_));
  }

  void Transfer(size_t a, size_t b) {
    --runs_[a].items;
    ++runs_[b].items;
    --counts_[runs_[a].rank];
    ++counts_[runs_[b].rank];
  }

  void Shake(std::mt19937_64& random) {
    const size_t a = random() % runs_.size();
    const size_t b = random() % runs_.size();
    if (a == b) return;
    if (random() % 2 == 0 && MayGive(a, b)) {
      Transfer(a, b);
    } else {
      std::swap(runs_[a], runs_[b]);
    }
  }

  Clock clock_;
  const Allowance& allowance_;
  const uint64_t least_;  // items of a rank
  SearchSteps search_;
  std::vector<Run> runs_;
  std::vector<uint64_t> counts_;  // items of each rank
  Value value_;
};

// A split of `items`, none if the limits need more than `runs` runs.
std::optional<Cuts> SplitOf(const PaddedItems& items, std::span<const uint64_t> costs,
                            const PaddedLimits& limits, size_t runs, bool by_level,
                            const Allowance& allowance) {
  Cuts cuts = SortedScan(items, limits);
  if (cuts.size() - 1 > runs || items.size() < runs) return std::nullopt;
  return by_level ? LevelSplit(items, costs, limits, runs, allowance)
                  : HalveRuns({&items, 1}, cuts, runs);
}

}  // namespace

uint64_t StepCost(const EqualRunsTask& task, const EqualRuns& runs) {
  return Clock(task).Of(RunsFrom(runs)).time;
}

std::optional<EqualRuns> EqualBlocks(const EqualRunsTask& task, bool by_level,
                                     const Allowance& allowance) {
  const size_t items = task.items.size();
  const size_t blocks = items / task.ranks;
  const size_t rest = items % task.ranks;
  std::vector<uint32_t> widths;
  std::vector<uint32_t> counts;
  std::vector<uint64_t> costs;
  widths.reserve(blocks);
  counts.reserve(blocks);
  costs.reserve(blocks);
  for (size_t block = 0; block < blocks; ++block) {
    const size_t last = rest + (block + 1) * task.ranks - 1;
    widths.push_back(task.items.widths[last]);
    counts.push_back(block == 0 && rest > 0 ? 2 : 1);
    costs.push_back(task.costs[last]);
  }
  // Every block has to fit alone.
  if (!task.limits.Allow(counts.front(), widths.front())) return std::nullopt;
  const std::optional<Cuts> cuts = SplitOf({.widths = widths, .counts = counts}, costs, task.limits,
                                           task.slots, by_level, allowance);
  if (!cuts || allowance.stop_requested()) return std::nullopt;
  std::vector<Run> runs(task.slots * task.ranks);
  std::vector<uint64_t> sums(task.ranks, 0);
  std::vector<uint32_t> order(task.ranks);
  size_t end = items;
  // From the widest slot on, the costliest run to the rank with least.
  for (size_t slot = task.slots; slot-- > 0;) {
    std::iota(order.begin(), order.end(), 0u);
    std::ranges::stable_sort(order, {}, [&](uint32_t rank) { return sums[rank]; });
    const uint32_t each = (*cuts)[slot + 1] - (*cuts)[slot];
    for (uint32_t place = 0; place < task.ranks; ++place) {
      const uint32_t more = slot == 0 && place < rest ? 1 : 0;
      runs[slot * task.ranks + task.ranks - 1 - place] = {.items = each + more,
                                                          .rank = order[place]};
      sums[order[place]] += (each + more) * task.costs[end - 1];
      end -= each + more;
    }
  }
  return RunsOf(runs);
}

std::optional<EqualRuns> RunsOfShares(const EqualRunsTask& task, std::span<const uint32_t> rank_of,
                                      bool by_level, const Allowance& allowance) {
  struct Placed {
    uint32_t last;  // position of its widest item
    Run run;
  };
  std::vector<Placed> placed;
  placed.reserve(task.slots * task.ranks);
  std::vector<std::vector<uint32_t>> shares(task.ranks);
  for (uint32_t position = 0; position < rank_of.size(); ++position) {
    shares[rank_of[position]].push_back(position);
  }
  std::vector<uint32_t> widths;
  std::vector<uint64_t> costs;
  for (uint32_t rank = 0; rank < task.ranks; ++rank) {
    widths.clear();
    costs.clear();
    for (const uint32_t position : shares[rank]) {
      widths.push_back(task.items.widths[position]);
      costs.push_back(task.costs[position]);
    }
    const std::optional<Cuts> cuts =
        SplitOf({.widths = widths}, costs, task.limits, task.slots, by_level, allowance);
    if (!cuts || allowance.stop_requested()) return std::nullopt;
    for (size_t run = 0; run < task.slots; ++run) {
      placed.push_back({.last = shares[rank][(*cuts)[run + 1] - 1],
                        .run = {.items = (*cuts)[run + 1] - (*cuts)[run], .rank = rank}});
    }
  }
  std::ranges::sort(placed, {}, &Placed::last);
  std::vector<Run> runs;
  runs.reserve(placed.size());
  for (const Placed& own : placed) runs.push_back(own.run);
  return RunsOf(runs);
}

EqualRuns ImproveEqualRuns(const EqualRunsTask& task, EqualRuns runs, uint64_t steps,
                           const Allowance& allowance) {
  if (runs.rank_of.size() < 2) return runs;
  return RunsOf(Improver(task, RunsFrom(runs), steps, allowance).Take());
}

}  // namespace batchplan
