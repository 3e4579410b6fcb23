#include "server/planner/place/follow_ranks.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <queue>
#include <utility>

#include "server/planner/packing/bin_state.h"
#include "server/planner/packing/packer.h"

namespace batchplan {
namespace {

constexpr uint64_t kNoLimit = std::numeric_limits<int64_t>::max();

// After this many bins without room the search for one is given up.
constexpr size_t kMostPassed = 64;

using Parts = std::vector<std::vector<uint32_t>>;

// The groups at one place of the pool, in all slots of the same sizes.
class Place {
 public:
  // `lead`: the groups there, of as many ranks as problem.sizes[size].
  Place(const ContextProblem& problem, uint32_t size, Parts lead)
      : problem_(problem), size_(problem.sizes[size]), lead_(std::move(lead)) {
    for (const std::vector<uint32_t>& group : lead_) {
      items_.insert(items_.end(), group.begin(), group.end());
    }
    fits_ = std::all_of(items_.begin(), items_.end(), [&](uint32_t item) {
      return size_.tokens[item] <= size_.capacity &&
             (problem_.max_sequences == 0 || CountOf(item) <= problem_.max_sequences);
    });
    if (!fits_) return;
    packed_ = PackDecreasing();
    const bool lead_fits =
        std::all_of(lead_.begin(), lead_.end(), [&](const auto& group) { return Holds(group); });
    if (!lead_fits) lead_.clear();
    fewest_ = lead_fits ? std::min(packed_.size(), lead_.size()) : packed_.size();
  }

  // Whether every item fits a group by itself.
  bool fits() const { return fits_; }
  // The fewest groups that suffice; items() is the most without an empty group.
  size_t fewest() const { return fewest_; }
  size_t items() const { return items_.size(); }

  // This many groups, at least fewest(); the costliest first.
  Parts Fill(size_t groups) const {
    Parts parts = LongestFirst(groups);
    if (parts.empty()) parts = Divide(packed_.size() <= groups ? packed_ : lead_, groups);
    std::stable_sort(parts.begin(), parts.end(),
                     [&](const auto& a, const auto& b) { return CostOf(a) > CostOf(b); });
    return parts;
  }

 private:
  uint64_t MostSequences() const {
    return problem_.max_sequences == 0 ? kNoLimit : problem_.max_sequences;
  }
  uint32_t CountOf(uint32_t item) const {
    return problem_.counts.empty() ? 1 : problem_.counts[item];
  }
  Cost CostOf(const std::vector<uint32_t>& group) const {
    Cost cost = 0;
    for (const uint32_t item : group) cost += size_.Added(item);
    return cost;
  }
  bool Holds(const std::vector<uint32_t>& group) const {
    uint64_t tokens = 0;
    uint64_t sequences = 0;
    for (const uint32_t item : group) {
      tokens += size_.tokens[item];
      sequences += CountOf(item);
    }
    return tokens <= size_.capacity && sequences <= MostSequences();
  }

  // First fit decreasing.
  Parts PackDecreasing() const {
    std::vector<uint32_t> tokens;
    std::vector<uint32_t> counts;
    for (const uint32_t item : items_) {
      tokens.push_back(size_.tokens[item]);
      if (!problem_.counts.empty()) counts.push_back(problem_.counts[item]);
    }
    BinLimits limits = {.capacity = static_cast<uint32_t>(size_.capacity)};
    if (problem_.max_sequences > 0) limits.max_sequences = problem_.max_sequences;
    const Bins bins =
        PackFirstFitDecreasing(PackItems{.lengths = tokens, .counts = counts}, limits);
    Parts parts(bins.size());
    for (size_t bin = 0; bin < bins.size(); ++bin) {
      for (const uint32_t i : bins[bin]) parts[bin].push_back(items_[i]);
    }
    return parts;
  }

  // The costliest item first, each to the cheapest group with room; nothing if an item finds none
  // soon.
  Parts LongestFirst(size_t groups) const {
    std::vector<uint32_t> order = items_;
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return size_.Added(a) > size_.Added(b); });
    std::vector<BinState> filled(groups, BinState::Empty(size_.capacity, MostSequences()));
    Parts parts(groups);
    // Empty groups before those whose items cost nothing.
    using Key = std::pair<std::pair<Cost, size_t>, size_t>;
    std::priority_queue<Key, std::vector<Key>, std::greater<>> cheapest;
    for (size_t group = 0; group < groups; ++group) cheapest.push({{0, 0}, group});
    std::vector<Key> passed;
    for (const uint32_t item : order) {
      passed.clear();
      bool found = false;
      while (!found && !cheapest.empty() && passed.size() < kMostPassed) {
        Key key = cheapest.top();
        cheapest.pop();
        const ItemSize size = ItemSize::Of(size_.Added(item), size_.tokens[item], CountOf(item));
        found = filled[key.second].Holds(size);
        if (found) {
          filled[key.second].Add(size);
          parts[key.second].push_back(item);
          key.first.first += size_.Added(item);
          ++key.first.second;
        }
        passed.push_back(key);
      }
      if (!found) return {};
      for (const Key& key : passed) cheapest.push(key);
    }
    return parts;
  }

