#include "flagstone/runtime/graph/graph.hpp"

namespace flagstone {
namespace {

Access access(Mode mode, Region&& region) {
  Access made;
  made.mode = mode;
  made.region = std::move(region);
  return made;
}

}  // namespace

Access read(Region region) { return access(Mode::read, std::move(region)); }
Access write(Region region) { return access(Mode::write, std::move(region)); }
Access update(Region region) { return access(Mode::update, std::move(region)); }
Access reduce(Region region) { return access(Mode::reduce, std::move(region)); }

Access scratch(std::size_t bytes) {
  Access made;
  made.mode = Mode::scratch;
  made.scratch_bytes = bytes;
  return made;
}

Access last(Access access) {
  access.last = true;
  return access;
}

Access again(Access access) {
  access.again = true;
  return access;
}

Access once(Access access) {
  access.once = true;
  return access;
}

Charge::Charge(std::function<void()> release) : release_(std::move(release)) {}
Charge::Charge(Charge&& other) noexcept : release_(std::exchange(other.release_, nullptr)) {}
Charge& Charge::operator=(Charge&& other) noexcept {
  std::swap(release_, other.release_);
  return *this;
}
Charge::~Charge() {
  if (release_) release_();
}

bool Graph::concerns(std::span<const Access>) const { return true; }

}  // namespace flagstone
