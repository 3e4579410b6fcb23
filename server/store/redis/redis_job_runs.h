// The order in which the runs of jobs were first seen, in a Redis that may forget it.
//
//   static const RedisScript script(WithSeeRuns("local current, told = see_runs(KEYS[1], 1) ..."));
//   std::vector<std::string> arguments = runs.Arguments(key);     // ARGV, from 1 on
//   ... run the script ...
//   runs.Learn(key.job_id, reply);                                // what it told
//
// Redis has a sorted set for each job: its runs, by the microsecond of Redis' clock at which they
// were first seen. Every replica remembers what it heard of that, for as long and for as many jobs
// as JobRuns does, and says it in each call. So what Redis has forgotten by a restart or a
// fail-over is there again with the first call of a replica that knows it, and where two say
// different times of a run the earlier one stands: a run that was superseded never supersedes.
//
// A change is announced on the channel, and each replica answers an announcement with what it
// knows; it also says all that it knows when it hears the channel again. So all replicas know the
// order, and one of them is enough to restore it, whoever is called.
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
  // Announces on `channel`. `lifetime`: how long a job's runs are remembered after the last call.
  RedisJobRuns(std::shared_ptr<RedisClient> client, std::string channel, absl::Duration lifetime,
               Clock clock);

  // A script that begins with a function see_runs(key, from). It merges what the caller knows,
  // which stands in ARGV from `from` to the end, into the set `key`, and returns the job's current
  // run or false, whether the caller's own run is known, a function that adds it as the current
  // one, and what the caller is to learn or false.
  static std::string WithSeeRuns(std::string_view script);

  // What see_runs reads, for a call of this run.
  std::vector<std::string> Arguments(const std::string& job, const std::string& run);
  // What it told; nothing if that is no list.
  void Learn(const std::string& job, const redisReply& told);

  static std::string RedisKeyOf(const std::string& job) { return "batchplan:v1:run_order:" + job; }

  // The job of which `message` announces a change; nothing if it announces none.
  static std::optional<std::string> AnnouncedJob(std::string_view message);
  // Tells Redis what is known of the job, and learns what Redis knows.
  absl::Status Share(const std::string& job);
  // The same for all jobs of which an order is known; ends with the first error.
  absl::Status ShareAll();
  // The job lives: somebody has heard of it.
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
