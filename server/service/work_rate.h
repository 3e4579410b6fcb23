// How long work takes for its cost, as lately seen.
//
//   rate.Observe(cost, seconds);              // of every piece of work that ended
//   rate.SecondsFor(cost_ahead)               // what so much work will take one thread, about
//
// The seconds of past work over its cost, both with weights that halve every kHalfLife pieces. 0
// until there is something to go by. Not thread-safe.

#ifndef BATCHPLAN_SERVER_SERVICE_WORK_RATE_H_
#define BATCHPLAN_SERVER_SERVICE_WORK_RATE_H_

#include <cmath>
#include <cstdint>

namespace batchplan {

class WorkRate {
 public:
  static constexpr double kHalfLife = 32;

  void Observe(uint64_t cost, double seconds) {
    static const double kept = std::exp2(-1 / kHalfLife);
    cost_ = cost_ * kept + static_cast<double>(cost);
    seconds_ = seconds_ * kept + seconds;
  }

  double SecondsFor(uint64_t cost) const {
    return cost_ > 0 ? static_cast<double>(cost) * (seconds_ / cost_) : 0;
  }

 private:
  double cost_ = 0;
  double seconds_ = 0;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_WORK_RATE_H_
