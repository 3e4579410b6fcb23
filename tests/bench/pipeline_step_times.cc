#include "tests/bench/pipeline_step_times.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <numeric>
#include <optional>
#include <random>
#include <utility>

#include "absl/strings/string_view.h"
#include "server/planner/make_plan.h"
#include "server/planner/request/presets.h"
#include "server/planner/time/pipeline_time.h"
#include "server/planner/time/simulator.h"
#include "tests/bench/geometric_mean.h"
#include "tests/bench/length_family.h"
#include "tests/support/generators.h"
#include "tests/support/reference_systems.h"

namespace batchplan::bench {
namespace {

using testing::RankMicrobatches;

constexpr Family kPipelineFamilies[] = {
    {"maths", testing::MathsLengths, 1024, 16384, 8},
    {"maths_4k", testing::MathsLengths, 4096, 16384, 32},
    {"long_cot", testing::LongCotLengths, 1024, 65536, 8},
    {"long_cot_2k", testing::LongCotLengths, 2048, 65536, 64},
    {"agentic", testing::AgenticLengths, 1024, 32768, 8},
    {"zipf", testing::ZipfLengths, 2048, 8192, 8},
};

// In tokens.
constexpr double kPerMicrobatch = 1000;

double CostOf(uint32_t length) { return length + static_cast<double>(length) * length / 24576; }

struct PipelineMachine {
  Synchronization synchronization = Synchronization::kAccumulated;
  Topology topology;
  Pipeline pipeline;
};

PipelineMachine MachineOf(Synchronization synchronization, uint32_t ranks, uint32_t stages,
                          uint32_t virtual_stages) {
  PipelineMachine machine{.synchronization = synchronization, .topology = {}, .pipeline = {}};
  machine.topology.data_parallel = ranks;
  machine.topology.pipeline_parallel = stages;
  machine.topology.virtual_pipeline = virtual_stages;
  machine.pipeline = PipelineOf(machine.topology, {}, /*forward_only=*/false);
  return machine;
}

double StepTimeOf(const PipelineMachine& machine, std::span<const uint32_t> lengths,
                  const RankMicrobatches& plan) {
  std::vector<double> costs;
  for (const auto& rank : plan) {
    for (const auto& microbatch : rank) {
      double cost = kPerMicrobatch;
      for (const uint32_t item : microbatch) cost += CostOf(lengths[item]);
      costs.push_back(cost);
    }
  }
  return PipelineTimeOf(machine.pipeline, machine.synchronization, costs, plan.size()).makespan;
}

// The step time of a method's plan; none if it can't plan for the machine.
using Method = std::function<std::optional<double>(const Family&, const PipelineMachine&,
                                                   std::span<const uint32_t> lengths)>;

Method PresetMethod(absl::string_view preset, Effort effort) {
  return [=](const Family& family, const PipelineMachine& machine,
             std::span<const uint32_t> lengths) -> std::optional<double> {
    PlanOptions options;
    options.topology = machine.topology;
    options.synchronization = machine.synchronization;
    options.cost_model.per_microbatch = kPerMicrobatch;
    options.effort = effort;
    options.passes.push_back(PresetPass(preset, options.topology).value());
    options.passes[0].max_tokens_per_microbatch = family.budget;
    options.passes[0].rows = RowPadding::kNone;
    const absl::StatusOr<Plan> plan = MakePlan({.lengths = lengths}, options);
    if (!plan.ok()) return std::nullopt;
    return plan->passes[0].metrics.predicted_step_time;
  };
}

// None of the systems makes the counts of micro-batches that virtual stages need.
Method SystemMethod(RankMicrobatches (*plan)(std::span<const uint32_t>, uint32_t, uint32_t)) {
  return [plan](const Family& family, const PipelineMachine& machine,
                std::span<const uint32_t> lengths) -> std::optional<double> {
    if (machine.topology.virtual_pipeline > 1) return std::nullopt;
    return StepTimeOf(machine, lengths, plan(lengths, family.budget, family.ranks));
  };
}

// A heuristic of a few lines. It chooses ranks and micro-batches by the makespan of a flow line:
// the sum of a rank's micro-batches, plus its costliest one for each further stage.
class FlowLine {
 public:
  FlowLine(const Family& family, const PipelineMachine& machine, std::span<const uint32_t> lengths)
      : family_(family), machine_(machine), lengths_(lengths), descending_(lengths.size()) {
    std::iota(descending_.begin(), descending_.end(), 0u);
    std::stable_sort(descending_.begin(), descending_.end(),
                     [&](uint32_t a, uint32_t b) { return lengths_[a] > lengths_[b]; });
  }

