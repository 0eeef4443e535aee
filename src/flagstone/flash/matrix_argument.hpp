#pragma once
// Matrix arguments as CBLAS and LAPACKE take them: where they begin, and how far their rows or columns are apart.
#include <initializer_list>
#include <string>
#include <utility>

#include "flagstone/flash/flash_ptr.hpp"

namespace flagstone::flash {

// CBLAS's values, so that its constants can be cast to these.
enum class Order { row_major = 101, column_major = 102 };
enum class Transpose { none = 111, plain = 112, conjugate = 113 };
enum class Uplo { upper = 121, lower = 122 };
enum class Diagonal { stored = 131, unit = 132 };
enum class Side { left = 141, right = 142 };

/// Where a matrix argument begins: on disk or in memory.
struct Place {
  std::shared_ptr<FlashFile> file;  // null: memory
  std::uint64_t offset = 0;         // on disk
  std::byte* memory = nullptr;

  template <class T>
  static Place of(const flash_ptr<T>& p) {
    return {p.file(), p.offset(), nullptr};
  }
  template <class T>
  static Place of(T* p) {
    return {nullptr, 0, reinterpret_cast<std::byte*>(const_cast<std::remove_const_t<T>*>(p))};
  }
};

struct MatrixArgument {
  Place place;
  Index leading = 0;
};

/// One argument of a call, as it is stored: `lines` rows, or columns in column_major, of `length` elements.
struct StoredMatrix {
  const char* who;   // the routine, for messages
  const char* name;  // the argument
  Order order;
  Place place;
  Index lines, length, leading;
  Dtype dtype;

  /// A rows x cols matrix. ShapeError where the leading dimension is too short, or the pointer is null.
  StoredMatrix(const char* who, const char* name, Order order, const MatrixArgument& given, Index rows, Index cols,
               Dtype dtype);
  std::uint64_t item() const { return size_of(dtype); }
  std::uint64_t begin() const;
  std::uint64_t end() const;
  /// Its lines as rows: in column_major the transposed matrix.
  Array lines_as_rows() const;
  /// The matrix itself.
  Array matrix() const;
  /// StorageError (EROFS) where its file is mapped for reading.
  void check_writable() const;
};

/// ShapeError where one is negative.
void check_extents(const char* who, std::initializer_list<std::pair<const char*, Index>> extents);
/// StorageError where `x` is mapped for reading, ShapeError where `other` lies over it.
void check_written(const StoredMatrix& x, const StoredMatrix& other);
/// Do any of their bytes coincide? Exact for lines of one pitch (blocks of one matrix), else by their extents.
bool overlap(const StoredMatrix& a, const StoredMatrix& b);
/// A copy in a nameless file of the scratch directory. Cost: one read and one write of `x`.
StoredMatrix copied(Runtime& runtime, const StoredMatrix& x);

namespace detail {
template <class P>
struct element;
template <class T>
struct element<flash_ptr<T>> {
  using type = T;
};
template <class T>
struct element<T*> {
  using type = T;
};
template <class P>
using element_t = typename element<std::decay_t<P>>::type;

/// A pointer of either kind to elements that may be written, of a type that is computed with.
template <class P>
concept WritablePointer = !std::is_const_v<element_t<P>>;
/// One to elements of type T, which may be constant.
template <class P, class T>
concept PointerTo = std::is_same_v<T, std::remove_const_t<element_t<P>>>;
}  // namespace detail

}  // namespace flagstone::flash
