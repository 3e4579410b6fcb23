// When the stages of one rank's pipeline are done with its micro-batches: by simulation of its
// schedule (schedule.h).
//
//   PipelineSimulator simulator(pipeline, microbatches);
//   const double makespan = simulator.Makespan(costs);  // as often as wanted
//
// A simulator that traces also says what the makespan consists of: each micro-batch's part of the
// works that follow each other without a gap from begin to end, the critical path. The makespan is
// a maximum of sums of costs, so it is convex in them, and these parts are a subgradient.
//
// A forward begins when its stage is free and the virtual stage before has sent its input; a
// backward when its stage is free and the virtual stage behind has sent its gradient. Everything is
// computed in doubles by sums, products and maxima, in one order: the same on every machine,
// monotone in every cost, and twice as long for costs and transfers that are twice as high.

#ifndef BATCHPLAN_SERVER_PLANNER_TIME_SIMULATOR_H_
#define BATCHPLAN_SERVER_PLANNER_TIME_SIMULATOR_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "server/planner/request/allowance.h"
#include "server/planner/time/run_works.h"
#include "server/planner/time/schedule.h"
#include "server/planner/time/wavefront.h"

namespace batchplan {

// Ticks of an allowance to simulate a forward or a backward, and to find its place in the schedule
// before.
inline constexpr uint64_t kTicksAWork = 5;
inline constexpr uint64_t kTicksToPlaceAWork = 15;

class PipelineSimulator {
 public:
  enum class Mode { kTime, kTrace };

  // For `microbatches` micro-batches; if interleaved, a multiple of the group size. Memory: O(m v),
  // and for each virtual stage what is on its way to the next; to trace, O(m p v). Spends nothing
  // from the allowance; the caller spends ticks(). Once a stop is requested, makespans are any
  // numbers.
  PipelineSimulator(Pipeline pipeline, uint32_t microbatches, Mode mode = Mode::kTime,
                    Allowance allowance = {});
  PipelineSimulator(const PipelineSimulator&) = delete;
  PipelineSimulator& operator=(const PipelineSimulator&) = delete;

  const Pipeline& pipeline() const { return pipeline_; }
  uint32_t microbatches() const { return microbatches_; }

  // Forwards and backwards of one simulation.
  uint64_t works() const { return 2 * uint64_t{microbatches_} * pipeline_.virtual_stages(); }
  // Simulations until now.
  uint64_t simulations() const { return simulations_; }
  // Ticks of one simulation, and of all until now with their preparation.
  uint64_t ticks_each() const { return ticks_each_; }
  uint64_t ticks() const { return ticks_to_make_ + simulations_ * ticks_each_; }

  // The time from the begin of the first work to the end of the last, in the unit of the costs; 0
  // without micro-batches. `costs` are those of the micro-batches, in the order in which they run.
  // O(m p v), without allocation. Not from two threads at once.
  double Makespan(std::span<const double> costs);

  // The makespan; sets `weights`, one a micro-batch, to how much it grows with each cost. REQUIRES:
  // a simulator that traces.
  double Makespan(std::span<const double> costs, std::span<double> weights);

  // The makespans of four lists of costs in little more time than that of one: costs[k][i] is that
  // of micro-batch k in list i. They count as `lists` simulations, for callers that need as many.
  // REQUIRES: a simulator that traces.
  Four Makespans(std::span<const Four> costs, size_t lists = 4);

  // Sets weights[i] as Makespan does, for list i of the last Makespans. Up to four.
  void TraceLists(std::span<const std::span<double>> weights) const;

 private:
  // What the way back along the critical path needs of a work, by the place of its end.
  struct Link {
    // Where the ends of the works that it waits for are kept: of the one before it on its stage,
    // and of the one that sends to it. 0: there is none.
    uint32_t before = 0;
    uint32_t sender = 0;
    uint32_t microbatch = 0;
    uint32_t share = 0;

    uint32_t Either(bool sends) const { return sends ? sender : before; }
  };

  double ForwardsAlone(std::span<const double> costs);
  // Calls use(works) with all works, a piece at a time.
  void ForEachPiece(const auto& use);
  void LinkWorks(std::span<const PipelineWork> works);
  // The last work of the stage that is done last, by when each stage is free.
  uint32_t LastWork(const auto& free) const;

  const Pipeline pipeline_;
  const uint32_t microbatches_;
  const Mode mode_;
  const Allowance allowance_;
  uint64_t simulations_ = 0;
  const RunOrder order_;
  // The part of a cost that each virtual stage has, in its forward and then in its backward.
  std::vector<double> shares_;
  Wavefront wavefront_;
  // All works if they are few; else room for some of them.
  std::vector<PipelineWork> works_;
  bool all_works_ = false;
  uint64_t ticks_to_make_ = 0;
  uint64_t ticks_each_ = 0;
  std::vector<double> free_;  // when each stage is
  std::vector<double> ends_;  // of works, at their places in the wavefront
  // The same of four simulations at once, once there was one.
  std::vector<Four> free_of_four_;
  std::vector<Four> ends_of_four_;
  // To trace.
  std::vector<Link> links_;
  std::vector<uint32_t> last_;  // by stage, the place of its last work's end
};

// A lower bound on the makespan of these micro-batches in any order; above their Makespan at most
// by rounding. The greatest of: for each stage, its work and the time of the cheapest micro-batch
// before and after it; and the time of the costliest micro-batch through all stages and back.
double PipelineBound(const Pipeline& pipeline, std::span<const double> costs);

// A lower bound on the makespan of any micro-batches that cost at least `work` together and at
// least `cheapest` each, and of which one costs at least `costliest`.
double PipelineBound(const Pipeline& pipeline, double work, double cheapest, double costliest);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_TIME_SIMULATOR_H_
