#include "runtime/data/token_inputs.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace piper::data {

namespace {

bool of_documents(plan::Feed feed) { return feed == plan::Feed::kPositions || feed == plan::Feed::kDocuments; }

}  // namespace

Result<TokenInputs> TokenInputs::of(const plan::Manifest& manifest, const std::string& what, int64_t document_end) {
  TokenInputs inputs;
  inputs.document_end_ = document_end;
  for (const plan::InputDecl& declared : manifest.inputs) {
    if (declared.feed == plan::Feed::kNone)
      return Status::failure("R0206", "'" + what + "' is a token stream, and nothing says what it feeds to input '" +
                                          declared.name + "': name it under `inputs` of the strategy's `model` (" +
                                          declared.name +
                                          ": tokens, or next_tokens), or give a .safetensors file with one tensor per "
                                          "input");
    if (!declared.batched || declared.sample_shape.size() != 1 ||
        (declared.dtype != DType::kI64 && declared.dtype != DType::kI32))
      return Status::failure("R0206", "a token stream cannot feed input '" + declared.name +
                                          "': it is no sequence of i32 or i64 tokens per sample");
    if (of_documents(declared.feed) && document_end < 0)
      return Status::failure("R0206",
                             "input '" + declared.name +
                                 "' needs the ends of documents, but the plan names no token that ends a document");
    if (!inputs.inputs_.empty() && declared.sample_shape[0] != inputs.sample_tokens_)
      return Status::failure("R0206", "inputs '" + inputs.inputs_.back().name + "' and '" + declared.name +
                                          "' have sequences of " + std::to_string(inputs.sample_tokens_) + " and " +
                                          std::to_string(declared.sample_shape[0]) +
                                          " tokens; a token stream feeds equal ones");
    inputs.sample_tokens_ = declared.sample_shape[0];
    inputs.inputs_.push_back({declared.name, declared.dtype, declared.feed});
  }
  return inputs;
}

Status TokenInputs::accept(Element element) {
  element_ = element;
  for (const Input& input : inputs_)
    if (!of_documents(input.feed) && !can_convert(element, input.dtype))
      return Status::failure("R0206", "input '" + input.name + "' takes " + std::string(dtype_name(input.dtype)) +
                                          " tokens, and the data are " + std::string(element_name(element)) +
                                          ", which may be larger");
  return {};
}

template <class Value>
void TokenInputs::write_documents(plan::Feed feed, const std::byte* tokens, std::byte* destination) const {
  std::array<int64_t, 256> block{};
  Value position = 0, document = 0;
  for (int64_t from = 0; from < sample_tokens_; from += static_cast<int64_t>(block.size())) {
    const int64_t count = std::min<int64_t>(static_cast<int64_t>(block.size()), sample_tokens_ - from);
    convert(element_, tokens + from * element_bytes(element_), DType::kI64, reinterpret_cast<std::byte*>(block.data()),
            count);
    for (int64_t i = 0; i < count; ++i) {
      const Value value = feed == plan::Feed::kPositions ? position : document;
      std::memcpy(destination, &value, sizeof value);
      destination += sizeof value;
      const bool ends = block[static_cast<size_t>(i)] == document_end_;
      position = ends ? 0 : position + 1;
      document += ends ? 1 : 0;
    }
  }
}

void TokenInputs::write(size_t input, const std::byte* tokens, std::byte* destination) const {
  const Input& to = inputs_[input];
  switch (to.feed) {
    case plan::Feed::kTokens: return convert(element_, tokens, to.dtype, destination, sample_tokens_);
    case plan::Feed::kNextTokens:
      return convert(element_, tokens + element_bytes(element_), to.dtype, destination, sample_tokens_);
    case plan::Feed::kPositions:
    case plan::Feed::kDocuments:
      return to.dtype == DType::kI64 ? write_documents<int64_t>(to.feed, tokens, destination)
                                     : write_documents<int32_t>(to.feed, tokens, destination);
    case plan::Feed::kNone: return;
  }
}

}  // namespace piper::data
