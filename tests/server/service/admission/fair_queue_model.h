// The specification of FairQueue in a form that is obviously right, and random calls to test both.

#ifndef BATCHPLAN_TESTS_SERVER_SERVICE_ADMISSION_FAIR_QUEUE_MODEL_H_
#define BATCHPLAN_TESTS_SERVER_SERVICE_ADMISSION_FAIR_QUEUE_MODEL_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "server/service/admission/fair_queue.h"
#include "tests/support/generators.h"

namespace batchplan {

inline constexpr size_t kPlenty = 1000;

inline Instant At(absl::Duration time) { return Instant(absl::ToChronoNanoseconds(time)); }

inline FairQueue::Call MakeCall(const std::string& owner, const std::string& job, uint64_t id,
                                uint64_t cost = 100, absl::Duration time = absl::Seconds(1)) {
  return {.owner = owner, .job = job, .id = id, .cost = cost, .time = time};
}

// The queue's rules from its header, looked up in vectors each time. Time stands still.
class FairQueueModel {
 public:
  using Call = FairQueue::Call;
  // Whose turn a call uses: its owner and its job, or no job for a newcomer.
  using Place = std::pair<std::string, std::optional<std::string>>;

  void Push(const Call& call) {
    const Place place = PlaceOf(call.owner, call.job);
    Owner& owner = owners_[call.owner];
    Arrive(owner, level_, Held(call.owner).first > 0,
           Waits([&](const Call& one) { return one.owner == call.owner; }));
    Arrive(owner.jobs[place.second], owner.level, Held(place).first > 0,
           Waits([&](const Call& one) { return placed_[one.id] == place; }));
    placed_[call.id] = place;
    waiting_.push_back(call);
  }

  std::optional<uint64_t> Pop(size_t free_threads) {
    free_threads_ = free_threads;
    const Call* next = nullptr;
    for (const Call& call : waiting_) {
      if (!Allowed(call)) continue;
      if (next == nullptr || Rank(call) < Rank(*next)) next = &call;
    }
    if (next == nullptr) return std::nullopt;
    const Call call = *next;
    Owner& owner = owners_[call.owner];
    Account& job = owner.jobs[placed_[call.id].second];
    Reach(owner, level_);
    Reach(job, owner.level);
    owner.used += call.time;
    job.used += call.time;
    std::erase_if(waiting_, [&](const Call& one) { return one.id == call.id; });
    taken_.push_back(call);
    return call.id;
  }

  void Done(uint64_t id, absl::Duration time) {
    const auto found = Find(taken_, id);
    const Call call = *found;
    Owner& owner = owners_[call.owner];
    const Place place = placed_[id];
    const auto owners = std::count_if(owners_.begin(), owners_.end(),
                                      [&](const auto& one) { return Held(one.first).first > 0; });
    const auto jobs = std::count_if(owner.jobs.begin(), owner.jobs.end(), [&](const auto& one) {
      return Held(Place(call.owner, one.first)).first > 0;
    });
    level_.share += time / static_cast<double>(owners);
    owner.level.share += time / static_cast<double>(jobs);
    taken_.erase(found);
    owner.used += time - call.time;
    owner.jobs[place.second].used += time - call.time;
    if (!place.second.has_value() && !owner.jobs.contains(call.job)) {
      owner.jobs[call.job] = {.used = owner.level.reached + time, .left_at = owner.level.share};
      for (const auto* calls : {&waiting_, &taken_}) {
        for (const Call& one : *calls) {
          if (one.owner == call.owner && one.job == call.job) placed_[one.id].second = call.job;
        }
      }
    }
    NoteAbsence(place);
  }

  bool Remove(uint64_t id) {
    const auto found = Find(waiting_, id);
    if (found == waiting_.end()) return false;
    const std::string owner = found->owner;
    waiting_.erase(found);
    NoteAbsence(placed_[id]);
    if (owners_[owner].jobs.size() == 1 && !Held(owner).first) owners_.erase(owner);
    return true;
  }

  const std::vector<Call>& waiting() const { return waiting_; }
  const std::vector<Call>& taken() const { return taken_; }

  uint64_t Cost() const {
    uint64_t cost = 0;
    for (const auto* calls : {&waiting_, &taken_}) {
      for (const Call& call : *calls) cost += call.cost;
    }
    return cost;
  }

  Place PlaceOf(const std::string& owner, const std::string& job) const {
    const auto found = owners_.find(owner);
    if (found == owners_.end() || !found->second.jobs.contains(job)) return {owner, std::nullopt};
    return {owner, job};
  }
  const Place& PlaceOf(const Call& call) const { return placed_.at(call.id); }

  // The number and cost of the calls of a place or an owner, waiting or taken.
  std::pair<size_t, uint64_t> Held(const Place& place) const {
    return Sum([&](const Call& call) { return placed_.at(call.id) == place; });
  }
  std::pair<size_t, uint64_t> Held(const std::string& owner) const {
    return Sum([&](const Call& call) { return call.owner == owner; });
  }

