// Estimates the time of work from its cost, by past work: of the same job and effort if known, else
// of any job at that effort, else of all.
//
//   WorkRate rate;
//   rate.Observe({.owner = owner, .job = job, .effort = effort}, cost, time);  // of what ended
//   rate.TimeFor(kind, cost)       // what so much work will take one thread, about
//
// A rate is the time of past work over its cost, both with weights that halve every few pieces. The
// last kMaxKinds kinds of work are kept apart. Not thread-safe; a call is logarithmic in their
// number.

#ifndef BATCHPLAN_SERVER_SERVICE_ADMISSION_WORK_RATE_H_
#define BATCHPLAN_SERVER_SERVICE_ADMISSION_WORK_RATE_H_

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <string>

#include "absl/time/time.h"

namespace batchplan {

class WorkRate {
 public:
  static constexpr size_t kMaxKinds = 4096;
  // In pieces of work, of one kind and of all.
  static constexpr double kHalfLife = 8;
  static constexpr double kHalfLifeOfAll = 32;
  // The efforts that a request may name; others count as the first.
  static constexpr size_t kEfforts = 4;

  // Work that is expected to be alike.
  struct Kind {
    std::string owner;
    std::string job;
    // As on the wire.
    uint32_t effort = 0;

    // clang-tidy mistakes the 0 that the compiler compares with for a null pointer.
    auto operator<=>(const Kind&) const = default;  // NOLINT(modernize-use-nullptr)
  };

  // May throw std::bad_alloc.
  void Observe(const Kind& kind, uint64_t cost, absl::Duration time);

  // 0 until some work was seen.
  absl::Duration TimeFor(const Kind& kind, uint64_t cost) const;

  // Whether work of this very kind was seen.
  bool Knows(const Kind& kind) const { return kinds_.contains(kind); }

 private:
  struct Rate {
    double cost = 0;
    absl::Duration time;

    void Observe(uint64_t more_cost, absl::Duration more_time, double half_life);
  };
  struct Entry {
    Rate rate;
    std::list<const Kind*>::iterator use;
  };

  static size_t EffortOf(const Kind& kind) { return kind.effort < kEfforts ? kind.effort : 0; }

  std::map<Kind, Entry> kinds_;
  // Keys of kinds_, the least recently seen first.
  std::list<const Kind*> uses_;
  std::array<Rate, kEfforts> efforts_;
  Rate all_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_ADMISSION_WORK_RATE_H_
