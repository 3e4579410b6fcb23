#include "server/service/accept_watch.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tests/support/scratch_directory.h"

namespace batchplan {
namespace {

// A listener on TCP or at a path; the test accepts its connections.
class Listener {
 public:
  explicit Listener(const std::string& path) : path_(path) {
    socket_ = ::socket(path.empty() ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (path.empty()) {
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      Bind(address);
    } else {
      sockaddr_un address{};
      address.sun_family = AF_UNIX;
      path.copy(address.sun_path, sizeof(address.sun_path) - 1);
      Bind(address);
    }
  }
  ~Listener() {
    for (const int open : open_) close(open);
    close(socket_);
  }

  std::string listen() const { return path_.empty() ? "127.0.0.1:0" : "unix:" + path_; }
  int port() const {
    return path_.empty() ? ntohs(reinterpret_cast<const sockaddr_in*>(&address_)->sin_port) : 0;
  }

  void Connect() {
    open_.push_back(::socket(address_.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(connect(open_.back(), reinterpret_cast<const sockaddr*>(&address_), size_), 0);
  }
  // Accepts the connection that has waited longest.
  int Take() {
    const int taken = accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
    open_.push_back(taken);
    return taken;
  }

 private:
  template <typename Address>
  void Bind(const Address& address) {
    EXPECT_EQ(bind(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(::listen(socket_, 16), 0);
    size_ = sizeof(address_);
    EXPECT_EQ(getsockname(socket_, reinterpret_cast<sockaddr*>(&address_), &size_), 0);
  }

  const std::string path_;
  int socket_ = -1;
  sockaddr_storage address_{};
  socklen_t size_ = 0;
  std::vector<int> open_;
};

class AcceptWatchTest : public ::testing::TestWithParam<bool> {
 protected:
  ScratchDirectory folder_;
  Listener listener_{GetParam() ? folder_.Path("socket") : ""};
  AcceptWatch watch_{OpenConnections(listener_.listen(), listener_.port())};
};

TEST_P(AcceptWatchTest, WhereNobodyWaitsNothingIsWrong) {
  EXPECT_EQ(watch_.Look(), 0);
  listener_.Connect();
  listener_.Take();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(watch_.Look(), 0);
}

TEST_P(AcceptWatchTest, LooksAtConnectionsThatWaitInVainAreCounted) {
  listener_.Connect();
  listener_.Take();
  listener_.Connect();
  for (int look = 1; look <= 4; ++look) EXPECT_EQ(watch_.Look(), look);
  // More connections change nothing.
  listener_.Connect();
  EXPECT_EQ(watch_.Look(), 5);
  listener_.Take();
  listener_.Take();
  EXPECT_EQ(watch_.Look(), 0);
}

TEST_P(AcceptWatchTest, AQueueThatIsNeverEmptyIsNotInVainWhileAnyIsTaken) {
  listener_.Connect();
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(watch_.Look(), 1) << i;
    // The previous connection may be gone, and its descriptor used again.
    listener_.Connect();
    listener_.Take();
  }
  EXPECT_EQ(watch_.Look(), 1);
  EXPECT_EQ(watch_.Look(), 2);
}

INSTANTIATE_TEST_SUITE_P(All, AcceptWatchTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Unix" : "Tcp"; });

}  // namespace
}  // namespace batchplan
