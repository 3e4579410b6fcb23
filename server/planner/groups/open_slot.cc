#include "server/planner/groups/open_slot.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "server/planner/packing/maxima.h"

namespace batchplan {
namespace {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();
constexpr uint64_t kTicksAVisit = 30;
// Visits from one look for a stop to the next.
constexpr uint64_t kVisitsPerLook = 4096;

constexpr uint32_t kNowhere = UINT32_MAX;
struct Place {
  // A group or, if that is kNowhere, a new one of this size.
  uint32_t group = kNowhere;
  uint32_t size = kNowhere;

  explicit operator bool() const { return size != kNowhere; }
};

// The groups of one size in a slot that is being filled, numbered as they were opened.
class GroupsOfSize {
 public:
  explicit GroupsOfSize(uint32_t most) : most_(most) {}

  void Add(uint32_t number, const OpenGroup& group) {
    if (!room_) room_.emplace(most_, Numbers({-kUnbounded, -kUnbounded}));
    numbers_.push_back(number);
    Insert(static_cast<uint32_t>(numbers_.size() - 1), group);
  }
  // `before` is what the group was until now.
  void Update(uint32_t number, double before, const OpenGroup& group) {
    const auto position = static_cast<uint32_t>(
        std::lower_bound(numbers_.begin(), numbers_.end(), number) - numbers_.begin());
    by_work_.erase({before, position});
    Insert(position, group);
  }

  // The first group with at most that work and that many tokens that `holds` accepts.
  template <typename Holds>
  uint32_t First(double work, double tokens, Holds holds, Visits& visits) const {
    if (!room_) return kNowhere;
    for (size_t position = 0; position < numbers_.size() && visits.Spend(1); ++position) {
      position = room_->FirstAtLeast(position, Numbers({-work, -tokens}));
      if (position >= numbers_.size()) break;
      if (holds(numbers_[position])) return numbers_[position];
    }
    return kNowhere;
  }

  // The group with the least work of those with at most that many tokens that `holds` accepts.
  template <typename Holds>
  uint32_t Least(double tokens, Holds holds, Visits& visits) const {
    if (First(kUnbounded, tokens, holds, visits) == kNowhere) return kNowhere;
    for (const auto& [work, position] : by_work_) {
      if (!visits.Spend(1)) break;
      if (holds(numbers_[position])) return numbers_[position];
    }
    return kNowhere;
  }

 private:
  using Numbers = std::array<double, 2>;

  void Insert(uint32_t position, const OpenGroup& group) {
    room_->Set(position, Numbers({-group.work, -static_cast<double>(group.tokens)}));
    by_work_.insert({group.work, position});
  }

  size_t most_;
  std::vector<uint32_t> numbers_;
  // By position: minus the group's work and tokens. None without groups.
  std::optional<Maxima<double, 2>> room_;
  std::set<std::pair<double, uint32_t>> by_work_;
};

class Filler {
 public:
  Filler(const ContextProblem& problem, const GroupSizes& sizes, Visits& visits)
      : problem_(problem), sizes_(sizes), visits_(visits) {
    slot_.free = problem.pool;
    of_size_.reserve(sizes.count());
    for (uint32_t size = 0; size < sizes.count(); ++size) {
      of_size_.emplace_back(problem.pool / sizes.ranks(size));
    }
  }

  // The first item opens a group of the least size that holds it.
  void Open(uint32_t item) { Put(item, {.size = sizes_.LeastOf(item)}); }

  // The place that keeps the slot's greatest work least.
  Place PlaceFor(uint32_t item) const {
    Place best;
    double least = kUnbounded;
    for (uint32_t size = 0; size < sizes_.doublings(); ++size) {
      if (!sizes_.Holds(size, item)) continue;
      const double work = sizes_.WorkOf(size, item);
      const double room =
          static_cast<double>(problem_.sizes[size].capacity) - problem_.sizes[size].tokens[item];
      const auto holds = [&](uint32_t group) { return sizes_.Holds(slot_.groups[group], item); };
      const GroupsOfSize& groups = of_size_[size];
      Place place = {.group = groups.First(most_ - work, room, holds, visits_), .size = size};
      double result = most_;
      if (place.group == kNowhere) {
        if (sizes_.ranks(size) <= slot_.free) {
          result = std::max(most_, work);
        } else {
          place.group = groups.Least(room, holds, visits_);
          if (place.group == kNowhere) continue;
          result = slot_.groups[place.group].work + work;
        }
      }
      if (best && result >= least) continue;
      best = place;
      least = result;
      if (result <= most_) break;
    }
    return best;
  }

  void Put(uint32_t item, const Place& place) {
    GroupsOfSize& groups = of_size_[place.size];
    uint32_t number = place.group;
    if (number == kNowhere) {
      number = static_cast<uint32_t>(slot_.groups.size());
      slot_.groups.push_back(sizes_.GroupOf(place.size, {&item, 1}));
      slot_.free -= sizes_.ranks(place.size);
      groups.Add(number, slot_.groups.back());
    } else {
      const double before = slot_.groups[number].work;
      sizes_.Put(item, slot_.groups[number]);
      groups.Update(number, before, slot_.groups[number]);
    }
    most_ = std::max(most_, slot_.groups[number].work);
  }

