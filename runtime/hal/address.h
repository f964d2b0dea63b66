// A place in the memory of a device. Opaque: its bytes are reached by the device's queues, kernels and
// collectives, and by the host through Device::read() and write() alone. in_device() is for the code of the device
// (runtime/hal, runtime/kernels); a layering test holds that nobody else calls it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace piper::hal {

class Address {
 public:
  Address() = default;  // nowhere
  explicit Address(std::byte* place) : place_(place) {}
  bool nowhere() const { return place_ == nullptr; }
  std::byte* in_device() const { return place_; }
  template <class T>
  T* in_device_as() const {
    return reinterpret_cast<T*>(place_);
  }
  friend Address operator+(Address from, int64_t bytes) { return Address(from.place_ + bytes); }
  friend bool operator==(Address, Address) = default;

 private:
  std::byte* place_ = nullptr;
};

}  // namespace piper::hal
