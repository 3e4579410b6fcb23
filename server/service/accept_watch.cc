#include "server/service/accept_watch.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace batchplan {

AcceptWatch::AcceptWatch(const OpenConnections& connections)
    : connections_(connections), listeners_(connections_.CopiesOfListeners()) {}

AcceptWatch::~AcceptWatch() {
  for (const int listener : listeners_) close(listener);
}

int AcceptWatch::Look() {
  if (!AnyWaits()) {
    taken_.clear();
    return looks_ = 0;
  }
  std::set<uint64_t> now = connections_.Taken();
  const bool any_new = !std::includes(taken_.begin(), taken_.end(), now.begin(), now.end());
  if (looks_ == 0 || any_new) {
    taken_ = std::move(now);
    return looks_ = 1;
  }
  return ++looks_;
}

bool AcceptWatch::AnyWaits() const {
  std::vector<pollfd> polled;
  polled.reserve(listeners_.size());
  for (const int listener : listeners_) {
    polled.push_back({.fd = listener, .events = POLLIN, .revents = 0});
  }
  return poll(polled.data(), polled.size(), 0) > 0 &&
         std::any_of(polled.begin(), polled.end(),
                     [](const pollfd& listener) { return (listener.revents & POLLIN) != 0; });
}

}  // namespace batchplan
