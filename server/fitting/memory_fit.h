// How many tokens a micro-batch may have, fitted from peak memory.
//
//   MemoryFit fit;
//   AddPeak(tokens, peak_bytes, fit);
//   uint32_t budget = SuggestTokens(fit, 80'000'000'000);   // 0: not known
//
// Peak memory is modelled as a constant plus a share for each token, which holds with attention
// that keeps no square matrix. A peak must be the micro-batch's own: the allocator's counter is
// reset before it. Token counts are grouped into classes of one sixteenth of an octave; for each
// class the extremes of tokens and of bytes are kept, for the kPeakClasses classes with most
// tokens. Samples are forgotten in generations: after the next kPeakGeneration samples at the
// earliest and twice as many at the latest.
//
// A value of up to 5 KiB. AddPeak is O(classes), SuggestTokens O(classes^2): some 100 microseconds
// at most.

#ifndef BATCHPLAN_SERVER_FITTING_MEMORY_FIT_H_
#define BATCHPLAN_SERVER_FITTING_MEMORY_FIT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace batchplan {

inline constexpr size_t kPeakClasses = 64;
inline constexpr uint64_t kPeakGeneration = 2048;

// The extremes of the samples of one class. All at least 1.
struct PeakClass {
  uint64_t min_tokens = 0;
  uint64_t max_tokens = 0;
  uint64_t min_bytes = 0;
  uint64_t max_bytes = 0;

  friend bool operator==(const PeakClass&, const PeakClass&) = default;
};

struct MemoryFit {
  // Ascending by tokens.
  std::vector<PeakClass> current;
  std::vector<PeakClass> previous;
  // Samples in `current`.
  uint64_t in_current = 0;

  friend bool operator==(const MemoryFit&, const MemoryFit&) = default;
};

// Both are at least 1; limits in step_report.h.
void AddPeak(uint64_t tokens, uint64_t peak_bytes, MemoryFit& fit);

// The most tokens whose peak is at most `limit_bytes` by an envelope over all samples kept: the
// median of the slopes between any two (H. Theil, 1950; P. K. Sen, "Estimates of the regression
// coefficient based on Kendall's tau", JASA 63, 1968), raised until no sample lies above it; or the
// most tokens seen to fit, if no fewer tokens were seen not to fit. No kept micro-batch above the
// limit has so few tokens. At most a quarter above the most tokens seen. Beyond these it goes by
// the slope only if samples over a factor of two in tokens lie within 5 % of the line, else in
// proportion to the tokens, which is safe whatever the constant.
//
// 0 if no peak is known, or if even the fewest tokens seen are above the limit.
uint32_t SuggestTokens(const MemoryFit& fit, uint64_t limit_bytes);

// The class of `tokens`: below 1024, rising with tokens.
uint32_t PeakClassOf(uint64_t tokens);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_FITTING_MEMORY_FIT_H_
