// A vector whose copies share one storage until one of them is changed. Reading is that of a const std::vector; every
// change goes through a method that takes a storage of its own first, so a copy never sees it. Several threads may read
// and copy one; it is changed while no other thread makes or drops copies of it.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

namespace piper {

template <class T>
class SharedVector {
 public:
  using value_type = T;

  SharedVector() = default;
  SharedVector(std::vector<T> items) : items_(std::make_shared<std::vector<T>>(std::move(items))) {}
  SharedVector(std::initializer_list<T> items) : SharedVector(std::vector<T>(items)) {}

  const std::vector<T>& get() const {
    static const std::vector<T> none;
    return items_ ? *items_ : none;
  }
  size_t size() const { return items_ ? items_->size() : 0; }
  bool empty() const { return size() == 0; }
  const T& operator[](size_t i) const { return (*items_)[i]; }
  const T& at(size_t i) const { return get().at(i); }
  const T& front() const { return items_->front(); }
  const T& back() const { return items_->back(); }
  auto begin() const { return get().begin(); }
  auto end() const { return get().end(); }
  // Whether both have the same storage: one is a copy of the other, unchanged. False where either has none.
  bool shares(const SharedVector& other) const { return items_ && items_ == other.items_; }
  // The address of the storage: equal for two vectors exactly where they share one; null for an empty one.
  const void* storage() const { return items_.get(); }

  // The elements, to be changed. References taken before may still point into a storage that others share.
  std::vector<T>& edit() {
    if (!items_) items_ = std::make_shared<std::vector<T>>();
    else if (items_.use_count() > 1) items_ = std::make_shared<std::vector<T>>(*items_);
    return *items_;
  }
  void push_back(T item) { edit().push_back(std::move(item)); }
  template <class... Args>
  T& emplace_back(Args&&... args) {
    return edit().emplace_back(std::forward<Args>(args)...);
  }
  void clear() { items_.reset(); }

 private:
  std::shared_ptr<std::vector<T>> items_;
};

}  // namespace piper
