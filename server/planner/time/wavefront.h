// The works of a pipeline's schedule in one list, each behind the work that it waits for.
//
// Which work waits for which does not depend on costs, so one list serves any number of
// simulations. As far as the schedule allows, neighbours in the list are of different stages and do
// not wait for each other, so that a processor computes several at a time.

#ifndef BATCHPLAN_SERVER_PLANNER_TIME_WAVEFRONT_H_
#define BATCHPLAN_SERVER_PLANNER_TIME_WAVEFRONT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "server/planner/time/schedule.h"

namespace batchplan {

// A forward or a backward of one micro-batch on one virtual stage.
struct PipelineWork {
  // Where the end of the work that it waits for is kept, and its own.
  uint32_t after = 0;
  uint32_t end = 0;
  uint32_t microbatch = 0;
  uint16_t stage = 0;
  // Its virtual stage; for a backward, counted on from the virtual stages.
  uint16_t share = 0;
};

class Wavefront {
 public:
  // Keeps the ends of all works if `all`; otherwise, for each virtual stage, of as many as it runs
  // before the next has begun the first of them. `pipeline` and `order` must outlive this.
  Wavefront(const Pipeline& pipeline, const RunOrder& order, uint32_t microbatches, bool all);

  // The number of ends that are kept. The first is 0, for works that wait for nothing.
  size_t ends() const { return 1 + size_t{2} * ring_ * pipeline_.virtual_stages(); }
  // Where the end of a virtual stage's work with a micro-batch is kept.
  uint32_t EndOf(uint32_t virtual_stage, bool backward, uint32_t microbatch) const {
    const uint32_t ring = backward ? pipeline_.virtual_stages() + virtual_stage : virtual_stage;
    return 1 + ring * ring_ + (microbatch & (ring_ - 1));
  }

  // Goes back to the first work.
  void Restart();
  // The next works, until `works` lacks room for one of every stage; empty after the last.
  std::span<const PipelineWork> Next(std::span<PipelineWork> works);

 private:
  struct Stage {
    uint64_t forwards = 0;
    uint64_t backwards = 0;
    uint64_t warmup = 0;
  };

  // Sets what a stage does next. False if that has to wait, or if the stage is done.
  bool Ready(uint32_t stage, PipelineWork& work) const;
  void LookAt(uint32_t stage) { looks_[stage / 64] |= uint64_t{1} << (stage % 64); }

  const Pipeline& pipeline_;
  const RunOrder& order_;
  // A power of two.
  uint32_t ring_ = 1;
  std::vector<Stage> stages_;
  // Micro-batches that each virtual stage has sent on: forwards, then backwards.
  std::vector<uint32_t> done_;
  // A bit a stage: whether it may have work in the next round, since it, or a stage that sends to
  // it, had in the last one; and the stages looked at in this round.
  std::vector<uint64_t> looks_;
  std::vector<uint64_t> looked_at_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_TIME_WAVEFRONT_H_
