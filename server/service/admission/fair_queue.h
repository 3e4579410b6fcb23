// Whose call is next, and whose must go: a queue that is fair between owners and then between the
// jobs of each, apart from threads.
//
//   FairQueue queue;
//   queue.Push({.owner = "token:1f", .job = "grpo-7b", .id = 1, .cost = 4096, .time = estimate},
//   now);
//   ... on a thread that is free ...
//   if (std::optional<uint64_t> id = queue.Pop(free_threads)) {
//     ... work ...;
//     queue.Done(*id, measured, now);
//   }
//
// An owner is who calls, by what a caller can't choose; a job is a name that an owner chooses.
// Turns are taken by hierarchical start-time fair queueing (P. Goyal, X. Guo, H. Vin: A
// Hierarchical CPU Scheduler for Multimedia Operating Systems, OSDI 1996): the owner that has used
// the least time of threads is next, of its jobs the one that has used the least, of that job's
// calls the oldest. A call is charged its estimated time when it is taken, and what it has really
// taken when it is done. Who was away has saved nothing up: it begins where those are that are
// being served. So among owners (and among jobs of one owner) that always have calls waiting, none
// gets more time than another by more than the longest call of each, whatever it sends; and what
// one does not use the others get. A call that was taken is not interrupted.
//
// Jobs that their owner has not named before share one place, the newcomers', with its turns and
// its bounds, until a call of theirs is done: a new name for every call gains nothing. What owners
// and jobs have used is remembered for kRemembered after their last call, of kMaxIdleJobs jobs at
// most.
//
// The last free thread goes to nobody who has one, whether or not anybody else waits for it:
// neither to a job, nor to a newcomer where two newcomers of the owner have one, nor to an owner
// while another one is remembered. So whoever comes while long calls go on finds a thread, unless
// each of these is somebody else's.
//
// Who must go when there is no room, MakeRoom decides by longest queue drop (B. Suter et al.:
// Design Considerations for Supporting TCP with Per-flow Queueing, INFOCOM 1998): the newest calls
// of the owner that holds most, if that is still more than the newcomer's owner would hold, and
// else those of the job that holds most of the newcomer's owner, by the same rule. Two of them
// can't push each other out in turn. An owner always keeps one call, and so does a job beside
// others of its owner, so that large calls have their turn too.
//
// Push, Remove and Done take the look-up of owner and job; the first Done of a job up to the number
// of calls here; Pop, MakeRoom and TimeAhead up to the number of jobs that have calls waiting. Not
// thread-safe.

#ifndef BATCHPLAN_SERVER_SERVICE_ADMISSION_FAIR_QUEUE_H_
#define BATCHPLAN_SERVER_SERVICE_ADMISSION_FAIR_QUEUE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/time/time.h"
#include "server/base/clock.h"

namespace batchplan {

class FairQueue {
 public:
  static constexpr absl::Duration kRemembered = absl::Minutes(10);
  static constexpr size_t kMaxIdleJobs = 4096;

  struct Call {
    std::string owner;
    std::string job;
    // That no other call here has. Of two that have the same claim the lower one is older.
    uint64_t id = 0;
    // What counts against Bounds::cost, at least 1.
    uint64_t cost = 1;
    // What it will take a thread, about.
    absl::Duration time;
  };

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

  // May throw std::bad_alloc, which leaves everything as it was.
  void Push(const Call& call, Instant now);

  // Takes the call whose turn it is for one of so many free threads; none if none waits that may
  // have it.
  std::optional<uint64_t> Pop(size_t free_threads);

  // Ends a call that was taken, after so much time of a thread.
  void Done(uint64_t id, absl::Duration time, Instant now);

  // Takes a waiting call out, wherever it stands; false if no such call waits.
  bool Remove(uint64_t id);

  // What must be removed for a call of `job` that costs `cost`. Changes nothing.
  Room MakeRoom(const std::string& owner, const std::string& job, uint64_t cost,
                const Bounds& bounds) const;

