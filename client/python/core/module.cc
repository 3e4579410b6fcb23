// batchplan._core: planning and message encoding for the Python package. Planning, reading and
// writing messages release Python's lock.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "client/python/core/bindings.h"
#include "client/python/core/common_prefixes.h"
#include "client/python/core/explaining.h"
#include "client/python/core/message_dict.h"
#include "client/python/core/messages.h"
#include "client/python/core/planned.h"
#include "client/python/core/planning.h"
#include "client/python/core/status_error.h"
#include "client/python/core/unlocked.h"
#include "client/python/core/viewing.h"
#include "proto/batchplan/v1/convert.h"
#include "proto/batchplan/v1/json.h"
#include "server/explain/explanation.h"
#include "server/explain/plan_sentences.h"
#include "server/pages/plan_page.h"
#include "server/planner/make_plan.h"

namespace nb = nanobind;

namespace batchplan::python {
namespace {

template <typename Number>
using Numbers = nb::ndarray<const Number, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Array = Numbers<uint32_t>;
using SharedPlan = std::shared_ptr<Planned>;
using Stop = std::stop_source;

using Amounts = Numbers<double>;

// The manifest's arrays, in the order of ManifestArrays. A load is a name and values; a load's
// items are its name, sequences and values.
using Arrays = std::tuple<Array, Array, Array, Array, Array, Array, Array,
                          std::vector<std::tuple<std::string, Amounts>>,
                          std::vector<std::tuple<std::string, Array, Amounts>>>;

template <typename Number>
std::span<const Number> View(const Numbers<Number>& array) {
  return {array.data(), array.size()};
}

std::vector<Load> View(const std::vector<std::tuple<std::string, Amounts>>& loads) {
  std::vector<Load> views;
  views.reserve(loads.size());
  for (const auto& [name, values] : loads) views.push_back({.name = name, .values = View(values)});
  return views;
}

std::vector<LoadItems> View(const std::vector<std::tuple<std::string, Array, Amounts>>& items) {
  std::vector<LoadItems> views;
  views.reserve(items.size());
  for (const auto& [load, sequences, values] : items) {
    views.push_back({.load = load, .sequences = View(sequences), .values = View(values)});
  }
  return views;
}

ManifestArrays View(const Arrays& arrays) {
  return std::apply([](const auto&... each) { return ManifestArrays{View(each)...}; }, arrays);
}

// A getter of one of the arrays of a pass.
template <std::vector<uint32_t> PassPlan::*kArray>
NumpyArray<uint32_t> ArrayOf(const SharedPlan& plan, size_t pass) {
  if (pass >= plan->passes().size()) throw nb::index_error("there is no such pass");
  return Viewing(plan->passes()[pass].*kArray, plan);
}

// The names of the dealt loads of a pass, with the ranks of their items.
nb::list ItemRanksOf(const SharedPlan& plan, size_t pass) {
  if (pass >= plan->passes().size()) throw nb::index_error("there is no such pass");
  nb::list loads;
  for (const LoadRanks& load : plan->passes()[pass].item_ranks) {
    loads.append(nb::make_tuple(load.load, Viewing(load.ranks, plan)));
  }
  return loads;
}

SharedPlan PlanBatch(const AskedPlan& asked, const Arrays& arrays, bool watches_signals,
                     std::optional<double> seconds, const Stop* stop) {
  PlanningLimits limits = {.seconds = seconds, .watches_signals = watches_signals};
  if (stop != nullptr) limits.stop = *stop;
  return PlanHere(asked, View(arrays), limits);
}

template <auto kEncode>
nb::bytes ToBytes(const std::string& request_json, const Arrays& arrays) {
  std::string bytes;
  {
    const Unlocked unlocked;
    bytes = kEncode(request_json, View(arrays));
  }
  return nb::bytes(bytes.data(), bytes.size());
}

absl::string_view View(const nb::bytes& bytes) {
  return {static_cast<const char*>(bytes.data()), bytes.size()};
}

SharedPlan ReadPlanBatch(const nb::bytes& bytes, uint32_t ranks) {
  const absl::string_view view = View(bytes);
  const Unlocked unlocked;
  return DecodePlanBatch(view, ranks);
}

// The arrays of the manifest of the request in an answer, in the order of Arrays.
nb::tuple ArraysOf(const std::shared_ptr<Joined>& joined) {
  const v1::Manifest& manifest = joined->manifest;
  nb::list loads;
  for (const v1::Load& load : manifest.loads()) {
    loads.append(nb::make_tuple(load.name(), Viewing(load.values(), joined)));
  }
  nb::list items;
  for (const v1::LoadItems& load : manifest.items()) {
    items.append(nb::make_tuple(load.load(), Viewing(load.sequences(), joined),
                                Viewing(load.values(), joined)));
  }
  return nb::make_tuple(Viewing(manifest.lengths(), joined), Viewing(manifest.group_ids(), joined),
                        Viewing(manifest.ranks(), joined), Viewing(manifest.ages(), joined),
                        Viewing(manifest.shared_prefixes(), joined),
                        Viewing(manifest.shared_with(), joined), Viewing(manifest.kinds(), joined),
                        loads, items);
}

// The plan, the offsets, the sequences of items; and the request with its arrays, if it is there.
template <auto kDecode>
nb::tuple ReadJoinBatch(const nb::bytes& bytes, uint32_t ranks) {
  auto joined = std::make_shared<Joined>();
  const absl::string_view view = View(bytes);
  {
    const Unlocked unlocked;
    *joined = kDecode(view, ranks);
  }
  nb::list items;
  for (const auto& [load, sequences] : joined->item_sequences) {
    items.append(nb::make_tuple(load, Viewing(sequences, joined)));
  }
  const bool has_arrays = !joined->manifest.lengths().empty();
  return nb::make_tuple(joined->plan, Viewing(joined->worker_offsets, joined), items,
                        joined->request_json,
                        has_arrays ? nb::object(ArraysOf(joined)) : nb::none());
}

nb::bytes WritePlan(const SharedPlan& plan, const std::string& request_json,
                    const std::optional<Arrays>& arrays, const Array& worker_offsets,
                    const std::vector<std::tuple<std::string, Array>>& item_sequences) {
  std::string bytes;
  {
    const Unlocked unlocked;
    const auto copy = [](const Array& array) {
      return std::vector<uint32_t>(array.data(), array.data() + array.size());
    };
    Joined joined = {.plan = plan,
                     .worker_offsets = copy(worker_offsets),
                     .item_sequences = {},
                     .request_json = {},
                     .manifest = {}};
    for (const auto& [load, sequences] : item_sequences) {
      joined.item_sequences.emplace_back(load, copy(sequences));
    }
    bytes = EncodeSavedPlan(joined, request_json, arrays ? View(*arrays) : ManifestArrays{});
  }
  return nb::bytes(bytes.data(), bytes.size());
}

nb::tuple ReadRequestOf(const std::string& request_json) {
  ReadRequest read = ReadPlanRequest(request_json);
  nb::list padded;
  for (const bool one : read.padded) padded.append(one);
  return nb::make_tuple(std::move(read.json), padded);
}

nb::bytes WriteReportStep(const std::string& request_json) {
  const std::string bytes = EncodeReportStep(request_json);
  return nb::bytes(bytes.data(), bytes.size());
}

std::string ReadReportStep(const nb::bytes& bytes) { return DecodeReportStep(View(bytes)); }

nb::tuple AsTuple(const std::shared_ptr<CommonPrefixes>& found) {
  return nb::make_tuple(Viewing(found->shared_prefixes, found), Viewing(found->shared_with, found));
}

// Finds the common prefixes of a list of arrays, which are not copied.
template <typename Token>
nb::tuple CommonPrefixesOfArrays(const nb::list& arrays, uint32_t minimum) {
  std::vector<std::span<const Token>> sequences;
  sequences.reserve(arrays.size());
  for (const nb::handle array : arrays) {
    const auto tokens = nb::cast<Numbers<Token>>(array, /*convert=*/false);
    sequences.emplace_back(tokens.data(), tokens.size());
  }
  auto found = std::make_shared<CommonPrefixes>();
  {
    const Unlocked unlocked;
    *found = FindCommonPrefixes(sequences, minimum);
  }
  return AsTuple(found);
}

// The tokens of all lists or tuples in a row, and the end of each. False if a token is a 64-bit
// integer but does not fit Token. Throws StatusError if one is no 64-bit integer.
template <typename Token>
bool Flatten(const nb::list& lists, std::vector<Token>& tokens, std::vector<size_t>& ends) {
  for (const nb::handle list : lists) {
    const bool is_list = PyList_Check(list.ptr()) != 0;
    const Py_ssize_t size = is_list ? PyList_Size(list.ptr()) : PyTuple_Size(list.ptr());
    for (Py_ssize_t i = 0; i < size; ++i) {
      PyObject* const item =
          is_list ? PyList_GetItem(list.ptr(), i) : PyTuple_GetItem(list.ptr(), i);
      const long long token = item == nullptr ? -1 : PyLong_AsLongLong(item);
      if (token == -1 && PyErr_Occurred() != nullptr) {
        PyErr_Clear();
        throw StatusError(absl::InvalidArgumentError(
            absl::StrCat("token_lists[", ends.size(), "] is no list of tokens: number ", i,
                         " of them is no whole number of 64 bits")));
      }
      if (token != static_cast<Token>(token)) return false;
      tokens.push_back(static_cast<Token>(token));
    }
    ends.push_back(tokens.size());
  }
  return true;
}

template <typename Token>
CommonPrefixes CommonPrefixesOf(const std::vector<Token>& tokens, const std::vector<size_t>& ends,
                                uint32_t minimum) {
  const Unlocked unlocked;
  std::vector<std::span<const Token>> sequences;
  sequences.reserve(ends.size());
  size_t begin = 0;
  for (const size_t end : ends) {
    sequences.emplace_back(tokens.data() + begin, end - begin);
    begin = end;
  }
  return FindCommonPrefixes(sequences, minimum);
}

nb::tuple CommonPrefixesOfLists(const nb::list& lists, uint32_t minimum) {
  auto found = std::make_shared<CommonPrefixes>();
  std::vector<int32_t> narrow;
  std::vector<size_t> ends;
  if (Flatten(lists, narrow, ends)) {
    *found = CommonPrefixesOf(narrow, ends, minimum);
  } else {
    narrow = {};
    ends.clear();
    std::vector<int64_t> wide;
    Flatten(lists, wide, ends);
    *found = CommonPrefixesOf(wide, ends, minimum);
  }
  return AsTuple(found);
}

std::string FitTo(const std::string& request_json) {
  const Unlocked unlocked;
  return FitCosts(request_json);
}

// A whole plan, and its request without the manifest's arrays.
struct Messages {
  // Both in protobuf's JSON.
  Messages(const std::string& request_json, const std::string& response_json) {
    Check(FromJson(request_json, &request));
    Check(FromJson(response_json, &response));
  }

