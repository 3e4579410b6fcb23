#include "server/planner/balance/item_classes.h"

#include <algorithm>
#include <cstddef>
#include <tuple>

#include "server/planner/packing/decreasing.h"

namespace batchplan {
namespace {

bool Costlier(const ItemClass& a, const ItemClass& b) {
  return std::tuple(b.cost, b.length, b.sequences) < std::tuple(a.cost, a.length, a.sequences);
}

// By a histogram of lengths. Empty if two items of one length cost differently.
std::vector<ItemClass> ClassesByLength(const PackItems& items, uint32_t longest) {
  std::vector<ItemClass> histogram(size_t{longest} + 1);
  for (size_t i = 0; i < items.size(); ++i) {
    ItemClass& bucket = histogram[items.lengths[i]];
    if (bucket.items == 0) {
      bucket.length = items.lengths[i];
      bucket.cost = items.loads[i];
    } else if (bucket.cost != items.loads[i]) {
      return {};
    }
    ++bucket.items;
  }
  std::vector<ItemClass> classes;
  for (size_t length = histogram.size(); length-- > 0;) {
    if (histogram[length].items > 0) classes.push_back(histogram[length]);
  }
  return classes;
}

// Merges neighbours that are alike.
void MergeEquals(std::vector<ItemClass>& classes) {
  size_t last = 0;
  for (size_t i = 1; i < classes.size(); ++i) {
    if (!Costlier(classes[last], classes[i])) {
      classes[last].items += classes[i].items;
    } else {
      classes[++last] = classes[i];
    }
  }
  if (!classes.empty()) classes.resize(last + 1);
}

}  // namespace

std::vector<ItemClass> ClassesByCost(const PackItems& items) {
  if (items.size() == 0) return {};
  std::vector<ItemClass> classes;
  const uint32_t longest = *std::max_element(items.lengths.begin(), items.lengths.end());
  if (items.counts.empty() && longest / 8 <= items.size()) {
    classes = ClassesByLength(items, longest);
  }
  if (classes.empty()) {
    classes.reserve(items.size());
    // Most often the longest is the costliest too, and lengths are quicker to sort.
    for (const uint32_t i : DecreasingOrder(items.lengths)) {
      classes.push_back({.cost = items.loads[i],
                         .length = items.lengths[i],
                         .sequences = items.count(i),
                         .items = 1});
    }
  }
  if (!std::is_sorted(classes.begin(), classes.end(), Costlier)) {
    std::sort(classes.begin(), classes.end(), Costlier);
  }
  MergeEquals(classes);
  return classes;
}

}  // namespace batchplan
