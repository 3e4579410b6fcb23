// The works of a pipeline's schedule, one after the other: each behind what it waits for.
//
// Which work waits for which does not depend on what they cost, so that one list of them is good
// for any number of simulations. As far as the schedule allows, works that stand near each other
// are of different stages and do not wait for each other, so that a processor computes several at a
// time.

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
  // Where the end of what it waits for is kept, and where its own is to be.
  uint32_t after = 0;
  uint32_t end = 0;
  uint32_t microbatch = 0;
  uint16_t stage = 0;
  // Its virtual stage; of a backward, behind all virtual stages.
  uint16_t share = 0;
};

class Wavefront {
 public:
  // Keeps the ends of all works if `all`; otherwise of as many as one virtual stage runs before the
  // next one has begun the first of them. `pipeline` and `order` must outlive this.
  Wavefront(const Pipeline& pipeline, const RunOrder& order, uint32_t microbatches, bool all);

  // How many ends are kept. The first is that of nothing, for works that wait for nothing.
  size_t ends() const { return 1 + size_t{2} * ring_ * pipeline_.virtual_stages(); }
  // Where the end of a virtual stage's work with a micro-batch is kept.
  uint32_t EndOf(uint32_t virtual_stage, bool backward, uint32_t microbatch) const {
    const uint32_t ring = backward ? pipeline_.virtual_stages() + virtual_stage : virtual_stage;
    return 1 + ring * ring_ + (microbatch & (ring_ - 1));
  }

  // To the first work.
  void Restart();
  // The next works, as long as `works` has room for one of every stage; none after the last.
  std::span<const PipelineWork> Next(std::span<PipelineWork> works);

 private:
  struct Stage {
    uint64_t forwards = 0;
    uint64_t backwards = 0;
    uint64_t warmup = 0;
  };

  // What a stage does next; false where that has to wait, or where it has done all.
  bool Ready(uint32_t stage, PipelineWork& work) const;
  void LookAt(uint32_t stage) { looks_[stage / 64] |= uint64_t{1} << (stage % 64); }

  const Pipeline& pipeline_;
  const RunOrder& order_;
  // A power of two.
  uint32_t ring_ = 1;
  std::vector<Stage> stages_;
  // Micro-batches that each virtual stage has sent on: forwards, then backwards.
  std::vector<uint32_t> done_;
  // A bit a stage: whether it may do something in the next round, as it or one that sends to it has
  // in the last one. What is looked at in a round.
  std::vector<uint64_t> looks_;
  std::vector<uint64_t> looked_at_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_TIME_WAVEFRONT_H_
