#include "server/planner/context/item_numbers.h"

#include <limits>

namespace batchplan {
namespace {

constexpr uint32_t kNoItem = std::numeric_limits<uint32_t>::max();

}  // namespace

ItemNumbers::ItemNumbers(size_t sequences) : item_of_(sequences, kNoItem) {}

void ItemNumbers::Number(const SequenceLists& items) {
  for (const SequenceIndex sequence : numbered_) item_of_[sequence.value()] = kNoItem;
  numbered_.clear();
  numbered_.reserve(items.size());
  for (uint32_t item = 0; item < items.size(); ++item) {
    numbered_.push_back(items[item].front());
    item_of_[items[item].front().value()] = item;
  }
}

std::vector<uint32_t> ItemNumbers::In(std::span<const SequenceIndex> sequences) const {
  std::vector<uint32_t> items;
  for (const SequenceIndex sequence : sequences) {
    const uint32_t item = item_of_[sequence.value()];
    if (item != kNoItem) items.push_back(item);
  }
  return items;
}

}  // namespace batchplan
