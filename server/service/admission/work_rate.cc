#include "server/service/admission/work_rate.h"

#include <cmath>
#include <iterator>

namespace batchplan {

void WorkRate::Rate::Observe(uint64_t more_cost, absl::Duration more_time, double half_life) {
  const double kept = std::exp2(-1 / half_life);
  cost = cost * kept + static_cast<double>(more_cost);
  time = time * kept + more_time;
}

void WorkRate::Observe(const Kind& kind, uint64_t cost, absl::Duration time) {
  all_.Observe(cost, time, kHalfLifeOfAll);
  efforts_[EffortOf(kind)].Observe(cost, time, kHalfLifeOfAll);
  auto found = kinds_.find(kind);
  if (found == kinds_.end()) {
    if (kinds_.size() == kMaxKinds) {
      kinds_.erase(kinds_.find(*uses_.front()));
      uses_.pop_front();
    }
    std::list<const Kind*> use(1);
    found = kinds_.try_emplace(kind).first;
    use.front() = &found->first;
    found->second.use = use.begin();
    uses_.splice(uses_.end(), use);
  }
  uses_.splice(uses_.end(), uses_, found->second.use);
  found->second.rate.Observe(cost, time, kHalfLife);
}

absl::Duration WorkRate::TimeFor(const Kind& kind, uint64_t cost) const {
  const auto found = kinds_.find(kind);
  const Rate& rate = found != kinds_.end()               ? found->second.rate
                     : efforts_[EffortOf(kind)].cost > 0 ? efforts_[EffortOf(kind)]
                                                         : all_;
  return rate.cost > 0 ? rate.time * (static_cast<double>(cost) / rate.cost) : absl::ZeroDuration();
}

}  // namespace batchplan