  std::optional<double> Run() const {
    uint64_t tokens = 0;
    for (const uint32_t length : lengths_) tokens += length;
    const uint32_t multiple =
        machine_.topology.virtual_pipeline > 1 ? machine_.topology.pipeline_parallel : 1;
    const auto fewest =
        static_cast<uint32_t>(tokens / (uint64_t{family_.budget} * family_.ranks) + 1);
    std::optional<double> best;
    for (uint32_t slots = (fewest + multiple - 1) / multiple * multiple;
         slots <= 4 * fewest + 2 * machine_.topology.pipeline_parallel;
         slots += std::max(multiple, slots / 8 / multiple * multiple)) {
      const std::optional<double> found = WithSlots(slots);
      if (found && (!best || *found < *best)) best = found;
    }
    return best;
  }

 private:
  // Gives the ranks items, in descending order, so that none exceeds `most`; none if they do not
  // fit.
  std::optional<std::vector<std::vector<uint32_t>>> RanksWithin(double most, uint32_t slots) const {
    const double stages = machine_.topology.pipeline_parallel - 1;
    std::vector<std::vector<uint32_t>> ranks(family_.ranks);
    size_t rank = 0;
    double sum = 0;
    double longest = 0;
    for (const uint32_t item : descending_) {
      const double cost = CostOf(lengths_[item]);
      const auto takes = [&] {
        const double costliest = std::max(std::max(longest, cost), (sum + cost) / slots);
        return sum + cost + stages * costliest;
      };
      while (takes() > most) {
        if (++rank == ranks.size()) return std::nullopt;
        sum = 0;
        longest = 0;
      }
      sum += cost;
      longest = std::max(longest, cost);
      ranks[rank].push_back(item);
    }
    return ranks;
  }

  std::optional<double> WithSlots(uint32_t slots) const {
    double most = 0;
    for (const uint32_t item : descending_) most += CostOf(lengths_[item]);
    double least = most / family_.ranks;
    most *= machine_.topology.pipeline_parallel;
    for (int step = 0; step < 40; ++step) {
      const double middle = (least + most) / 2;
      (RanksWithin(middle, slots) ? most : least) = middle;
    }
    double slowest = 0;
    RankMicrobatches plan;
    const auto ranks = RanksWithin(most, slots);
    if (!ranks) return std::nullopt;
    for (const std::vector<uint32_t>& rank : *ranks) {
      std::optional<std::vector<std::vector<uint32_t>>> bins = Bins(rank, slots);
      if (!bins) return std::nullopt;
      slowest = std::max(slowest, PutInOrder(*bins));
      plan.push_back(*std::move(bins));
    }
    return StepTimeOf(machine_, lengths_, plan);
  }

  // Puts the longest item first into the cheapest bin that holds it.
  std::optional<std::vector<std::vector<uint32_t>>> Bins(std::span<const uint32_t> items,
                                                         uint32_t slots) const {
    std::vector<std::vector<uint32_t>> bins(slots);
    std::vector<double> costs(slots, 0);
    std::vector<uint64_t> tokens(slots, 0);
    for (const uint32_t item : items) {
      std::optional<uint32_t> best;
      for (uint32_t bin = 0; bin < slots; ++bin) {
        if (tokens[bin] + lengths_[item] > family_.budget) continue;
        if (!best || costs[bin] < costs[*best]) best = bin;
      }
      if (!best) return std::nullopt;
      bins[*best].push_back(item);
      costs[*best] += CostOf(lengths_[item]);
      tokens[*best] += lengths_[item];
    }
    return bins;
  }

  // Improves the order by random swaps; returns the rank's makespan.
  double PutInOrder(std::vector<std::vector<uint32_t>>& bins) const {
    constexpr int kSwaps = 150;
    PipelineSimulator simulator(machine_.pipeline, static_cast<uint32_t>(bins.size()));
    std::vector<double> costs(bins.size(), kPerMicrobatch);
    for (size_t bin = 0; bin < bins.size(); ++bin) {
      for (const uint32_t item : bins[bin]) costs[bin] += CostOf(lengths_[item]);
    }
    double best = simulator.Makespan(costs);
    std::minstd_rand random;
    for (int swap = 0; swap < kSwaps; ++swap) {
      const size_t a = random() % bins.size();
      const size_t b = random() % bins.size();
      std::swap(costs[a], costs[b]);
      const double makespan = simulator.Makespan(costs);
      if (makespan < best) {
        best = makespan;
        std::swap(bins[a], bins[b]);
      } else {
        std::swap(costs[a], costs[b]);
      }
    }
    return best;
  }

