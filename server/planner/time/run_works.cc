#include "server/planner/time/run_works.h"

#include <algorithm>

namespace batchplan {
namespace {

// Vectors as GCC and Clang have them for every processor.
using VectorOfTwo [[gnu::may_alias]] = double __attribute__((vector_size(16)));
using VectorOfFour [[gnu::may_alias]] = double __attribute__((vector_size(32)));

template <typename Vector>
[[gnu::always_inline]] inline void RunInVectors(std::span<const PipelineWork> works,
                                                const WorkTimes<Four>& times) {
  constexpr size_t kVectors = sizeof(Four) / sizeof(Vector);
  const auto* costs = reinterpret_cast<const Vector*>(times.costs.data());
  auto* free = reinterpret_cast<Vector*>(times.free.data());
  auto* ends = reinterpret_cast<Vector*>(times.ends.data());
  const double* shares = times.shares.data();
  const double transfer = times.transfer;
  for (const PipelineWork& work : works) {
    const double share = shares[work.share];
    for (size_t i = 0; i < kVectors; ++i) {
      const Vector came = ends[work.after * kVectors + i] + transfer;
      const Vector was_free = free[work.stage * kVectors + i];
      const Vector begin = came < was_free ? was_free : came;
      const Vector end = begin + costs[work.microbatch * kVectors + i] * share;
      free[work.stage * kVectors + i] = end;
      ends[work.end * kVectors + i] = end;
    }
  }
}

#if defined(__x86_64__)
// With instructions that a build for every processor does without.
__attribute__((target("avx2"))) void RunInVectorsOfFour(std::span<const PipelineWork> works,
                                                        const WorkTimes<Four>& times) {
  RunInVectors<VectorOfFour>(works, times);
}
#endif

}  // namespace

bool HasVectorsOfFour() {
#if defined(__x86_64__)
  static const bool has = __builtin_cpu_supports("avx2") != 0;
  return has;
#else
  return false;
#endif
}

void RunWorks(std::span<const PipelineWork> works, const WorkTimes<double>& times) {
  for (const PipelineWork& work : works) {
    const double begin = std::max(times.free[work.stage], times.ends[work.after] + times.transfer);
    const double end = begin + times.costs[work.microbatch] * times.shares[work.share];
    times.free[work.stage] = end;
    times.ends[work.end] = end;
  }
}

void RunWorks(std::span<const PipelineWork> works, const WorkTimes<Four>& times,
              [[maybe_unused]] bool vectors_of_four) {
#if defined(__x86_64__)
  if (vectors_of_four) {
    RunInVectorsOfFour(works, times);
    return;
  }
#endif
  RunInVectors<VectorOfTwo>(works, times);
}

}  // namespace batchplan
