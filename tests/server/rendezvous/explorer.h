// Every run of a program that asks for its choices.
//
//   uint64_t runs = ExploreAll([](Choices& choices) {
//     while (...) events[choices.Choose(events.size())]();
//   });
//
// A depth-first search that replays the program from the start with one choice changed. The program
// must do the same whenever it is given the same choices. Where there are too many runs, Choices of
// a random stream are one of them.

#ifndef BATCHPLAN_TESTS_SERVER_RENDEZVOUS_EXPLORER_H_
#define BATCHPLAN_TESTS_SERVER_RENDEZVOUS_EXPLORER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/generators.h"

namespace batchplan::testing {

class Choices {
 public:
  // The first run.
  Choices() = default;
  // A random run.
  explicit Choices(uint64_t seed) : random_(RandomStream(seed)) {}

  // One of 0 .. alternatives - 1; alternatives >= 1.
  size_t Choose(size_t alternatives) {
    if (next_ == taken_.size()) {
      const size_t choice = random_ ? random_->Between(0, alternatives - 1) : 0;
      taken_.push_back({.choice = choice, .alternatives = alternatives});
    }
    return taken_[next_++].choice;
  }

  // Goes on to the next run; false if there is none.
  bool Advance() {
    next_ = 0;
    while (!taken_.empty() && taken_.back().choice + 1 == taken_.back().alternatives) {
      taken_.pop_back();
    }
    if (taken_.empty()) return false;
    ++taken_.back().choice;
    return true;
  }

  // Those of this run, to find it again.
  std::string Describe() const {
    std::string text;
    for (const Taken& taken : taken_) text += std::to_string(taken.choice) + " ";
    return text;
  }

 private:
  struct Taken {
    size_t choice;
    size_t alternatives;
  };
  std::optional<RandomStream> random_;
  std::vector<Taken> taken_;
  size_t next_ = 0;
};

// The number of runs. Ends early once `failed` says so, or after `limit` of them.
inline uint64_t ExploreAll(const std::function<void(Choices&)>& run,
                           const std::function<bool()>& failed, uint64_t limit) {
  Choices choices;
  uint64_t runs = 0;
  do {
    run(choices);
    ++runs;
  } while (runs < limit && !failed() && choices.Advance());
  return runs;
}

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SERVER_RENDEZVOUS_EXPLORER_H_
