// The argument lists of a rank's plan: ranks that do the same work (like_ranks.h) share them, except the lists that
// name parts of buffers which a rank has for itself, what it updates where replicas divide the optimizer's work. Those
// few are beside the shared ones, in their place. Reading is that of a const vector of lists; copies share what is
// shared; a change through edit() takes all lists for this plan alone. Used wherever plans are; knows no rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "schemas/base/shared_vector.h"

namespace piper::plan {

// A range of a buffer.
struct BufferRange {
  int32_t buffer = -1;  // index into RankPlan::buffers
  int64_t offset = 0;   // bytes
  friend bool operator==(const BufferRange&, const BufferRange&) = default;
};

struct ArgumentList {  // one BufferRange per slot of the program
  std::string name;    // "c0.F m0"
  std::vector<BufferRange> arguments;
  int32_t microbatch = -1;  // of the step that a run of a chunk is for; -1: of none, or the batch is not split
  friend bool operator==(const ArgumentList&, const ArgumentList&) = default;
};

class ArgumentLists {
 public:
  using value_type = ArgumentList;
  struct Own {
    size_t index = 0;  // of the list that it stands for
    ArgumentList list;
  };

  ArgumentLists() = default;
  ArgumentLists(std::vector<ArgumentList> lists) : shared_(std::move(lists)) {}
  ArgumentLists(std::initializer_list<ArgumentList> lists) : shared_(lists) {}

  size_t size() const { return shared_.size(); }
  bool empty() const { return shared_.empty(); }
  const ArgumentList& operator[](size_t i) const {
    if (own_.empty()) [[likely]]
      return shared_[i];
    return own_or_shared(i);
  }
  const ArgumentList& at(size_t i) const { return i < size() ? (*this)[i] : shared_.at(i); }
  const ArgumentList& front() const { return (*this)[0]; }
  const ArgumentList& back() const { return (*this)[size() - 1]; }

  class Iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = ArgumentList;
    using difference_type = std::ptrdiff_t;
    using pointer = const ArgumentList*;
    using reference = const ArgumentList&;
    Iterator() = default;
    Iterator(const ArgumentLists* lists, size_t index) : lists_(lists), index_(index) {}
    reference operator*() const { return (*lists_)[index_]; }
    pointer operator->() const { return &(*lists_)[index_]; }
    Iterator& operator++() {
      ++index_;
      return *this;
    }
    Iterator operator++(int) { return {lists_, index_++}; }
    friend bool operator==(const Iterator&, const Iterator&) = default;

   private:
    const ArgumentLists* lists_ = nullptr;
    size_t index_ = 0;
  };
  Iterator begin() const { return {this, 0}; }
  Iterator end() const { return {this, size()}; }

  // Whether all but the own lists of both are one storage.
  bool shares(const ArgumentLists& other) const { return shared_.shares(other.shared_); }
  const std::vector<Own>& own() const { return own_; }  // by index
  // `index` < size(). The list is this plan's alone.
  void set_own(size_t index, ArgumentList list);

  // All lists, to be changed: none is shared or own afterwards.
  std::vector<ArgumentList>& edit();
  void push_back(ArgumentList list) { edit().push_back(std::move(list)); }
  ArgumentList& emplace_back() { return edit().emplace_back(); }
  void clear() {
    shared_.clear();
    own_.clear();
  }

 private:
  std::vector<Own>::const_iterator place(size_t index) const;
  const ArgumentList& own_or_shared(size_t index) const;

  SharedVector<ArgumentList> shared_;
  std::vector<Own> own_;
};

}  // namespace piper::plan
