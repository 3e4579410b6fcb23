// Whose call is next, and whose must go: a queue that is fair between jobs, apart from threads.
//
//   FairQueue queue;
//   queue.Push("grpo-7b", /*id=*/1, /*cost=*/4096);
//   ... on a thread that is free ...
//   if (std::optional<uint64_t> id = queue.Pop()) { ... work ...; queue.Done(*id); }
//
// Jobs take turns by deficit round robin (M. Shreedhar, G. Varghese: Efficient Fair Queuing using
// Deficit Round Robin, SIGCOMM 1995): at its turn a job is granted kQuantum of cost, takes its
// oldest calls as long as they cost no more than it has been granted and not used, and keeps the
// rest for its next turn, until it has no calls. So among jobs that always have calls waiting, none
// gets more of the threads than another by more than a quantum and the largest call of each,
// whatever number and sizes of calls it sends; and what one job does not use the others get. The
// cost of a call need not be exact. A call that was taken is not interrupted.
//
// Who must go when there is no room, MakeRoom decides by longest queue drop (B. Suter et al.:
// Design Considerations for Supporting TCP with Per-flow Queueing, INFOCOM 1998): the newest calls
// of the job that holds most, if that is still more than the newcomer's job would hold. Two such
// jobs can't push each other out in turn. A job always keeps one call, so that large calls have
// their turn too.
//
// Push, Remove and Done take constant time but for the look-up of the job; Pop and MakeRoom up to
// the number of jobs that have calls here. Not thread-safe.

#ifndef BATCHPLAN_SERVER_SERVICE_FAIR_QUEUE_H_
#define BATCHPLAN_SERVER_SERVICE_FAIR_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace batchplan {

class FairQueue {
 public:
  static constexpr uint64_t kQuantum = 1024;

  struct Bounds {
    // Calls that wait.
    size_t waiting = std::numeric_limits<size_t>::max();
    // Cost of all calls, waiting or taken. A call that finds nobody here is let in at any cost: it
    // could never be served otherwise.
    uint64_t cost = std::numeric_limits<uint64_t>::max();
  };

  // What a newcomer finds.
  struct Room {
    // Whether the newcomer may be pushed, once those in `pushed_out` have been removed.
    bool admitted = false;
    // Calls that wait, the newest of each job first.
    std::vector<uint64_t> pushed_out;
  };

  // Adds a call with an id that no other one here has. cost >= 1.
  void Push(const std::string& job, uint64_t id, uint64_t cost);

  // Takes the call whose turn it is; none if none waits.
  std::optional<uint64_t> Pop();

  // Ends a call that was taken.
  void Done(uint64_t id);

  // Takes a waiting call out, wherever it stands; false if no such call waits.
  bool Remove(uint64_t id);

  // What must be removed for a call of `job` that costs `cost`. Changes nothing.
  Room MakeRoom(const std::string& job, uint64_t cost, const Bounds& bounds) const;

  // About so much is taken before a call of `job` that is pushed now, or more: what the job has
  // waiting, and of every other job what has its turn until then.
  uint64_t CostAhead(const std::string& job) const;

  // Calls that wait; their cost; and the cost of all calls, waiting or taken.
  size_t waiting() const { return waiting_; }
  uint64_t waiting_cost() const { return waiting_cost_; }
  uint64_t cost() const { return cost_; }
  // No call, waiting or taken.
  bool empty() const { return calls_.empty(); }

 private:
  struct Job;
  struct Call {
    uint64_t id = 0;
    uint64_t cost = 0;
    Job* job = nullptr;
  };
  struct Job {
    // Its key in jobs_.
    const std::string* name = nullptr;
    // Oldest first.
    std::list<Call> waiting;
    uint64_t waiting_cost = 0;
    // Calls and cost, waiting or taken.
    size_t calls = 0;
    uint64_t cost = 0;
    // Granted and not used.
    uint64_t deficit = 0;
    // Among turns_, while it has calls waiting.
    std::list<Job*>::iterator turn;
  };
  struct Place {
    Call call;
    // In the job's list, while it waits.
    std::optional<std::list<Call>::iterator> waiting;
  };

  const Job* Find(const std::string& job) const;
  // Takes the call out of those that wait.
  void Unqueue(Place& place);
  // Forgets the call, and its job after its last one.
  void Forget(uint64_t id, const Call& call);
  // Passes over the rounds of turns in which nobody would be served.
  void SkipRounds();

  std::map<std::string, Job> jobs_;
  std::unordered_map<uint64_t, Place> calls_;
  // Jobs with calls waiting; it is the first one's turn.
  std::list<Job*> turns_;
  // Whether the first one has been granted its quantum for this turn.
  bool granted_ = false;
  size_t waiting_ = 0;
  uint64_t waiting_cost_ = 0;
  uint64_t cost_ = 0;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_FAIR_QUEUE_H_
