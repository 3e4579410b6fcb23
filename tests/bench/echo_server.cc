#include "tests/bench/echo_server.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"

namespace batchplan {
namespace {

// Reads one message and answers. Deletes itself.
class Echo : public grpc::ServerGenericBidiReactor {
 public:
  explicit Echo(const grpc::ByteBuffer& response) : response_(response) { StartRead(&request_); }

  void OnReadDone(bool) override {
    StartWriteAndFinish(&response_, grpc::WriteOptions(), grpc::Status::OK);
  }
  void OnDone() override { delete this; }

 private:
  grpc::ByteBuffer request_;
  const grpc::ByteBuffer response_;
};

grpc::ByteBuffer Bytes(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace

grpc::ServerGenericBidiReactor* EchoServer::Service::CreateReactor(
    grpc::GenericCallbackServerContext*) {
  return new Echo(response);
}

EchoServer::EchoServer() {
  const std::string address = absl::StrCat("unix:/tmp/batchplan-echo-", getpid(), ".sock");
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials());
  builder.RegisterCallbackGenericService(&service_);
  builder.SetMaxReceiveMessageSize(-1);
  server_ = builder.BuildAndStart();
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  stub_ = std::make_unique<grpc::GenericStub>(
      grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
}

grpc::Status EchoServer::Call(const std::string& request, const std::string& response) {
  service_.response = Bytes(response);
  const grpc::ByteBuffer sent = Bytes(request);
  grpc::ByteBuffer received;
  grpc::ClientContext context;
  grpc::Status status;
  absl::Notification done;
  stub_->UnaryCall(&context, "/batchplan.Echo/Echo", grpc::StubOptions(), &sent, &received,
                   [&](grpc::Status result) {
                     status = std::move(result);
                     done.Notify();
                   });
  done.WaitForNotification();
  return status;
}

}  // namespace batchplan
