// How much work a plan is worth, how much of it may still be spent, and whether anybody waits for
// it.
//
//   const Allowance allowance(AllowanceOf(effort), stop);       // of a request
//   {
//     const Allowance::Part part(allowance, /*of=*/3);           // a third of what is left
//     SearchSteps steps(allowance, 100'000, /*ticks_each=*/20);  // of one search
//     while (steps.left > 0) { --steps.left; ... }
//   }
//
// Searches have budgets of their own; an allowance is what bounds all of them together, however
// many mini-batches, passes and ranks a request has. It is counted in ticks of about a nanosecond
// of processor time, never measured, and drawn from in a fixed order, so that the same request
// gives the same plan on every machine.

#ifndef BATCHPLAN_SERVER_PLANNER_REQUEST_ALLOWANCE_H_
#define BATCHPLAN_SERVER_PLANNER_REQUEST_ALLOWANCE_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <stop_token>
#include <utility>

#include "server/planner/request/options.h"

namespace batchplan {

// What the searches of a request may spend. The greedy work that every plan needs comes on top; it
// grows with the sequences alone.
constexpr uint64_t AllowanceOf(Effort effort) {
  return effort == Effort::kThorough ? 6'000'000'000 : 800'000'000;
}

// The reserve: what a request may still spend on work that improves every plan (Affords), once its
// searches have spent the allowance.
inline constexpr uint64_t kReserve = 400'000'000;

// Copies draw from the same ticks. For one thread, but for the request to stop.
class Allowance {
  struct Account {
    uint64_t left = 0;
    uint64_t reserve = 0;
    uint64_t used = 0;
    uint64_t wanted = 0;
  };

 public:
  // No limit, until `stop` is requested.
  Allowance(std::stop_token stop = {}) : stop_(std::move(stop)) {}  // NOLINT: tokens stand for it.
  Allowance(uint64_t ticks, std::stop_token stop, uint64_t reserve = 0)
      : stop_(std::move(stop)),
        account_(std::make_shared<Account>(Account{.left = ticks, .reserve = reserve})) {}

  bool stop_requested() const { return stop_.stop_requested(); }
  const std::stop_token& stop() const { return stop_; }

  uint64_t left() const { return account_ ? account_->left : kNoLimit; }
  // Whether nothing is left: only work that every plan needs is worth its time then.
  bool spent() const { return left() == 0; }
  // Records work of this many ticks. If fewer are left, the reserve pays the rest, as far as it
  // goes.
  void Spend(uint64_t ticks) const {
    if (!account_) return;
    account_->used += ticks;
    account_->wanted = std::max(account_->wanted, account_->used);
    const uint64_t of_left = std::min(account_->left, ticks);
    account_->left -= of_left;
    account_->reserve -= std::min(account_->reserve, ticks - of_left);
  }
  // Records greedy work of this many ticks, which comes on top: only used() counts it.
  void SpendOnTop(uint64_t ticks) const {
    if (account_) account_->used += ticks;
  }
  // Whether the rest and the reserve pay for this many ticks. For work that improves every plan and
  // that no search does, such as ordering the micro-batches of a pipeline.
  bool Affords(uint64_t ticks) const {
    if (account_) account_->wanted = std::max(account_->wanted, account_->used + ticks);
    return !account_ || ticks <= account_->left || ticks - account_->left <= account_->reserve;
  }
  // All ticks spent, including those on top and beyond the limit; 0 without a limit.
  uint64_t used() const { return account_ ? account_->used : 0; }
  // The most that used() has been, or would have been if all work had been afforded.
  uint64_t wanted() const { return account_ ? std::max(account_->wanted, account_->used) : 0; }

  // While a Part lives, only `parts` of `of` equal parts of the rest can be spent. What remains
  // unspent is for later work. Parts end in the reverse order of their beginning.
  class Part {
   public:
    Part(const Allowance& allowance, uint64_t of, uint64_t parts = 1)
        : account_(allowance.account_) {
      if (!account_ || of <= parts) return;
      held_back_ = account_->left - account_->left / of * parts;
      account_->left -= held_back_;
    }
    ~Part() {
      if (account_) account_->left += held_back_;
    }
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;

   private:
    const std::shared_ptr<Account> account_;
    uint64_t held_back_ = 0;
  };

 private:
  static constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

  std::stop_token stop_;
  std::shared_ptr<Account> account_;  // none: without limit
};

// The effort, or kFast once the allowance is spent.
inline Effort Affordable(Effort effort, const Allowance& allowance) {
  return allowance.spent() ? Effort::kFast : effort;
}

// The steps of one search, limited by the allowance; spent when the search is over.
class SearchSteps {
 public:
  // `most` steps of `ticks_each` ticks, or as many as the allowance has, but at least `least`.
  SearchSteps(const Allowance& allowance, uint64_t most, uint64_t ticks_each, uint64_t least = 0)
      : left(std::min(most, std::max(least, allowance.left() / ticks_each))),
        allowance_(allowance),
        ticks_each_(ticks_each),
        given_(left) {}
  ~SearchSteps() { allowance_.Spend((given_ - left) * ticks_each_); }
  SearchSteps(const SearchSteps&) = delete;
  SearchSteps& operator=(const SearchSteps&) = delete;

  uint64_t left;

 private:
  const Allowance& allowance_;
  const uint64_t ticks_each_;
  const uint64_t given_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_REQUEST_ALLOWANCE_H_
