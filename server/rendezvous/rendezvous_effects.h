// What the files of Rendezvous have in common, and nobody else.

#ifndef BATCHPLAN_SERVER_RENDEZVOUS_RENDEZVOUS_EFFECTS_H_
#define BATCHPLAN_SERVER_RENDEZVOUS_RENDEZVOUS_EFFECTS_H_

#include <functional>
#include <new>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include "server/rendezvous/rendezvous.h"

namespace batchplan {

// What `work` returns; nothing if memory ran out. What is large in a step is its parts, and they
// are let go of when its joins are told so.
template <typename Work>
auto UnlessOutOfMemory(const Work& work) -> std::optional<decltype(work())> {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return std::nullopt;
  }
}

// What is decided under the lock and done without it. Declared before the lock, so that it is done
// when the lock has been released.
class Rendezvous::Effects {
 public:
  explicit Effects(const Rendezvous* rendezvous) : executor_(rendezvous->hooks_.executor) {}
  ~Effects() {
    for (std::stop_source& stop : stops_) stop.request_stop();
    for (auto& task : tasks_) executor_(std::move(task));
    for (auto& [done, answer] : replies_) done(std::move(answer));
  }

  Effects(const Effects&) = delete;
  Effects& operator=(const Effects&) = delete;

  void Execute(std::function<void()> task) { tasks_.push_back(std::move(task)); }
  void Reply(Done done, Answer answer) {
    replies_.emplace_back(std::move(done), std::move(answer));
  }
  void Stop(const std::stop_source& stop) { stops_.push_back(stop); }

 private:
  const std::function<void(std::function<void()>)>& executor_;
  std::vector<std::stop_source> stops_;
  std::vector<std::function<void()>> tasks_;
  std::vector<std::pair<Done, Answer>> replies_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_RENDEZVOUS_RENDEZVOUS_EFFECTS_H_
