// Decides whose call is next and whose is dropped: a queue that is fair between owners, and then
// between the jobs of each. Has no threads.
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
// An owner is identified by what a caller can't choose; a job is a name that an owner chooses.
// Turns are taken by hierarchical start-time fair queueing (P. Goyal, X. Guo, H. Vin: A
// Hierarchical CPU Scheduler for Multimedia Operating Systems, OSDI 1996): the owner that has used
// the least thread time is next, of its jobs the one that has used the least, of that job's calls
// the oldest. A call is charged its estimated time when it is popped, and its real time when it is
// done. Absence saves nothing up: an owner that returns begins at the time of those being served.
// What one has used beyond an equal share of those with calls is set off against the share that it
// gets from then on, also while it is away: it waits until its share has caught up, and not until
// all others, who may be many and come in turn, have used as much.
// So among owners (and among jobs of one owner) that always have calls waiting, none gets more time
// than another by more than the longest call of each, whatever it sends; and time that one does not
// use goes to the others. A popped call is not interrupted.
//
// Jobs that their owner has not named before share one place, the newcomers', with its turns and
// bounds, until a call of theirs is done: a new name for every call gains nothing. The time that
// owners and jobs have used is remembered for kRemembered after their last call, for at most
// kMaxIdleJobs jobs.
//
// The last free thread goes to nobody who has one, even if nobody else waits: not to a job that has
// one, not to a newcomer if two newcomers of the owner have one, and not to an owner that has one
// while another owner is remembered. So whoever comes while long calls run finds a thread, unless
// each of these is somebody else's. A job with a call of its own that is done may have it for a
// call of kShort: who comes then waits no longer than that.
//
// If there is no room, MakeRoom decides which calls are dropped, by longest queue drop (B. Suter et
// al.: Design Considerations for Supporting TCP with Per-flow Queueing, INFOCOM 1998): the newest
// calls of the owner that holds most, if without them it still holds more than the newcomer's owner
// would; else, by the same rule, of the job that holds most among the jobs of the newcomer's owner.
// So two can't push each other out in turn. An owner always keeps one call, and so does a job
// beside others of its owner, so that large calls get their turn too.
//
// Push, Remove and Done cost a look-up of owner and job; the first Done of a job is linear in the
// number of calls; Pop, MakeRoom and TimeAhead are linear in the number of jobs with waiting calls.
// Not thread-safe.

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
  // The estimated thread time of a call that anybody may wait for.
  static constexpr absl::Duration kShort = absl::Milliseconds(20);

  struct Call {
    std::string owner;
    std::string job;
    // Unique. Of two calls with equal claims the lower id is older.
    uint64_t id = 0;
    // What counts against Bounds::cost, at least 1.
    uint64_t cost = 1;
    // Its estimated thread time.
    absl::Duration time;
  };

  struct Bounds {
    // Calls that wait.
    size_t waiting = std::numeric_limits<size_t>::max();
    // Cost of all calls, waiting or popped. A call that finds no other is admitted at any cost: it
    // could never be served otherwise.
    uint64_t cost = std::numeric_limits<uint64_t>::max();
  };

  // The room for a new call.
  struct Room {
    // Whether the call may be pushed after those in `pushed_out` have been removed.
    bool admitted = false;
    // Calls that wait, the newest of each job first.
    std::vector<uint64_t> pushed_out;
  };

  // May throw std::bad_alloc, which leaves everything as it was.
  void Push(const Call& call, Instant now);

  // Pops the call whose turn it is for one of `free_threads` free threads; none if no waiting call
  // may have it.
  std::optional<uint64_t> Pop(size_t free_threads);

  // Ends a popped call, which used `time` of a thread.
  void Done(uint64_t id, absl::Duration time, Instant now);

  // Removes a waiting call; false if no such call waits.
  bool Remove(uint64_t id);

  // What must be removed to admit a call of `job` that costs `cost`. Changes nothing.
  Room MakeRoom(const std::string& owner, const std::string& job, uint64_t cost,
                const Bounds& bounds) const;

  // About the time of calls that run before a call of `job` that is pushed now, at least: those
  // that wait in the job, and those of others whose turn comes before.
  absl::Duration TimeAhead(const std::string& owner, const std::string& job) const;

  // Whether a call of `job` with this estimated thread time may have the last free thread.
  bool MayHaveLast(const std::string& owner, const std::string& job, absl::Duration time) const;

  // Waiting calls; their time; and the cost of all calls, waiting or popped.
  size_t waiting() const { return waiting_; }
  absl::Duration waiting_time() const { return waiting_time_; }
  uint64_t cost() const { return cost_; }
  // Whether there is no call, waiting or popped.
  bool empty() const { return calls_.empty(); }

 private:
  // The figures of an owner or a job.
  struct Account {
    // Waiting calls and their time; popped calls; the cost of both.
    size_t waiting = 0;
    absl::Duration waiting_time;
    size_t taken = 0;
    uint64_t cost = 0;
    // Thread time. Only differences between accounts of one level mean something.
    absl::Duration used;
    // Level::share when its last call ended.
    absl::Duration left_at;

    size_t calls() const { return waiting + taken; }
  };
  // All owners, or the jobs of one.
  struct Level {
    // The used time of the one that was served last.
    absl::Duration reached;
    // How many have calls, and the used time of one that has had calls and its equal share all
    // along.
    size_t busy = 0;
    absl::Duration share;
  };
  struct Owner;
  struct Job : Account {
    Owner* owner = nullptr;
    // Its key in Owner::jobs; null for newcomers.
    const std::string* name = nullptr;
    // Ids of waiting calls, oldest first, and of popped calls.
    std::list<uint64_t> queue;
    std::list<uint64_t> taken_calls;
    // One node: in its owner's waiting_jobs while it has waiting calls; in idle_ while it has no
    // calls, unless it is the newcomers'; or here.
    std::list<Job*> node;
    std::list<Job*>::iterator place;
    bool idle = false;
    Instant idle_since;
  };
  struct Owner : Account {
    const std::string* name = nullptr;
    std::map<std::string, Job> jobs;
    Job newcomers;
    // Jobs with waiting calls.
    std::list<Job*> waiting_jobs;
    // One node: in waiting_owners_ while it has waiting calls, or here.
    std::list<Owner*> node;
    std::list<Owner*>::iterator place;
    Level level;
  };
  struct Place {
    Call call;
    Job* job = nullptr;
    // In the job's queue or among its popped calls.
    std::list<uint64_t>::iterator at;
    bool waits = true;
  };

  // Whether a call of an account with `used` time goes before another: the one with less time does,
  // of equal ones the older call.
  static bool IsBefore(absl::Duration used, const Place& place, absl::Duration other_used,
                       const Place& other) {
    return used != other_used ? used < other_used : place.call.id < other.call.id;
  }
  // Null if there is none.
  const Owner* FindOwner(const std::string& owner) const;
  static const Job* FindJob(const Owner& owner, const std::string& job);
  // `name` is the call's job, which matters among newcomers.
  bool MayHaveLast(const Job& job, const std::string& name, absl::Duration time) const;
  // The next of the owner's calls that may have one of the free threads; null if none may.
  Place* Next(Owner& owner, size_t free_threads);
  // Next() within one job.
  Place* NextOf(Job& job, size_t free_threads);
  static std::array<Account*, 2> AccountsOf(Job& job) { return {job.owner, &job}; }
  // Before an account gets a call, after it lost one, and for a call that used `time`.
  static void Arrive(Account& account, Level& level);
  static void Leave(Account& account, Level& level);
  static void Share(absl::Duration time, Level& level);
  // Removes the call from the waiting ones.
  void Unqueue(Place& place);
  // Gives a job with `used` time a place of its own, and its calls from among the newcomers.
  void Learn(Owner& owner, const std::string& name, absl::Duration used, Instant now);
  void BeginIdle(Job& job, Instant now);
  // Forgets jobs that have been idle for kRemembered, or are too many.
  void ForgetIdle(Instant now);
  void ForgetIfGone(Owner& owner);

  std::map<std::string, Owner> owners_;
  std::list<Owner*> waiting_owners_;
  std::unordered_map<uint64_t, Place> calls_;
  // The job whose last call is longest ago comes first.
  std::list<Job*> idle_;
  Level level_;
  size_t waiting_ = 0;
  absl::Duration waiting_time_;
  uint64_t cost_ = 0;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_ADMISSION_FAIR_QUEUE_H_
