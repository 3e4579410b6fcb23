// The order in which the runs of a job were first seen, kept in a Redis that may forget it.
//
//   static const RedisScript script(WithSeeRuns("local current, told = see_runs(KEYS[1], 1) ..."));
//   std::vector<std::string> arguments = runs.Arguments(key);     // ARGV, from 1 on
//   ... run the script ...
//   runs.Learn(key.job_id, reply);                                // what it told
//
// Redis has a sorted set for each job: its runs, with the microsecond of Redis' clock at which each
// was first seen. Every replica remembers what it heard, within the limits of JobRuns, and repeats
// it in each call. So what Redis forgot in a restart or a fail-over returns with the first call of
// a replica that knows it. If replicas know different times of a run, the earlier one holds, so
// that a superseded run never becomes the current one again.
//
// Changes are announced on the channel. A replica answers an announcement with what it knows, and
// tells all that it knows when it hears the channel again. So all replicas know the order, and any
// one of them can restore it, whichever is called.
//
// Thread-safe. Share and ShareAll block as a call of the client does.

#ifndef BATCHPLAN_SERVER_STORE_REDIS_REDIS_JOB_RUNS_H_
#define BATCHPLAN_SERVER_STORE_REDIS_REDIS_JOB_RUNS_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/base/clock.h"
#include "server/base/mutex.h"
#include "server/store/job_runs.h"
#include "server/store/redis/redis_client.h"

namespace batchplan {

class RedisJobRuns {
 public:
  // Announces changes on `channel`. A job's runs are remembered for `lifetime` after the last call.
  RedisJobRuns(std::shared_ptr<RedisClient> client, std::string channel, absl::Duration lifetime,
               Clock clock);

  // `script` behind the definition of a function see_runs(key, from). It merges what the caller
  // knows, in ARGV from `from` to the end, into the set `key`. It returns: the job's current run or
  // false; whether the caller's run is known; a function that adds the caller's run as the current
  // one; what the caller should learn, or false.
  static std::string WithSeeRuns(std::string_view script);

  // The arguments that see_runs reads, for a call of `run`.
  std::vector<std::string> Arguments(const std::string& job, const std::string& run);
  // Learns what see_runs told; nothing if `told` is no list.
  void Learn(const std::string& job, const redisReply& told);

  static std::string RedisKeyOf(const std::string& job) { return "batchplan:v1:run_order:" + job; }

  // The job whose change `message` announces; nothing if it announces none.
  static std::optional<std::string> AnnouncedJob(std::string_view message);
  // Tells Redis what is known of the job, and learns what Redis knows.
  absl::Status Share(const std::string& job);
  // Share for all jobs with a known order; stops at the first error.
  absl::Status ShareAll();
  // Notes that the job is still in use.
  void Use(const std::string& job);

 private:
  const std::shared_ptr<RedisClient> client_;
  const std::string channel_;
  const std::string lifetime_;
  const Clock clock_;

  Mutex mutex_;
  JobRuns runs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_STORE_REDIS_REDIS_JOB_RUNS_H_
