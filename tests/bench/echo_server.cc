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

grpc::ServerGenericBidiReactor* EchoServer::BytesService::CreateReactor(
    grpc::GenericCallbackServerContext*) {
  return new Echo(response);
}

grpc::Status EchoServer::MessageService::PlanBatch(grpc::ServerContext*,
                                                   const v1::PlanBatchRequest*,
                                                   v1::PlanBatchResponse* answer) {
  answer->Swap(&response);
  return grpc::Status::OK;
}

EchoServer::EchoServer() {
  const std::string address = absl::StrCat("unix:/tmp/batchplan-echo-", getpid(), ".sock");
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials());
  builder.RegisterService(&messages_);
  builder.RegisterCallbackGenericService(&bytes_);
  builder.SetMaxReceiveMessageSize(-1);
  server_ = builder.BuildAndStart();
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  const std::shared_ptr<grpc::Channel> channel =
      grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  stub_ = v1::BatchPlanner::NewStub(channel);
  bytes_stub_ = std::make_unique<grpc::GenericStub>(channel);
}

void EchoServer::Answer(const v1::PlanBatchResponse& response) {
  messages_.response = response;
  bytes_.response = Bytes(response.SerializeAsString());
}

grpc::Status EchoServer::Call(const v1::PlanBatchRequest& request) {
  grpc::ClientContext context;
  v1::PlanBatchResponse response;
  return stub_->PlanBatch(&context, request, &response);
}

grpc::Status EchoServer::CallBytes(const std::string& request) {
  const grpc::ByteBuffer sent = Bytes(request);
  grpc::ByteBuffer received;
  grpc::ClientContext context;
  grpc::Status status;
  absl::Notification done;
  bytes_stub_->UnaryCall(&context, "/batchplan.Echo/Echo", grpc::StubOptions(), &sent, &received,
                         [&](grpc::Status result) {
                           status = std::move(result);
                           done.Notify();
                         });
  done.WaitForNotification();
  return status;
}

}  // namespace batchplan
