// Compares the CUDA backend with the host's. Random rows of several fields, with more words than a
// thread block moves, must have equal bytes on both, and wrong rows equal errors.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "memory.h"
#include "move_case.h"
#include "naive_row.h"
#include "packed_row.h"
#include "random_cases.h"

namespace batchplan::kernels {
namespace {

constexpr uint32_t kMostFields = 6;

struct MovedField : FieldCase {
  batchplan_content content = BATCHPLAN_CONTENT_TOKENS;
  // The width of padded rows.
  uint32_t width = 0;
  Bytes source;
  // The content of the destination before the call.
  Bytes destination;
  Bytes pad;
};

// The input of both backends.
struct Question {
  Case row;
  bool unpacks = false;
  std::vector<int64_t> offsets;
  std::vector<MovedField> fields;
};

struct Answer {
  batchplan_status status = BATCHPLAN_OK;
  std::vector<Bytes> destinations;
};

MovedField RandomField(Generator& generator, const Question& question) {
  const Case& row = question.row;
  MovedField field;
  static_cast<FieldCase&>(field) = generator.NextField();
  const size_t cells = NaiveRow(row.lengths, row.options, row.rank).size();
  field.width = row.width + generator.Below(3);
  const size_t tokens = row.ragged ? static_cast<size_t>(question.offsets.back())
                                   : size_t{row.num_rows} * field.width;
  // Wide tokens are as many bytes as narrow ones are tokens.
  if (tokens > 2000) field.elements_per_token = 1 + field.elements_per_token / 40;
  size_t entries = tokens;
  if (!question.unpacks) {
    switch (generator.Below(5)) {
      case 0:
        field.content = BATCHPLAN_CONTENT_PER_SEQUENCE;
        entries = row.num_rows;
        break;
      case 1:
        field.content = generator.Below(2) == 0 ? BATCHPLAN_CONTENT_POSITION_IDS
                                                : BATCHPLAN_CONTENT_SEQUENCE_IDS;
        field.element_size = generator.Below(2) == 0 ? 4 : 8;
        field.elements_per_token = 1;
        field.destination_misalignment = 8 * size_t{generator.Below(2)};
        entries = 0;
    }
  }
  field.source = generator.RandomBytes((question.unpacks ? cells : entries) * field.token_bytes());
  field.destination =
      generator.RandomBytes((question.unpacks ? entries : cells) * field.token_bytes());
  field.pad = generator.RandomBytes(field.element_size);
  return field;
}

Question RandomQuestion(Generator& generator) {
  Question question;
  const uint32_t size = generator.Below(8);
  question.row = size == 0  ? generator.Next(3000)
                 : size < 4 ? generator.Next(200)
                            : generator.Next();
  question.unpacks = generator.Below(2) == 0;
  question.offsets = RowOffsets(question.row, generator);
  for (uint32_t i = 1 + generator.Below(kMostFields); i > 0; --i) {
    question.fields.push_back(RandomField(generator, question));
  }
  return question;
}

// A single fault, so that both report the same one.
void PlantFault(Generator& generator, Question& question) {
  Case& row = question.row;
  const auto longest = std::ranges::max_element(row.lengths);
  if (longest == row.lengths.end() || *longest == 0) return;
  const auto sequence = static_cast<size_t>(longest - row.lengths.begin());
  if (generator.Below(2) == 0) {
    row.index[sequence] = row.num_rows + generator.Below(3);
  } else if (row.ragged) {
    question.offsets.back() = std::max<int64_t>(question.offsets.back() - 1, 0);
  } else {
    for (MovedField& field : question.fields) field.width = *longest - 1;
  }
}

Answer Ask(batchplan_backend backend, const Question& question) {
  const Case& c = question.row;
  PackedRow row(backend, c.lengths, c.options, c.rank);
  Buffer<uint32_t> index(backend, c.index);
  Buffer<int64_t> offsets(backend, question.offsets);
  const batchplan_sequences sequences = {
      .sequence_index = index.data(),
      .offsets = c.ragged ? offsets.data() : nullptr,
      .num_rows = c.num_rows,
      .num_tokens = static_cast<uint64_t>(question.offsets.back())};
  std::vector<Buffer<std::byte>> sources;
  std::vector<Buffer<std::byte>> destinations;
  std::vector<batchplan_field> fields;
  for (const MovedField& field : question.fields) {
    sources.emplace_back(backend, field.source, field.source_misalignment);
    destinations.emplace_back(backend, field.destination, field.destination_misalignment);
    fields.push_back({.content = field.content,
                      .element_size = field.element_size,
                      .elements_per_token = field.elements_per_token,
                      .source = sources.back().data(),
                      .destination = destinations.back().data(),
                      .width = field.width,
                      .token_shift = field.shift});
    std::ranges::copy(field.pad, reinterpret_cast<std::byte*>(fields.back().pad_value));
  }
  Answer answer;
  answer.status = question.unpacks ? row.Unpack(sequences, fields) : row.Pack(sequences, fields);
  for (Buffer<std::byte>& destination : destinations) {
    answer.destinations.push_back(destination.Values());
  }
  return answer;
}

// A row of one to two times `cells` cells for a rank, with ids and with fields of 8 bytes and of
// one.
Question LongQuestion(Generator& generator, uint32_t cells, uint32_t context_parallel,
                      uint32_t elements) {
  Question question;
  Case& row = question.row;
  row.options = {.length_multiple = 2 * context_parallel, .context_parallel = context_parallel};
  row.rank = generator.Below(context_parallel);
  while (row.options.row_width < cells * context_parallel) {
    row.lengths.push_back(generator.Below(generator.Below(3) == 0 ? 90 : 9000));
    row.options.row_width += NaivePaddedLength(row.lengths.back(), row.options);
    row.width = std::max(row.width, row.lengths.back());
  }
  // The tail is longer than a thread block writes.
  row.options.row_width += 2000 * context_parallel;
  row.num_rows = static_cast<uint32_t>(row.lengths.size());
  for (uint32_t i = row.num_rows; i > 0; --i) row.index.push_back(i - 1);
  row.ragged = question.unpacks && generator.Below(2) == 0;
  question.offsets = RowOffsets(row, generator);
  const size_t tokens =
      row.ragged ? static_cast<size_t>(question.offsets.back()) : size_t{row.num_rows} * row.width;
  const size_t packed = row.options.row_width / context_parallel;
  for (const uint32_t size : {8U, 1U}) {
    MovedField field;
    field.element_size = size;
    field.elements_per_token = elements;
    field.shift = size == 1 ? 1 : 0;
    field.source_misalignment = field.destination_misalignment = 0;
    field.width = row.width;
    field.source = generator.RandomBytes(tokens * field.token_bytes());
    field.destination.resize(packed * field.token_bytes());
    field.pad = generator.RandomBytes(size);
    question.fields.push_back(field);
  }
  return question;
}

// The reverse question: unpacking instead of packing.
Question Reversed(Question question) {
  question.unpacks = true;
  for (MovedField& field : question.fields) std::swap(field.source, field.destination);
  return question;
}

class MoveAgreementTest : public testing::Test {
 protected:
  void SetUp() override {
    const batchplan_status status = batchplan_backend_status(BATCHPLAN_BACKEND_CUDA);
    if (status != BATCHPLAN_OK) GTEST_SKIP() << batchplan_status_string(status);
  }
};

TEST_F(MoveAgreementTest, RandomFieldsHaveTheSameBytesOnBothBackends) {
  Generator generator(Seed(440));
  for (uint64_t round = 0; round < Cases(440); ++round) {
    const Question question = RandomQuestion(generator);
    SCOPED_TRACE(testing::Message() << "round " << round << ", seed " << Seed(440) << ": "
                                    << testing::PrintToString(question.row));
    const Answer host = Ask(BATCHPLAN_BACKEND_HOST, question);
    const Answer cuda = Ask(BATCHPLAN_BACKEND_CUDA, question);
    ASSERT_EQ(host.status, BATCHPLAN_OK);
    ASSERT_EQ(cuda.status, BATCHPLAN_OK);
    for (size_t i = 0; i < host.destinations.size(); ++i) {
      ASSERT_TRUE(host.destinations[i] == cuda.destinations[i])
          << (question.unpacks ? "unpacked" : "packed") << " field " << i << " of "
          << host.destinations.size() << ", of " << question.fields[i].elements_per_token
          << " elements of " << question.fields[i].element_size << " bytes";
    }
  }
}

// So many words that each thread moves several.
TEST_F(MoveAgreementTest, LongRowsHaveTheSameBytesOnBothBackends) {
  Generator generator(Seed(442));
  const auto expect_agreement = [](const Question& question) {
    SCOPED_TRACE(testing::PrintToString(question.row));
    const Answer host = Ask(BATCHPLAN_BACKEND_HOST, question);
    const Answer cuda = Ask(BATCHPLAN_BACKEND_CUDA, question);
    ASSERT_EQ(cuda.status, BATCHPLAN_OK);
    ASSERT_TRUE(host.destinations == cuda.destinations);
  };
  expect_agreement(LongQuestion(generator, 540000, 1, 1));
  expect_agreement(LongQuestion(generator, 540000, 2, 1));
  expect_agreement(LongQuestion(generator, 180000, 1, 3));
  expect_agreement(Reversed(LongQuestion(generator, 270000, 1, 1)));
  expect_agreement(Reversed(LongQuestion(generator, 270000, 2, 1)));
}

TEST_F(MoveAgreementTest, RandomFaultsAreTheSameErrorOnBothBackends) {
  Generator generator(Seed(441));
  for (uint64_t round = 0; round < Cases(100); ++round) {
    Question question = RandomQuestion(generator);
    PlantFault(generator, question);
    SCOPED_TRACE(testing::Message() << "round " << round << ", seed " << Seed(441) << ": "
                                    << testing::PrintToString(question.row));
    const Answer host = Ask(BATCHPLAN_BACKEND_HOST, question);
    const Answer cuda = Ask(BATCHPLAN_BACKEND_CUDA, question);
    ASSERT_EQ(cuda.status, host.status);
  }
}

}  // namespace
}  // namespace batchplan::kernels