  OpenSlot Take() { return std::move(slot_); }

 private:
  const ContextProblem& problem_;
  const GroupSizes& sizes_;
  Visits& visits_;
  OpenSlot slot_;
  std::vector<GroupsOfSize> of_size_;
  // The work of the most loaded group.
  double most_ = 0;
};

}  // namespace

Visits::Visits(const Allowance& allowance, uint64_t most)
    : allowance_(allowance),
      left_(most),
      ends_when_spent_(most == kOfAllowance),
      since_look_(kVisitsPerLook) {}

bool Visits::Spend(uint64_t visits) {
  if (ended_) return false;
  allowance_.Spend(kTicksAVisit * visits);
  ended_ = visits > left_ || (ends_when_spent_ && allowance_.spent());
  left_ -= std::min(visits, left_);
  since_look_ += visits;
  if (since_look_ >= kVisitsPerLook) {
    since_look_ = 0;
    ended_ = ended_ || allowance_.stop_requested();
  }
  return !ended_;
}

GroupSizes::GroupSizes(const ContextProblem& problem)
    : problem_(problem), doublings_(static_cast<uint32_t>(problem.sizes.size())) {
  // Sizes between them may be missing, as those that exchange too much are.
  const uint32_t most = ranks(doublings_ - 1);
  if (most % ranks(0) != 0 || !std::has_single_bit(most / ranks(0))) --doublings_;
}

double GroupSizes::WorkOf(uint32_t size, uint32_t item) const {
  const double tokens = problem_.sizes.front().tokens[item];
  return tokens * tokens / ranks(size);
}

bool GroupSizes::Holds(uint32_t size, uint32_t item) const {
  return problem_.sizes[size].tokens[item] <= problem_.sizes[size].capacity;
}

bool GroupSizes::Holds(const OpenGroup& group, uint32_t item) const {
  const ContextSize& size = problem_.sizes[group.size];
  const uint32_t more = problem_.counts.empty() ? 1 : problem_.counts[item];
  return group.tokens + size.tokens[item] <= size.capacity &&
         (problem_.max_sequences == 0 || group.sequences + more <= problem_.max_sequences);
}

uint32_t GroupSizes::LeastOf(uint32_t item) const {
  uint32_t size = 0;
  while (size + 1 < count() && !Holds(size, item)) ++size;
  return size;
}

void GroupSizes::Put(uint32_t item, OpenGroup& group) const {
  group.tokens += problem_.sizes[group.size].tokens[item];
  group.sequences += problem_.counts.empty() ? 1 : problem_.counts[item];
  group.work += WorkOf(group.size, item);
  group.items.push_back(item);
}

OpenGroup GroupSizes::GroupOf(uint32_t size, std::span<const uint32_t> items) const {
  OpenGroup group{.size = size};
  for (const uint32_t item : items) Put(item, group);
  return group;
}

bool GroupSizes::FitsIn(const OpenGroup& group, uint32_t size) const {
  uint64_t tokens = 0;
  for (const uint32_t item : group.items) tokens += problem_.sizes[size].tokens[item];
  return tokens <= problem_.sizes[size].capacity;
}

ByLength::ByLength(const ContextProblem& problem)
    : single_(problem.counts.empty()), items_(problem.items()), positions_(problem.items()) {
  // By tokens of the smallest size, whose alignment is finest.
  const std::vector<uint32_t>& tokens = problem.sizes.front().tokens;
  std::iota(items_.begin(), items_.end(), 0u);
  std::sort(items_.begin(), items_.end(), [&](uint32_t a, uint32_t b) {
    return tokens[a] > tokens[b] || (tokens[a] == tokens[b] && a < b);
  });
  for (uint32_t position = 0; position < items_.size(); ++position) {
    positions_[items_[position]] = position;
  }
}

OpenSlot FillOpenSlot(const ContextProblem& problem, const GroupSizes& sizes,
                      const ByLength& by_length, IndexSet& waiting, Visits& visits) {
  Filler filler(problem, sizes, visits);
  size_t position = waiting.AtLeast(0);
  if (position == IndexSet::kNone || !visits.Spend(1)) return filler.Take();
  filler.Open(by_length[position]);
  waiting.Erase(position);
  position = waiting.AtLeast(position + 1);
  while (position != IndexSet::kNone && visits.Spend(1)) {
    size_t next = position + 1;
    if (const Place place = filler.PlaceFor(by_length[position])) {
      filler.Put(by_length[position], place);
      waiting.Erase(position);
    } else {
      next = by_length.FirstWithPlace(
          next, [&](uint32_t item) { return static_cast<bool>(filler.PlaceFor(item)); });
    }
    position = waiting.AtLeast(next);
  }
  return filler.Take();
}

}  // namespace batchplan
