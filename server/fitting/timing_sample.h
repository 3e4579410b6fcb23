// What is known of one micro-batch that ran.

#ifndef BATCHPLAN_SERVER_FITTING_TIMING_SAMPLE_H_
#define BATCHPLAN_SERVER_FITTING_TIMING_SAMPLE_H_

namespace batchplan {

struct TimingSample {
  // Sums over its sequences of the aligned length and of its square.
  double tokens = 0;
  double tokens_squared = 0;
  double milliseconds = 0;

  friend bool operator==(const TimingSample&, const TimingSample&) = default;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_FITTING_TIMING_SAMPLE_H_
