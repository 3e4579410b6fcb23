#include "server/planner/time/wavefront.h"

#include <algorithm>
#include <bit>

namespace batchplan {

// A stage has at most its warm-up plus one forwards without their backward. So far its forwards are
// ahead of the next stage's, and the next stage's backwards ahead of its own.
Wavefront::Wavefront(const Pipeline& pipeline, const RunOrder& order, uint32_t microbatches,
                     bool all)
    : pipeline_(pipeline),
      order_(order),
      stages_(pipeline.stages),
      done_(size_t{2} * pipeline.virtual_stages()),
      looks_((pipeline.stages + 63) / 64) {
  for (uint32_t s = 0; s < pipeline.stages; ++s) {
    stages_[s].warmup = pipeline.Warmup(s, microbatches);
    LookAt(s);
  }
  const uint64_t ahead =
      all ? microbatches : std::min<uint64_t>(stages_.front().warmup + 1, microbatches);
  ring_ = std::bit_ceil(static_cast<uint32_t>(std::max<uint64_t>(ahead, 1)));
}

void Wavefront::Restart() {
  for (Stage& stage : stages_) stage = {.warmup = stage.warmup};
  std::fill(done_.begin(), done_.end(), 0);
  for (uint32_t s = 0; s < pipeline_.stages; ++s) LookAt(s);
}

std::span<const PipelineWork> Wavefront::Next(std::span<PipelineWork> works) {
  size_t count = 0;
  while (works.size() - count >= pipeline_.stages) {
    const size_t before = count;
    looked_at_ = looks_;
    for (size_t word = 0; word < looked_at_.size(); ++word) {
      for (uint64_t bits = looked_at_[word]; bits != 0; bits &= bits - 1) {
        const auto s = static_cast<uint32_t>(64 * word + std::countr_zero(bits));
        count += Ready(s, works[count]);
      }
    }
    if (count == before) break;
    // Works sent in this round are looked at in the next one.
    std::fill(looks_.begin(), looks_.end(), 0);
    for (const PipelineWork& work : works.subspan(before, count - before)) {
      LookAt(work.stage);
      LookAt(work.stage == 0 ? pipeline_.stages - 1 : work.stage - 1);
      LookAt(work.stage + 1u == pipeline_.stages ? 0 : work.stage + 1);
      done_[work.share] = work.microbatch + 1;
      const bool backward = work.share >= pipeline_.virtual_stages();
      ++(backward ? stages_[work.stage].backwards : stages_[work.stage].forwards);
    }
  }
  return works.first(count);
}

bool Wavefront::Ready(uint32_t s, PipelineWork& work) const {
  const Stage& stage = stages_[s];
  const uint64_t all = order_.chunk.size();
  if ((pipeline_.forward_only ? stage.forwards : stage.backwards) == all) return false;
  const bool backward = stage.forwards == all || stage.forwards > stage.backwards + stage.warmup;
  const uint64_t position = backward ? stage.backwards : stage.forwards;
  const uint32_t i = order_.microbatch[position];
  const uint32_t chunk =
      backward ? pipeline_.chunks - 1 - order_.chunk[position] : order_.chunk[position];
  const uint32_t all_stages = pipeline_.virtual_stages();
  const uint32_t q = chunk * pipeline_.stages + s;
  work = {.after = 0,
          .end = EndOf(q, backward, i),
          .microbatch = i,
          .stage = static_cast<uint16_t>(s),
          .share = static_cast<uint16_t>(backward ? all_stages + q : q)};
  if (q == (backward ? all_stages - 1 : 0)) return true;
  const uint32_t sender = backward ? q + 1 : q - 1;
  work.after = EndOf(sender, backward, i);
  return done_[backward ? all_stages + sender : sender] > i;
}

}  // namespace batchplan
