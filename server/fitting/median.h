#ifndef BATCHPLAN_SERVER_FITTING_MEDIAN_H_
#define BATCHPLAN_SERVER_FITTING_MEDIAN_H_

#include <algorithm>
#include <cstddef>
#include <vector>

namespace batchplan {

// The median of at least one value; of an even number, the larger of the two in the middle. Linear
// time.
inline double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_FITTING_MEDIAN_H_
