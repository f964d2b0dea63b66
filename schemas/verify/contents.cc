#include "schemas/verify/contents.h"

#include <algorithm>

namespace piper::verify {
namespace {

bool located(Content::Kind kind) { return kind != Content::Kind::kNothing && kind != Content::Kind::kZero; }

bool continues(const Content& a, int64_t bytes, const Content& b) {
  return a.same(b) && a.start == b.start && a.relied == b.relied && (!located(a.kind) || a.origin + bytes == b.origin);
}

}  // namespace

void append(Pieces& pieces, const Piece& piece) {
  if (piece.bytes <= 0) return;
  if (!pieces.empty() && continues(pieces.back().content, pieces.back().bytes, piece.content)) pieces.back().bytes += piece.bytes;
  else pieces.push_back(piece);
}

size_t BufferContents::find(int64_t at) const {
  if (segments_.size() == 1) return 0;
  const auto after = std::upper_bound(segments_.begin(), segments_.end(), at, [](int64_t address, const Segment& s) { return address < s.begin; });
  return static_cast<size_t>(after - segments_.begin()) - 1;
}

void BufferContents::read(int64_t from, int64_t to, Pieces& pieces) const {
  for (size_t i = find(from); i < segments_.size() && segments_[i].begin < to; ++i) {
    const auto& segment = segments_[i];
    const int64_t begin = std::max(from, segment.begin);
    Piece piece{std::min(to, segment.end) - begin, segment.content};
    piece.content.origin += begin - segment.begin;
    append(pieces, piece);
  }
}

size_t BufferContents::split(int64_t at) {
  if (at >= segments_.back().end) return segments_.size();
  const size_t i = find(at);
  if (segments_[i].begin == at) return i;
  Segment tail = segments_[i];
  tail.content.origin += at - tail.begin;
  tail.begin = at;
  segments_[i].end = at;
  segments_.insert(segments_.begin() + static_cast<std::ptrdiff_t>(i) + 1, tail);
  return i + 1;
}

BufferContents::Span BufferContents::cut(int64_t from, int64_t to) {
  if (from >= to) return {segments_.data(), segments_.data()};
  if (Segment* const segment = whole(from, to); segment && segment->begin == from && segment->end == to) return {segment, segment + 1};
  const size_t first = split(from);
  const size_t last = split(to);
  return {segments_.data() + first, segments_.data() + last};
}

void BufferContents::write(int64_t from, int64_t to, const Content& content) {
  if (from >= to) return;
  const Span span = cut(from, to);
  if (span.last - span.first == 1) {
    span.first->content = content;
    return;
  }
  const auto first = segments_.begin() + (span.first - segments_.data());
  *first = {from, to, content};
  segments_.erase(first + 1, first + (span.last - span.first));
}

void BufferContents::write(int64_t from, const Pieces& pieces) {
  int64_t to = from;
  for (const auto& piece : pieces) to += piece.bytes;
  if (to == from) return;
  const Span span = cut(from, to);
  const auto first = span.first - segments_.data();
  const auto held = static_cast<size_t>(span.last - span.first);
  if (held > pieces.size()) segments_.erase(segments_.begin() + first, segments_.begin() + first + static_cast<std::ptrdiff_t>(held - pieces.size()));
  if (held < pieces.size()) segments_.insert(segments_.begin() + first, pieces.size() - held, Segment{});
  Segment* at = segments_.data() + first;
  for (const auto& piece : pieces) {
    *at++ = {from, from + piece.bytes, piece.content};
    from += piece.bytes;
  }
}

}  // namespace piper::verify
