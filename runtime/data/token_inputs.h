// What the tokens of a sample feed to a model's inputs: themselves, those one further, and where each is in its
// document. Shared by all sources of token streams.
#pragma once

#include <string>
#include <vector>

#include "runtime/data/element.h"
#include "schemas/base/status.h"
#include "schemas/plan/plan.h"

namespace piper::data {

class TokenInputs {
 public:
  // `what`: the data, for messages. `document_end`: -1 where no token ends a document. R0206: an input that no stream
  // feeds, of another form than a sequence, of another length than the others, or of documents without an end.
  static Result<TokenInputs> of(const plan::Manifest& manifest, const std::string& what, int64_t document_end);
  // R0206: tokens of this type do not fit an input.
  Status accept(Element element);

  int64_t sample_tokens() const { return sample_tokens_; }
  Element element() const { return element_; }
  // For one input, from the first of the sample's sample_tokens() + 1 tokens. Documents are those of the sample: the
  // token that ends one is its last, and the sample's first token begins one, whatever is before it.
  void write(size_t input, const std::byte* tokens, std::byte* destination) const;
  int64_t bytes(size_t input) const { return sample_tokens_ * dtype_bytes(inputs_[input].dtype); }

 private:
  struct Input {
    std::string name;
    DType dtype = DType::kI64;
    plan::Feed feed = plan::Feed::kTokens;
  };
  template <class Value>
  void write_documents(plan::Feed feed, const std::byte* tokens, std::byte* destination) const;

  std::vector<Input> inputs_;
  int64_t sample_tokens_ = 1, document_end_ = -1;
  Element element_ = Element::kU8;
};

}  // namespace piper::data
