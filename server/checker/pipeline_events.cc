#include "server/checker/pipeline_events.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <queue>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace batchplan::checker {
namespace {

// A forward or backward of a micro-batch through one part of the model. Parts are numbered in the
// order of the model.
struct Work {
  bool backward = false;
  size_t part = 0;
  size_t microbatch = 0;

  auto operator<=>(const Work&) const = default;  // NOLINT(modernize-use-nullptr)
};

struct Event {
  double time = 0;
  // True: the stage has finished `work`. False: the input of `work` has arrived.
  bool ended = false;
  Work work;

  bool operator>(const Event& other) const { return time > other.time; }
};

class Simulation {
 public:
  Simulation(const Topology& topology, const PipelineOptions& pipeline, bool forward_only,
             std::span<const double> costs)
      : stages_(topology.pipeline_parallel),
        parts_(size_t{topology.pipeline_parallel} * topology.virtual_pipeline),
        pipeline_(pipeline),
        forward_only_(forward_only),
        costs_(costs),
        scripts_(stages_),
        next_(stages_, 0),
        busy_(stages_, false) {
    double sum = 0;
    for (const double share : pipeline.stage_shares) sum += share;
    for (size_t part = 0; part < parts_; ++part) {
      shares_.push_back(pipeline.stage_shares.empty() ? 1.0 / static_cast<double>(parts_)
                                                      : pipeline.stage_shares[part] / sum);
    }
    for (size_t stage = 0; stage < stages_; ++stage) WriteScript(stage);
  }

  double Run() {
    for (size_t microbatch = 0; microbatch < costs_.size(); ++microbatch) {
      arrived_.insert(Work{.backward = false, .part = 0, .microbatch = microbatch});
    }
    for (size_t stage = 0; stage < stages_; ++stage) Start(stage);
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.time;
      const size_t stage = event.work.part % stages_;
      if (event.ended) {
        busy_[stage] = false;
        Send(event.work);
      } else {
        arrived_.insert(event.work);
      }
      Start(stage);
    }
    for (size_t stage = 0; stage < stages_; ++stage) {
      if (next_[stage] < scripts_[stage].size()) return std::numeric_limits<double>::infinity();
    }
    return now_;
  }

 private:
  // The works of a stage in the order in which it runs them.
  void WriteScript(size_t stage) {
    const size_t chunks = parts_ / stages_;
    const bool interleaved = chunks > 1;
    const size_t group = !interleaved               ? costs_.size()
                         : pipeline_.group_size > 0 ? pipeline_.group_size
                                                    : stages_;
    std::vector<Work> forwards;
    std::vector<Work> backwards;
    for (size_t begin = 0; begin < costs_.size(); begin += group) {
      for (size_t chunk = 0; chunk < chunks; ++chunk) {
        for (size_t i = begin; i < std::min(begin + group, costs_.size()); ++i) {
          forwards.push_back({false, chunk * stages_ + stage, i});
          backwards.push_back({true, (chunks - 1 - chunk) * stages_ + stage, i});
        }
      }
    }
    if (forward_only_) {
      scripts_[stage] = std::move(forwards);
      return;
    }
    const size_t behind = stages_ - 1 - stage;
    const size_t first = interleaved ? 2 * behind + (chunks - 1) * group : behind;
    std::vector<Work>& script = scripts_[stage];
    size_t k = 0;
    for (; k < std::min(first, forwards.size()); ++k) script.push_back(forwards[k]);
    for (const Work& backward : backwards) {
      if (k < forwards.size()) script.push_back(forwards[k++]);
      script.push_back(backward);
    }
  }

  double DurationOf(const Work& work) const {
    const double whole = costs_[work.microbatch] * shares_[work.part];
    if (forward_only_) return whole;
    return whole * (work.backward ? pipeline_.backward_ratio : 1) / (1 + pipeline_.backward_ratio);
  }

  // Begins the stage's next work if the stage is free and the work's input has arrived.
  void Start(size_t stage) {
    if (busy_[stage] || next_[stage] == scripts_[stage].size()) return;
    const Work& work = scripts_[stage][next_[stage]];
    if (arrived_.erase(work) == 0) return;
    busy_[stage] = true;
    ++next_[stage];
    events_.push({now_ + DurationOf(work), true, work});
  }

  // Sends the result of a finished work to the stage that needs it.
  void Send(const Work& work) {
    const bool turns = !work.backward && work.part + 1 == parts_;
    if (turns && !forward_only_) {
      arrived_.insert(Work{true, work.part, work.microbatch});
    } else if (!work.backward && !turns) {
      events_.push({now_ + pipeline_.transfer, false, {false, work.part + 1, work.microbatch}});
    } else if (work.backward && work.part > 0) {
      events_.push({now_ + pipeline_.transfer, false, {true, work.part - 1, work.microbatch}});
    }
  }

  const size_t stages_;
  const size_t parts_;
  const PipelineOptions& pipeline_;
  const bool forward_only_;
  const std::span<const double> costs_;
  std::vector<double> shares_;
  std::vector<std::vector<Work>> scripts_;
  std::vector<size_t> next_;
  std::vector<bool> busy_;
  std::set<Work> arrived_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  double now_ = 0;
};

}  // namespace

double PipelineTime(const Topology& topology, const PipelineOptions& pipeline, bool forward_only,
                    std::span<const double> costs) {
  return costs.empty() ? 0 : Simulation(topology, pipeline, forward_only, costs).Run();
}

double LargestStage(const Topology& topology, const PipelineOptions& pipeline) {
  const size_t stages = topology.pipeline_parallel;
  const std::vector<double>& shares = pipeline.stage_shares;
  if (shares.empty()) return 1.0 / static_cast<double>(stages);
  std::vector<double> of_stage(stages, 0);
  for (size_t part = 0; part < shares.size(); ++part) of_stage[part % stages] += shares[part];
  return *std::max_element(of_stage.begin(), of_stage.end()) /
         std::accumulate(shares.begin(), shares.end(), 0.0);
}

}  // namespace batchplan::checker