 private:
  struct Account {
    absl::Duration used;
    // The level's share when it was left without calls.
    absl::Duration left_at;
  };
  struct Level {
    absl::Duration reached;
    absl::Duration share;
  };
  struct Owner : Account {
    Level level;
    // Newcomers have no name here.
    std::map<std::optional<std::string>, Account> jobs = {{std::nullopt, {}}};
  };

  static void Arrive(Account& account, const Level& level, bool has_calls, bool waits) {
    if (!has_calls) {
      const absl::Duration as_far_behind = account.used + (level.share - account.left_at);
      account.used = std::max(account.used, std::min(level.share, as_far_behind));
    }
    if (!waits) account.used = std::max(account.used, level.reached);
  }
  static void Reach(const Account& account, Level& level) {
    level.reached = std::max(level.reached, account.used);
    level.share = std::max(level.share, level.reached);
  }
  void NoteAbsence(const Place& place) {
    Owner& owner = owners_[place.first];
    if (Held(place).first == 0) owner.jobs[place.second].left_at = owner.level.share;
    if (Held(place.first).first == 0) owner.left_at = level_.share;
  }

  static std::vector<Call>::iterator Find(std::vector<Call>& calls, uint64_t id) {
    return std::find_if(calls.begin(), calls.end(), [id](const Call& c) { return c.id == id; });
  }
  template <typename Which>
  bool Waits(const Which& which) const {
    return std::any_of(waiting_.begin(), waiting_.end(), which);
  }
  template <typename Which>
  std::pair<size_t, uint64_t> Sum(const Which& which) const {
    std::pair<size_t, uint64_t> held;
    for (const auto* calls : {&waiting_, &taken_}) {
      for (const Call& call : *calls) {
        if (!which(call)) continue;
        ++held.first;
        held.second += call.cost;
      }
    }
    return held;
  }

  bool Allowed(const Call& call) const {
    if (free_threads_ != 1) return free_threads_ > 0;
    const bool newcomer = !PlaceOf(call).second.has_value();
    const bool is_first =
        !Waits([&](const Call& one) { return one.id < call.id && PlaceOf(one) == PlaceOf(call); });
    if (!newcomer && is_first && call.time > absl::ZeroDuration() &&
        call.time <= FairQueue::kShort) {
      return true;
    }
    size_t newcomers = 0;
    for (const Call& held : taken_) {
      if (held.owner != call.owner) continue;
      if (held.job == call.job || owners_.size() > 1) return false;
      if (newcomer && !PlaceOf(held).second.has_value()) ++newcomers;
    }
    return newcomers < 2;
  }

  // The least goes first. At equal use, older calls of a place come before newer ones.
  std::tuple<absl::Duration, uint64_t, absl::Duration, uint64_t> Rank(const Call& call) {
    const Owner& owner = owners_[call.owner];
    return {owner.used, OldestAllowed(call.owner), owner.jobs.at(placed_[call.id].second).used,
            call.id};
  }
  // The call that the owner would have served next; it breaks ties between owners.
  uint64_t OldestAllowed(const std::string& owner) {
    std::optional<std::pair<absl::Duration, uint64_t>> best;
    for (const Call& call : waiting_) {
      if (call.owner != owner || !Allowed(call)) continue;
      const auto rank = std::pair(owners_[owner].jobs.at(placed_[call.id].second).used, call.id);
      if (!best.has_value() || rank < *best) best = rank;
    }
    return best.has_value() ? best->second : 0;
  }

  size_t free_threads_ = 0;
  std::map<std::string, Owner> owners_;
  std::map<uint64_t, Place> placed_;
  Level level_;
  std::vector<Call> waiting_;
  std::vector<Call> taken_;
};

inline uint64_t RandomCost(testing::RandomStream& random) {
  return random.Between(1, random.Chance(10) ? 200'000 : random.Chance(50) ? 3000 : 300);
}

inline absl::Duration RandomTime(testing::RandomStream& random) {
  return absl::Microseconds(random.Between(0, random.Chance(10) ? 2'000'000 : 3000));
}

inline std::string RandomName(testing::RandomStream& random, char first, uint64_t names) {
  return std::string(1, static_cast<char>(first + static_cast<char>(random.Between(0, names - 1))));
}

inline FairQueue::Call RandomCall(testing::RandomStream& random, uint64_t id) {
  return MakeCall(RandomName(random, 'A', 3), RandomName(random, 'a', 4), id, RandomCost(random),
                  RandomTime(random));
}

}  // namespace batchplan

#endif  // BATCHPLAN_TESTS_SERVER_SERVICE_ADMISSION_FAIR_QUEUE_MODEL_H_
