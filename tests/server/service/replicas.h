// Server processes that share a Redis; each can be killed and started again.

#ifndef BATCHPLAN_TESTS_SERVER_SERVICE_REPLICAS_H_
#define BATCHPLAN_TESTS_SERVER_SERVICE_REPLICAS_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/server/service/server_process.h"
#include "tests/support/redis_server.h"
#include "tests/support/reserved_port.h"

namespace batchplan {

// A server process on its own port that can be killed and started again there.
class Replica {
 public:
  explicit Replica(std::vector<std::string> flags) : flags_(std::move(flags)) { Start(); }
  ~Replica() { Kill(); }

  void Start() {
    std::vector<std::string> flags = {absl::StrCat("--listen=127.0.0.1:", port()), kNoMetrics,
                                      "--planning_threads=1"};
    flags.insert(flags.end(), flags_.begin(), flags_.end());
    process_ = std::make_unique<ServerProcess>(std::move(flags));
    EXPECT_NE(process_->ReadUntil("event=listening"), "");
    // Somebody must read its log, or the server waits.
    reader_ = std::jthread([process = process_.get()] { process->ReadUntil("no line has this"); });
  }

  void Kill() {
    if (process_ == nullptr) return;
    process_->Signal(SIGKILL);
    process_->Wait();
    reader_.join();
    process_.reset();
  }

  int port() const { return port_.number(); }

  // The number of open descriptors and of threads.
  size_t descriptors() const { return EntriesIn("fd"); }
  size_t threads() const { return EntriesIn("task"); }

  // The memory that it uses.
  uint64_t bytes() const {
    std::ifstream statm(absl::StrCat("/proc/", process_->pid(), "/statm"));
    uint64_t all = 0;
    uint64_t resident = 0;
    statm >> all >> resident;
    return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  }

 private:
  size_t EntriesIn(const std::string& folder) const {
    const std::filesystem::directory_iterator entries(
        absl::StrCat("/proc/", process_->pid(), "/", folder));
    return static_cast<size_t>(std::distance(begin(entries), end(entries)));
  }

  const std::vector<std::string> flags_;
  const testing::ReservedPort port_;
  std::unique_ptr<ServerProcess> process_;
  std::jthread reader_;
};

inline constexpr int kReplicas = 3;

class Replicas {
 public:
  explicit Replicas(const testing::RedisServer& redis, std::vector<std::string> flags = {}) {
    flags.push_back(absl::StrCat("--rendezvous_store=", redis.url()));
    for (int i = 0; i < kReplicas; ++i) replicas_.push_back(std::make_unique<Replica>(flags));
  }

  Replica& operator[](size_t i) { return *replicas_[i]; }

  // All replicas, for a client that uses them in turn.
  std::string target() const {
    return absl::StrCat("ipv4:", absl::StrJoin(replicas_, ",", [](std::string* out, const auto& r) {
                          absl::StrAppend(out, "127.0.0.1:", r->port());
                        }));
  }

 private:
  std::vector<std::unique_ptr<Replica>> replicas_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_TESTS_SERVER_SERVICE_REPLICAS_H_
