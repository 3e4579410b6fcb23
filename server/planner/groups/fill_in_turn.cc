// One slot after the other, each with as little waste as can be found.
//
// The longest item left decides the time of the next slot: from its own time in its fastest size to
// that of a group full of such items. At kDefault sixteen times in between are tried, each with the
// two ways of SlotFiller, and then the neighbours of the best one. The slot with least time a unit
// of work is kept; its fixed cost counts as time, so that slots get longer if they are dear. Once
// few tries are left, only times close to the last slot's are tried.

#include "server/planner/groups/fill_in_turn.h"

#include <algorithm>
#include <utility>

#include "absl/numeric/int128.h"
#include "server/planner/groups/fill_slots.h"
#include "server/planner/packing/index_set.h"

namespace batchplan {
namespace {

constexpr uint64_t kTicksAnItem = 150;
constexpr uint64_t kTicksAGroup = 100;
// With fewer tries only times close to the last slot's are tried.
constexpr uint32_t kFewTries = 8;
// One slot in this many tries all times.
constexpr uint64_t kSlotsToLook = 16;
// By how much these are shorter and longer, in 1/1024.
constexpr Cost kClose = 40;

class TurnFiller {
 public:
  TurnFiller(const ContextItems& all, std::span<const uint32_t> items, const TurnOptions& options,
             const Allowance& allowance)
      : all_(all),
        options_(options),
        allowance_(allowance),
        left_(all.size()),
        filler_(all, left_),
        fixed_(all.RankTime(all.problem().pool, options.per_slot)) {
    for (const uint32_t item : items) left_.Insert(item);
  }

  std::vector<FilledSlot> Run() {
    std::vector<FilledSlot> slots;
    while (true) {
      const size_t first = left_.AtLeast(0);
      if (first == IndexSet::kNone) return slots;
      best_ = {};
      for (const Cost time : TimesOf(static_cast<uint32_t>(first))) Try(time);
      Refine();
      if (allowance_.stop_requested() || best_.slot.empty()) return {};
      last_ = best_.most;
      ++number_;
      for (const FilledGroup& group : best_.slot) {
        for (const uint32_t item : group.items) left_.Erase(item);
      }
      slots.push_back(std::move(best_.slot));
    }
  }

 private:
  struct Filled {
    FilledSlot slot = {};
    uint64_t rank_time = 0;
    uint64_t work = 0;
    Cost most = 0;
  };

  // Ascending.
  std::vector<Cost> TimesOf(uint32_t first) {
    std::vector<Cost> times;
    Cost full = 0;
    for (uint32_t size = 0; size < all_.sizes(); ++size) {
      if (!all_.MayTake(size, first)) continue;
      const Cost alone = all_.Alone(size, first);
      times.push_back(alone);
      const uint64_t tokens = std::max<uint64_t>(all_.tokens(size, first), 1);
      const absl::uint128 filled = all_.whole_row(size) + absl::uint128(all_.cost(size, first)) *
                                                              all_.capacity(size) / tokens;
      full = std::max(full, absl::Uint128Low64(std::min(filled, absl::uint128(1) << 62)));
    }
    if (times.empty()) return {};
    const Cost least = *std::min_element(times.begin(), times.end());
    const Cost most = std::max(least, std::min(full, options_.most));
    if (Few() && last_ >= least && last_ <= most && number_ % kSlotsToLook != 0) {
      const Cost change = last_ / 1024 * kClose;
      return {std::max(least, last_ - change), last_, std::min(most, last_ + change)};
    }
    // Even steps of the quotient, in 1/1024: at most as many as wanted.
    const uint32_t tries = std::max(options_.tries, kFewTries);
    const uint32_t steps = tries > times.size() ? tries - static_cast<uint32_t>(times.size()) : 1;
    step_ = 1;
    while (step_ < 1024 && TakesMore(steps, least, most)) step_ += 1 + step_ / 8;
    for (Cost time = least; time < most; time += std::max<Cost>(time / 1024 * step_, 1)) {
      times.push_back(time);
    }
    times.push_back(most);
    std::erase_if(times, [&](Cost time) { return time > most; });
    std::sort(times.begin(), times.end());
    times.erase(std::unique(times.begin(), times.end()), times.end());
    return times;
  }

  // Whether there are more than this many steps from one time to the other.
  bool TakesMore(uint32_t steps, Cost least, Cost most) const {
    Cost time = least;
    for (uint32_t i = 0; i < steps && time < most; ++i) {
      time += std::max<Cost>(time / 1024 * step_, 1);
    }
    return time < most;
  }

  // Closer around the best time.
  void Refine() {
    if (best_.slot.empty() || Few()) return;
    const Cost time = best_.most;
    for (const Cost part : {step_ / 3, step_ * 2 / 3}) {
      const Cost change = time / 1024 * part;
      Try(time - change);
      if (time + change <= options_.most) Try(time + change);
    }
  }

  bool Few() const { return options_.tries < kFewTries || allowance_.spent(); }

  void Try(Cost most) {
    for (const SlotFill fill : {SlotFill::kOpenFirst, SlotFill::kBestFit}) {
      if (allowance_.stop_requested()) return;
      if (fill == SlotFill::kBestFit && Few() && !best_.slot.empty()) return;
      if (!filler_.Fill(most, fill)) continue;
      allowance_.Spend(kTicksAnItem * filler_.placed().size() + kTicksAGroup * filler_.groups());
      Filled filled = {.most = most};
      for (const auto& [item, group] : filler_.placed()) filled.work += all_.work(item);
      filled.rank_time = fixed_ + all_.RankTime(all_.problem().pool, filler_.slowest());
      if (!best_.slot.empty() && !Better(filled, best_)) continue;
      filled.slot = filler_.Take();
      best_ = std::move(filled);
    }
  }

  static bool Better(const Filled& a, const Filled& b) {
    const absl::uint128 a_wastes = absl::uint128(a.rank_time) * b.work;
    const absl::uint128 b_wastes = absl::uint128(b.rank_time) * a.work;
    return a_wastes < b_wastes || (a_wastes == b_wastes && a.work > b.work);
  }

  const ContextItems& all_;
  const TurnOptions& options_;
  const Allowance& allowance_;
  IndexSet left_;
  SlotFiller filler_;
  const uint64_t fixed_;
  uint64_t step_ = 1;
  Cost last_ = 0;
  uint64_t number_ = 0;  // of slots that are filled
  Filled best_;
};

}  // namespace

std::vector<FilledSlot> FillInTurn(const ContextItems& all, std::span<const uint32_t> items,
                                   const TurnOptions& options, const Allowance& allowance) {
  return TurnFiller(all, items, options, allowance).Run();
}

}  // namespace batchplan
