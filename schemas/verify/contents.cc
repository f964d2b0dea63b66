#include "schemas/verify/contents.h"

#include <algorithm>

namespace piper::verify {
namespace {

bool continues(const Content& a, int64_t bytes, const Content& b) {
  return a.same(b) && a.start == b.start && a.relied == b.relied && (a.is_empty() || a.origin + bytes == b.origin);
}

}  // namespace

bool is_loss_scale(const Pieces& pieces) {
  const auto* const counter = pieces.size() == 1 ? pieces[0].content.as<Counter>() : nullptr;
  return counter != nullptr && *counter == Counter{Counter::Of::kLossScale, false};
}

void append(Pieces& pieces, const Piece& piece) {
  if (piece.bytes <= 0) return;
  if (!pieces.empty() && continues(pieces.back().content, pieces.back().bytes, piece.content))
    pieces.back().bytes += piece.bytes;
  else pieces.push_back(piece);
}

BufferContents::Several* BufferContents::new_several() {
  if (memory_->spare.empty()) return std::pmr::polymorphic_allocator<>(&memory_->bytes).new_object<Several>();
  Several* const again = memory_->spare.back();
  memory_->spare.pop_back();
  again->clear();
  return again;
}

BufferContents::Several& BufferContents::several() {
  if (several_ == nullptr) {
    several_ = new_several();
    several_->reserve(4);
    several_->push_back(only_);
  }
  return *several_;
}

size_t BufferContents::find(int64_t at) const {
  const auto all = segments();
  if (all.size() == 1) return 0;
  const auto after =
      std::upper_bound(all.begin(), all.end(), at, [](int64_t address, const Segment& s) { return address < s.begin; });
  return static_cast<size_t>(after - all.begin()) - 1;
}

void BufferContents::read(int64_t from, int64_t to, Pieces& pieces) const {
  const auto all = segments();
  for (size_t i = find(from); i < all.size() && all[i].begin < to; ++i) {
    const auto& segment = all[i];
    const int64_t begin = std::max(from, segment.begin);
    Piece piece{std::min(to, segment.end) - begin, segment.content};
    piece.content.origin += begin - segment.begin;
    append(pieces, piece);
  }
}

size_t BufferContents::split(int64_t at) {
  auto& all = several();
  if (at >= all.back().end) return all.size();
  const size_t i = find(at);
  if (all[i].begin == at) return i;
  Segment tail = all[i];
  tail.content.origin += at - tail.begin;
  tail.begin = at;
  all[i].end = at;
  all.insert(all.begin() + static_cast<std::ptrdiff_t>(i) + 1, tail);
  return i + 1;
}

BufferContents::Span BufferContents::cut(int64_t from, int64_t to) {
  if (from >= to) return {&only_, &only_};
  if (Segment* const segment = just(from, to)) return {segment, segment + 1};
  const size_t first = split(from);
  const size_t last = split(to);
  return {several_->data() + first, several_->data() + last};
}

void BufferContents::write(int64_t from, int64_t to, const Content& content) {
  if (from >= to) return;
  const Span span = cut(from, to);
  if (span.last - span.first == 1) {
    span.first->content = content;
    return;
  }
  const auto first = several_->begin() + (span.first - several_->data());
  *first = {from, to, content};
  several_->erase(first + 1, first + (span.last - span.first));
}

void BufferContents::write(int64_t from, const Pieces& pieces) {
  int64_t to = from;
  for (const auto& piece : pieces) to += piece.bytes;
  if (to == from) return;
  const Span span = cut(from, to);
  const auto held = static_cast<size_t>(span.last - span.first);
  Segment* at = span.first;
  if (held != pieces.size()) {
    auto& all = several();
    const auto first = span.first == &only_ ? 0 : span.first - all.data();
    if (held > pieces.size())
      all.erase(all.begin() + first, all.begin() + first + static_cast<std::ptrdiff_t>(held - pieces.size()));
    else all.insert(all.begin() + first, pieces.size() - held, Segment{});
    at = all.data() + first;
  }
  for (const auto& piece : pieces) {
    *at++ = {from, from + piece.bytes, piece.content};
    from += piece.bytes;
  }
}

}  // namespace piper::verify
