// Index types that the compiler keeps apart: a position in the manifest is not a bin is not a rank.

#ifndef BATCHPLAN_SERVER_PLANNER_INDEX_H_
#define BATCHPLAN_SERVER_PLANNER_INDEX_H_

#include <compare>
#include <cstdint>

namespace batchplan {

template <typename Tag>
class Index {
 public:
  Index() = default;
  explicit constexpr Index(uint32_t value) : value_(value) {}

  constexpr uint32_t value() const { return value_; }
  friend constexpr auto operator<=>(Index, Index) = default;

 private:
  uint32_t value_ = 0;
};

// A sequence, by its position in the manifest.
using SequenceIndex = Index<struct SequenceTag>;

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_INDEX_H_
