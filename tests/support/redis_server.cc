#include "tests/support/redis_server.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <hiredis/hiredis.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <system_error>
#include <thread>

namespace batchplan::testing {
namespace {

std::string Print(const redisReply& reply) {
  switch (reply.type) {
    case REDIS_REPLY_ERROR:
      return "(error) " + std::string(reply.str, reply.len);
    case REDIS_REPLY_INTEGER:
      return std::to_string(reply.integer);
    case REDIS_REPLY_NIL:
      return "(nil)";
    case REDIS_REPLY_ARRAY: {
      std::string lines;
      for (size_t i = 0; i < reply.elements; ++i) lines += Print(*reply.element[i]) + "\n";
      return lines;
    }
    default:
      return {reply.str, reply.len};
  }
}

}  // namespace

RedisServer::RedisServer(std::vector<std::string> arguments) : arguments_(std::move(arguments)) {
  std::string folder = (std::filesystem::temp_directory_path() / "redis-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) {
    ADD_FAILURE() << "no temporary folder " << folder;
    return;
  }
  folder_ = folder;
  if (Spawn()) return;
  ADD_FAILURE() << "redis-server can't be started; deploy/install_packages.sh test installs it";
}

RedisServer::~RedisServer() {
  Kill();
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

void RedisServer::Start() {
  if (!Spawn()) ADD_FAILURE() << "redis-server can't be started again on port " << port();
}

void RedisServer::Kill() {
  if (pid_ == 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = 0;
}

void RedisServer::Freeze() {
  kill(pid_, SIGSTOP);
  waitpid(pid_, nullptr, WUNTRACED);
}

void RedisServer::Thaw() { kill(pid_, SIGCONT); }

std::string RedisServer::url() const {
  return (over_tls() ? "rediss://127.0.0.1:" : "redis://127.0.0.1:") + std::to_string(port());
}

std::string RedisServer::socket_url() const { return "redis+unix://" + folder_ + "/socket"; }

std::string RedisServer::Command(const std::vector<std::string>& words) const {
  const std::unique_ptr<redisContext, decltype(&redisFree)> context(
      redisConnectUnix((folder_ + "/socket").c_str()), redisFree);
  if (context == nullptr || context->err != 0) return "(error) no connection";
  std::vector<const char*> arguments;
  std::vector<size_t> sizes;
  for (const std::string& word : words) {
    arguments.push_back(word.data());
    sizes.push_back(word.size());
  }
  const std::unique_ptr<redisReply, decltype(&freeReplyObject)> reply(
      static_cast<redisReply*>(redisCommandArgv(context.get(), static_cast<int>(words.size()),
                                                arguments.data(), sizes.data())),
      freeReplyObject);
  return reply == nullptr ? "(error) connection lost" : Print(*reply);
}

bool RedisServer::over_tls() const {
  return std::find(arguments_.begin(), arguments_.end(), "--tls-cert-file") != arguments_.end();
}

bool RedisServer::Spawn() {
  const std::string port = std::to_string(port_.number());
  const std::string socket = folder_ + "/socket";
  std::vector<std::string> words = {"--bind",       "127.0.0.1",
                                    "--port",       over_tls() ? "0" : port,
                                    "--tls-port",   over_tls() ? port : "0",
                                    "--unixsocket", socket,
                                    "--dir",        folder_,
                                    "--save",       "",
                                    "--appendonly", "no"};
  // redis-server expects a file of settings before other arguments.
  const bool has_file = !arguments_.empty() && !arguments_[0].starts_with("--");
  words.insert(words.end(), arguments_.begin() + (has_file ? 1 : 0), arguments_.end());
  if (has_file) words.insert(words.begin(), arguments_[0]);
  words.insert(words.begin(), "redis-server");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);

  pid_ = fork();
  if (pid_ == 0) {
    // Only system calls here, since other threads of the parent may have held locks.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDOUT_FILENO);
    dup2(nowhere, STDERR_FILENO);
    execvp(arguments[0], arguments.data());
    _exit(127);
  }
  // It answers once it listens everywhere; if it can't listen, it ends.
  while (waitpid(pid_, nullptr, WNOHANG) == 0) {
    const std::string answer = Command({"PING"});
    if (answer == "PONG" || answer.find("NOAUTH") != std::string::npos) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  pid_ = 0;
  return false;
}

}  // namespace batchplan::testing