  // Raises the number of groups: halves those with most items, or adds empty ones.
  static Parts Divide(Parts parts, size_t groups) {
    std::priority_queue<std::pair<size_t, size_t>> fullest;
    for (size_t part = 0; part < parts.size(); ++part) fullest.push({parts[part].size(), part});
    while (parts.size() < groups) {
      std::vector<uint32_t>& most = parts[fullest.empty() ? 0 : fullest.top().second];
      if (fullest.empty() || most.size() < 2) {
        parts.emplace_back();
        continue;
      }
      const size_t from = fullest.top().second;
      fullest.pop();
      const auto middle = most.begin() + static_cast<ptrdiff_t>(most.size() / 2);
      std::vector<uint32_t> second(middle, most.end());
      most.erase(middle, most.end());
      fullest.push({most.size(), from});
      fullest.push({second.size(), parts.size()});
      parts.push_back(std::move(second));
    }
    return parts;
  }

  const ContextProblem& problem_;
  const ContextSize& size_;
  Parts lead_;
  std::vector<uint32_t> items_;
  bool fits_ = false;
  Parts packed_;
  size_t fewest_ = 0;
};

// Slots whose groups have the same sizes.
struct Alike {
  std::vector<uint32_t> sizes;
  std::vector<Place> places;
  // The fewest and the most slots, and their present number.
  uint64_t fewest = 1;
  uint64_t most = kNoLimit;
  uint64_t slots = 0;
};

// The slots of `lead` by the sizes of their groups, in the order of their first.
std::optional<std::vector<Alike>> Classify(const ContextProblem& problem,
                                           const ContextSlots& lead) {
  std::map<std::vector<uint32_t>, size_t> number;
  std::vector<std::vector<Parts>> parts;
  std::vector<Alike> classes;
  for (const std::vector<ContextGroup>& slot : lead) {
    std::vector<uint32_t> sizes;
    for (const ContextGroup& group : slot) {
      if (group.size >= problem.sizes.size()) return std::nullopt;
      sizes.push_back(group.size);
    }
    const auto [at, is_new] = number.emplace(sizes, classes.size());
    if (is_new) {
      classes.push_back({.sizes = sizes, .places = {}});
      parts.emplace_back(slot.size());
    }
    for (size_t g = 0; g < slot.size(); ++g) parts[at->second][g].push_back(slot[g].items);
  }
  for (size_t c = 0; c < classes.size(); ++c) {
    Alike& alike = classes[c];
    for (size_t g = 0; g < alike.sizes.size(); ++g) {
      const Place& place =
          alike.places.emplace_back(problem, alike.sizes[g], std::move(parts[c][g]));
      if (!place.fits()) return std::nullopt;
      alike.fewest = std::max<uint64_t>(alike.fewest, place.fewest());
      if (!problem.allow_empty) alike.most = std::min<uint64_t>(alike.most, place.items());
    }
    if (alike.fewest > alike.most) return std::nullopt;
    alike.slots = alike.fewest;
  }
  return classes;
}

}  // namespace

std::optional<ContextSlots> FollowRanks(const ContextProblem& problem, const ContextSlots& lead) {
  std::optional<std::vector<Alike>> classes = Classify(problem, lead);
  if (!classes) return std::nullopt;
  uint64_t slots = 0;
  for (const Alike& alike : *classes) slots += alike.fewest;
  uint64_t missing = problem.slots.RoundUp(slots) - slots;
  for (Alike& alike : *classes) {
    const uint64_t more = std::min(missing, alike.most - alike.slots);
    alike.slots += more;
    missing -= more;
  }
  if (missing > 0) return std::nullopt;
  ContextSlots result;
  for (const Alike& alike : *classes) {
    const size_t first = result.size();
    result.resize(first + alike.slots);
    for (size_t g = 0; g < alike.places.size(); ++g) {
      Parts parts = alike.places[g].Fill(alike.slots);
      for (size_t slot = 0; slot < parts.size(); ++slot) {
        result[first + slot].push_back({.size = alike.sizes[g], .items = std::move(parts[slot])});
      }
    }
  }
  return result;
}

}  // namespace batchplan