  // Calls that take about so much time are taken before a call of `job` that is pushed now, or
  // more: what the job has waiting, and of everybody else what has its turn until then.
  absl::Duration TimeAhead(const std::string& owner, const std::string& job) const;

  // Whether a call of `job` may have the last free thread.
  bool MayHaveLast(const std::string& owner, const std::string& job) const;

  // Calls that wait; their time; and the cost of all calls, waiting or taken.
  size_t waiting() const { return waiting_; }
  absl::Duration waiting_time() const { return waiting_time_; }
  uint64_t cost() const { return cost_; }
  // No call, waiting or taken.
  bool empty() const { return calls_.empty(); }

 private:
  // What an owner and a job have in common.
  struct Account {
    // Calls that wait and their time; calls that are taken; the cost of both.
    size_t waiting = 0;
    absl::Duration waiting_time;
    size_t taken = 0;
    uint64_t cost = 0;
    // Of threads. Only differences mean something, between the accounts of one level.
    absl::Duration used;

    size_t calls() const { return waiting + taken; }
  };
  struct Owner;
  struct Job : Account {
    Owner* owner = nullptr;
    // Its key in Owner::jobs; null for newcomers.
    const std::string* name = nullptr;
    // Ids: of calls that wait, oldest first, and of those that are taken.
    std::list<uint64_t> queue;
    std::list<uint64_t> taken_calls;
    // One node: among its owner's jobs that have calls waiting; in idle_, as long as it has no
    // calls and is not the newcomers'; or here.
    std::list<Job*> node;
    std::list<Job*>::iterator place;
    bool idle = false;
    Instant idle_since;
  };
  struct Owner : Account {
    const std::string* name = nullptr;
    std::map<std::string, Job> jobs;
    Job newcomers;
    // Those that have calls waiting.
    std::list<Job*> waiting_jobs;
    // One node: in waiting_owners_ as long as it has calls waiting, or here.
    std::list<Owner*> node;
    std::list<Owner*>::iterator place;
    // What the job had used that was served last.
    absl::Duration reached;
  };
  struct Place {
    Call call;
    Job* job = nullptr;
    // In the job's queue, or among the calls that are taken.
    std::list<uint64_t>::iterator at;
    bool waits = true;
  };

  // Whether one whose account has used so much goes before another: who has used less does, and of
  // those that have used the same, whose call is older.
  static bool IsBefore(absl::Duration used, const Place& place, absl::Duration other_used,
                       const Place& other) {
    return used != other_used ? used < other_used : place.call.id < other.call.id;
  }
  // Null if there is none.
  const Owner* FindOwner(const std::string& owner) const;
  static const Job* FindJob(const Owner& owner, const std::string& job);
  bool MayHaveLast(const Owner& owner) const;
  // `name` is that of the call, which matters among newcomers.
  bool MayHaveLast(const Job& job, const std::string& name) const;
  // The owner's call whose turn it is of those that may have one of so many free threads; null if
  // none may.
  Place* Next(Owner& owner, size_t free_threads);
  // Of one job.
  Place* NextOf(Job& job, size_t free_threads);
  static std::array<Account*, 2> AccountsOf(Job& job) { return {job.owner, &job}; }
  // Takes the call out of those that wait.
  void Unqueue(Place& place);
  // Gives a job that has used so much a place of its own, with the calls that it has among the
  // newcomers.
  void Learn(Owner& owner, const std::string& name, absl::Duration used, Instant now);
  void BeginIdle(Job& job, Instant now);
  // Forgets whom it may.
  void ForgetIdle(Instant now);
  void ForgetIfGone(Owner& owner);

  std::map<std::string, Owner> owners_;
  std::list<Owner*> waiting_owners_;
  std::unordered_map<uint64_t, Place> calls_;
  // Whose last call is longest ago comes first.
  std::list<Job*> idle_;
  // What the owner had used that was served last.
  absl::Duration reached_;
  size_t waiting_ = 0;
  absl::Duration waiting_time_;
  uint64_t cost_ = 0;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_ADMISSION_FAIR_QUEUE_H_
