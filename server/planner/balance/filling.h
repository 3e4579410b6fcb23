// Micro-batches while they are being filled and improved.

#ifndef BATCHPLAN_SERVER_PLANNER_BALANCE_FILLING_H_
#define BATCHPLAN_SERVER_PLANNER_BALANCE_FILLING_H_

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "server/planner/balance/problem.h"

namespace batchplan {

// The bins of a problem and the positions that each holds, costliest first. A bin may be overfull
// for a while: its room is negative then.
class Filling {
 public:
  struct Load {
    uint64_t cost = 0;
    int64_t room = 0;       // tokens
    int64_t sequences = 0;  // that may still come
    uint32_t items = 0;
  };

  static constexpr uint32_t kUnplaced = std::numeric_limits<uint32_t>::max();

  // Nothing is placed. The problem must outlive the filling.
  explicit Filling(const Problem& problem);

  const Problem& problem() const { return *problem_; }
  uint32_t bins() const { return static_cast<uint32_t>(loads_.size()); }
  const Load& operator[](uint32_t bin) const { return loads_[bin]; }
  std::span<const uint32_t> Members(uint32_t bin) const { return members_[bin]; }
  uint32_t BinOf(uint32_t position) const { return bin_of_[position]; }
  std::span<const uint32_t> bin_of() const { return bin_of_; }

  bool Holds(uint32_t bin, uint32_t position) const {
    return problem_->length[position] <= loads_[bin].room &&
           problem_->count[position] <= loads_[bin].sequences;
  }
  bool IsOverfull(uint32_t bin) const { return loads_[bin].room < 0 || loads_[bin].sequences < 0; }

  void Place(uint32_t position, uint32_t bin);
  void Remove(uint32_t position);
  void Move(uint32_t position, uint32_t bin) {
    Remove(position);
    Place(position, bin);
  }

 private:
  const Problem* problem_;
  std::vector<Load> loads_;
  std::vector<std::vector<uint32_t>> members_;
  std::vector<uint32_t> bin_of_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_BALANCE_FILLING_H_