  v1::PlanBatchRequest request;
  v1::PlanBatchResponse response;
};

// The plan as a self-contained HTML page: see server/pages/plan_page.h. `where` says where it was
// made. With the arrays, the page also explains why ranks wait.
std::string PageOf(const std::string& request_json, const std::string& response_json,
                   const std::string& where, const std::optional<Arrays>& arrays) {
  const Unlocked unlocked;
  const Messages messages(request_json, response_json);
  // The plan says which costs it was made with.
  const ParsedRequest parsed = Get(ParseRequestWithoutCosts(messages.request));
  PlanSentences sentences;
  if (arrays) {
    ExplainedPlan explained = ExplainPlan(messages.request, messages.response, View(*arrays));
    sentences.deferral = std::move(explained.deferral);
    for (Explanation& pass : explained.passes) {
      sentences.waiting.push_back(std::move(pass.sentences));
    }
  }
  return Get(
      PlanPage(messages.request, parsed.options, messages.response, {.where = where}, sentences));
}

// Explains why ranks wait, as a tuple for each pass in the order below, and why sequences wait.
nb::tuple ExplanationOf(const std::string& request_json, const std::string& response_json,
                        const Arrays& arrays) {
  ExplainedPlan explained;
  {
    const Unlocked unlocked;
    const Messages messages(request_json, response_json);
    explained = ExplainPlan(messages.request, messages.response, View(arrays));
  }
  nb::list passes;
  for (const Explanation& pass : explained.passes) {
    nb::list causes;
    for (const ExplainedTime& one : pass.causes) {
      causes.append(nb::make_tuple(std::string(NameOf(one.cause)), one.time, one.in_any_plan));
    }
    nb::list lone;
    for (const LoneSequence& one : pass.lone_sequences) {
      lone.append(nb::make_tuple(one.mini_batch, one.slot, one.sequence, one.length, one.waiting));
    }
    passes.append(nb::make_tuple(pass.predicted_step_time, pass.ideal_step_time,
                                 pass.lower_bound_step_time, causes, pass.aligning,
                                 pass.required_microbatches, pass.with_twice_the_budget, lone,
                                 pass.sentences));
  }
  return nb::make_tuple(passes, explained.deferral);
}

void RaiseStatus(const std::exception_ptr& thrown, void* /*payload*/) {
  try {
    std::rethrow_exception(thrown);
  } catch (const StatusError& error) {
    const nb::object made = nb::module_::import_("batchplan._errors")
                                .attr("from_status")(static_cast<int>(error.status.code()),
                                                     std::string(error.status.message()));
    PyErr_SetObject(made.type().ptr(), made.ptr());
  }
}

}  // namespace

NB_MODULE(_core, module) {
  // Otherwise nanobind would report a plan in a global variable as a leak when Python ends.
  nb::set_leak_warnings(false);
  nb::register_exception_translator(&RaiseStatus);
  WatchPythonsEnd();

  nb::class_<Planned>(module, "Planned")
      .def("head", [](const SharedPlan& plan) { return MessageDict(plan->head()); })
      .def("ranks", &Planned::ranks)
      .def("deferred", [](const SharedPlan& plan) { return Viewing(plan->deferred(), plan); })
      .def("sequence_index", &ArrayOf<&PassPlan::sequence_index>)
      .def("microbatch_offsets", &ArrayOf<&PassPlan::microbatch_offsets>)
      .def("microbatches_per_rank", &ArrayOf<&PassPlan::microbatches_per_rank>)
      .def("row_widths", &ArrayOf<&PassPlan::row_widths>)
      .def("sequence_lengths", &ArrayOf<&PassPlan::sequence_lengths>)
      .def("context_sizes", &ArrayOf<&PassPlan::context_sizes>)
      .def("shared_tokens", &ArrayOf<&PassPlan::shared_tokens>)
      .def("item_ranks", &ItemRanksOf);

  const auto add = [&module](const char* name, auto function) {
    module.def(name, function, nb::arg("request_json"), nb::arg("arrays").noconvert());
  };
  nb::class_<Stop>(module, "Stop").def(nb::init<>()).def("request", &Stop::request_stop);
  nb::class_<AskedPlan>(module, "AskedPlan")
      .def(nb::init<const std::string&, bool>(), nb::arg("request_json"), nb::arg("has_ranks"));
  module.def("plan_batch", &PlanBatch, nb::arg("asked"), nb::arg("arrays").noconvert(),
             nb::arg("watches_signals") = false, nb::arg("seconds") = nb::none(),
             nb::arg("stop") = nb::none());
  add("encode_plan_batch", &ToBytes<&EncodePlanBatch>);
  add("encode_join_batch", &ToBytes<&EncodeJoinBatch>);
  module.def("encode_report_step", &WriteReportStep);
  module.def("decode_plan_batch", &ReadPlanBatch);
  module.def("decode_join_batch", &ReadJoinBatch<&DecodeJoinBatch>);
  module.def("decode_saved_plan", &ReadJoinBatch<&DecodeSavedPlan>);
  module.def("encode_saved_plan", &WritePlan, nb::arg("plan"), nb::arg("request_json"),
             nb::arg("arrays").noconvert().none(), nb::arg("worker_offsets").noconvert(),
             nb::arg("item_sequences").noconvert());
  module.def("decode_report_step", &ReadReportStep);
  module.def("common_prefixes_32", &CommonPrefixesOfArrays<int32_t>);
  module.def("common_prefixes_64", &CommonPrefixesOfArrays<int64_t>);
  module.def("common_prefixes_of_lists", &CommonPrefixesOfLists);
  module.def("fit_costs", &FitTo);
  module.def("read_plan_request", &ReadRequestOf);
  module.def("plan_page", &PageOf, nb::arg("request_json"), nb::arg("response_json"),
             nb::arg("where"), nb::arg("arrays").noconvert().none());
  module.def("explain_plan", &ExplanationOf, nb::arg("request_json"), nb::arg("response_json"),
             nb::arg("arrays").noconvert());
  BindCallRules(module);
  BindKernels(module);
  module.def("version", [] { return std::string(PlannerVersion()); });
}

}  // namespace batchplan::python