  const Family& family_;
  const PipelineMachine& machine_;
  const std::span<const uint32_t> lengths_;
  std::vector<uint32_t> descending_;
};

std::optional<double> FlowLineTime(const Family& family, const PipelineMachine& machine,
                                   std::span<const uint32_t> lengths) {
  return FlowLine(family, machine, lengths).Run();
}

}  // namespace

bool PrintPipelineStepTimes(const std::vector<uint32_t>& stages,
                            const std::vector<uint32_t>& virtual_stages, uint64_t seeds,
                            const std::string& family_name) {
  std::vector<std::pair<std::string, Method>> presets;
  for (const absl::string_view preset : kPresetNames) {
    // megatron_dynamic_cp needs a pool of ranks.
    if (preset == "balanced" || preset == "megatron_dynamic_cp") continue;
    if (PresetPass(preset, {})->layout != Layout::kPacked) continue;
    presets.emplace_back(preset, PresetMethod(preset, Effort::kDefault));
  }
  const std::pair<std::string, Method> others[] = {
      {"NeMo-RL's code", SystemMethod(testing::NemoRlPlan)},
      {"verl's code", SystemMethod(testing::VerlPlan)},
      {"flow line", FlowLineTime}};
  bool any = false;
  GeometricMean over_best;
  for (const Synchronization synchronization :
       {Synchronization::kAccumulated, Synchronization::kLockstep}) {
    for (const uint32_t pp : stages) {
      for (const uint32_t vpp : virtual_stages) {
        std::printf("\n### %s, PP %u, VPP %u\n| batches | time / bound | best preset |",
                    synchronization == Synchronization::kLockstep ? "lockstep" : "accumulated", pp,
                    vpp);
        for (const auto& [name, method] : presets) std::printf(" %s |", name.c_str());
        for (const auto& [name, method] : others) std::printf(" %s |", name.c_str());
        std::printf(" thorough | fast | ms |\n| --- | --- | --- |");
        for (size_t i = 0; i < presets.size() + std::size(others); ++i) std::printf(" --- |");
        std::printf(" --- | --- | --- |\n");
        for (const Family& family : kPipelineFamilies) {
          if (!family_name.empty() && family.name != family_name) continue;
          any = true;
          const PipelineMachine machine = MachineOf(synchronization, family.ranks, pp, vpp);
          GeometricMean over_bound;
          GeometricMean best_preset;
          std::vector<GeometricMean> of_preset(presets.size());
          GeometricMean of_other[std::size(others)];
          GeometricMean thorough;
          GeometricMean fast;
          double milliseconds = 0;
          for (uint64_t seed = 1; seed <= seeds; ++seed) {
            const std::vector<uint32_t> lengths = family.lengths(family.sequences, seed);
            PlanOptions options;
            options.topology = machine.topology;
            options.synchronization = synchronization;
            options.cost_model.per_microbatch = kPerMicrobatch;
            options.passes.push_back(PresetPass("balanced", options.topology).value());
            options.passes[0].max_tokens_per_microbatch = family.budget;
            const auto start = std::chrono::steady_clock::now();
            const Plan plan = MakePlan({.lengths = lengths}, options).value();
            const std::chrono::duration<double, std::milli> time =
                std::chrono::steady_clock::now() - start;
            milliseconds += time.count() / static_cast<double>(seeds);
            const double ours = plan.passes[0].metrics.predicted_step_time;
            over_bound.Add(ours / plan.passes[0].metrics.lower_bound_step_time);
            const auto over_ours = [&](const Method& method) -> std::optional<double> {
              const std::optional<double> theirs = method(family, machine, lengths);
              if (!theirs) return std::nullopt;
              return *theirs / ours;
            };
            std::optional<double> best;
            for (size_t i = 0; i < presets.size(); ++i) {
              const std::optional<double> one = over_ours(presets[i].second);
              of_preset[i].Add(one);
              if (one && (!best || *one < *best)) best = one;
            }
            best_preset.Add(best);
            over_best.Add(best);
            for (size_t i = 0; i < std::size(others); ++i) {
              of_other[i].Add(over_ours(others[i].second));
            }
            thorough.Add(over_ours(PresetMethod("balanced", Effort::kThorough)));
            fast.Add(over_ours(PresetMethod("balanced", Effort::kFast)));
          }
          std::printf("| %.*s |", static_cast<int>(family.name.size()), family.name.data());
          PrintMean(over_bound);
          PrintMean(best_preset);
          for (const GeometricMean& mean : of_preset) PrintMean(mean);
          for (const GeometricMean& mean : of_other) PrintMean(mean);
          PrintMean(thorough);
          PrintMean(fast);
          std::printf(" %.1f |\n", milliseconds);
          std::fflush(stdout);
        }
      }
    }
  }
  if (any) {
    std::printf("\nBest preset over ours: %.4f as geometric mean, %.4f at least\n",
                over_best.value(), over_best.least());
  }
  return any;
}

}  // namespace batchplan::bench
