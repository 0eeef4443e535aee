// Arrays that are computed where they are loaded, against elements that are computed one after the other in memory:
// operands on disk and in memory, transposed, broadcast, nested; boxes of any place and shape.
#include <gmock/gmock.h>

#include <cstring>
#include <functional>

#include "flagstone/base/error.hpp"
#include "flagstone/base/grid.hpp"
#include "flagstone/runtime/runtime.hpp"
#include "flagstone/storage/array/memory_array.hpp"
#include "flagstone/storage/box/box.hpp"
#include "flagstone/storage/formats/flat.hpp"
#include "flagstone/storage/lazy/elementwise_array.hpp"
#include "flagstone/storage/lazy/generated_array.hpp"
#include "flagstone/storage/lazy/mapped_array.hpp"
#include "flagstone/storage/lazy/structured_array.hpp"
#include "flagstone/storage/ring/ring.hpp"
#include "flagstone/storage/ring/scripted_ring.hpp"
#include "flagstone/storage/zarr/zarr.hpp"
#include "flagstone/testing/array_io.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone {
namespace {

using kernel::Program;
using kernel::Verb;
using test::message_of;
using test::random_box;
using test::read_elements;
using test::Reference;
using ::testing::HasSubstr;

constexpr Dtype all_dtypes[] = {Dtype::boolean, Dtype::int8,    Dtype::int16,     Dtype::int32,     Dtype::int64,
                                Dtype::uint8,   Dtype::uint16,  Dtype::uint32,    Dtype::uint64,    Dtype::float16,
                                Dtype::float32, Dtype::float64, Dtype::complex64, Dtype::complex128};

class LazyArray : public testing::Test {
 protected:
  /// The reference's elements, stored one of several ways.
  Array stored(Reference& values, int way) {
    const std::string place = directory_ / std::to_string(++made_);
    const Shape& shape = values.shape;
    const Box all = whole(shape);
    Shape chunks = shape;
    for (Index& extent : chunks) extent = std::max<Index>(1, extent / 2 + 1);
    if (way % 5 == 0 || count(shape) == 0)
      return memory_array(values.data.data(), shape, values.dtype, c_strides(shape, size_of(values.dtype)));
    Array made;
    if (way % 5 <= 2)
      made = create_raw(place, {.shape = shape, .dtype = values.dtype, .column_major = way % 5 == 2, .offset = 24});
    else
      made = create_zarr_array(place + ".zarr", shape, values.dtype,
                               {.chunks = chunks, .codec = way % 5 == 3 ? "raw" : "zstd"});
    test::write_elements(made, all, values.elements(all));
    made.store().flush();
    return made;
  }

  Reference numbers(const Shape& shape, Dtype dtype) {
    Reference made(shape, dtype);
    made.randomize(random_);
    if (dtype == Dtype::boolean)
      for (std::byte& value : made.data) value &= std::byte{1};
    return made;
  }

  void expect_same(const Array& lazy, Reference& wanted, int boxes = 12) {
    ASSERT_EQ(lazy.shape(), wanted.shape);
    ASSERT_EQ(lazy.dtype(), wanted.dtype);
    for (int i = 0; i < boxes; ++i) {
      const Box box = i == 0 ? whole(wanted.shape) : random_box(wanted.shape, random_);
      ASSERT_EQ(read_elements(lazy, box), wanted.elements(box))
          << to_string(box.shape) << " at " << to_string(box.start);
    }
    // Through a ring, with little staging.
    const Buffer memory(std::max<std::size_t>(1, wanted.data.size()));
    const Tile to{memory.data(), wanted.dtype, wanted.shape, c_strides(wanted.shape, size_of(wanted.dtype)), 0};
    read_box(*ring_, lazy, whole(wanted.shape), to, {.staging = 64 * 1024});
    ASSERT_EQ(0, std::memcmp(memory.data(), wanted.data.data(), wanted.data.size()));
  }

  TemporaryDirectory directory_;
  std::mt19937_64 random_{11};
  std::unique_ptr<Ring> ring_ = make_ring();
  int made_ = 0;
};

/// The program over dense tiles of memory.
Reference evaluated(const Program& program, int value, const Shape& shape, std::vector<Tile> inputs) {
  Reference result(shape, program.dtype(value));
  for (Tile& input : inputs) {
    Shape strides(shape.size(), 0);
    const std::size_t missing = shape.size() - input.shape.size();
    for (std::size_t d = 0; d < input.shape.size(); ++d)
      if (input.shape[d] != 1) strides[missing + d] = input.strides[d];
    input.shape = shape, input.strides = strides;
  }
  const Buffer scratch(std::max<std::size_t>(1, kernel::evaluate_scratch(program)));
  const kernel::StoreTarget target{value, result.tile(whole(shape))};
  kernel::evaluate(program, shape, inputs, {&target, 1}, {}, scratch.data());
  return result;
}

TEST_F(LazyArray, ComputesEveryDtypeOverOperandsOfEveryKind) {
  int way = 0;
  for (const Dtype dtype : all_dtypes)
    for (const Shape& shape : {Shape{37, 53}, Shape{1, 1}, Shape{5, 1, 7}, Shape{0, 4}, Shape{300}}) {
      auto program = std::make_shared<Program>();
      const int a = program->input(dtype), b = program->input(dtype), row = program->input(dtype);
      const Verb verb = dtype == Dtype::boolean ? Verb::bitwise_or : Verb::maximum;
      const Verb chosen = is_complex(dtype) ? Verb::add : verb;
      const auto wide = [&](int one) { return dtype == Dtype::float16 ? program->cast(one, Dtype::float32) : one; };
      const int value = program->cast(program->apply(chosen, program->apply(chosen, wide(a), wide(b)), wide(row)),
                                      is_complex(dtype) ? Dtype::complex128 : Dtype::float64);
      Shape last(shape.size(), 1), turned(shape.rbegin(), shape.rend());
      if (!shape.empty()) last.back() = shape.back();
      Reference x = numbers(shape, dtype), y = numbers(turned, dtype), z = numbers(last, dtype);
      Tile seen = y.tile(whole(turned));
      std::reverse(seen.shape.begin(), seen.shape.end()), std::reverse(seen.strides.begin(), seen.strides.end());
      Reference wanted = evaluated(*program, value, shape, {x.tile(whole(shape)), seen, z.tile(whole(last))});
      const Array lazy = elementwise_array(
          program, value, {{stored(x, way)}, {stored(y, way / 2 + 1), true}, {stored(z, way + 3)}}, shape);
      ++way;
      expect_same(lazy, wanted);
      if (HasFatalFailure()) FAIL() << name_of(dtype) << " " << to_string(shape) << " way " << way;
      EXPECT_EQ(lazy.store().read(whole(shape)).flops, static_cast<double>(count(shape)) * program->verbs());
    }
}

TEST_F(LazyArray, NestsAndAddsUpWhatItsOperandsMoveAndCompute) {
  auto program = std::make_shared<Program>();
  const int x = program->input(Dtype::float32);
  const int log = program->apply(Verb::log1p, program->apply(Verb::absolute, x));
  Reference values(Shape{200, 300}, Dtype::float32);
  std::uniform_real_distribution<float> range(-3, 3);
  for (std::size_t i = 0; i < values.data.size(); i += 4) {
    const float value = range(random_);
    std::memcpy(values.data.data() + i, &value, 4);
  }
  Reference once = evaluated(*program, log, values.shape, {values.tile(whole(values.shape))});
  Reference twice = evaluated(*program, log, values.shape, {once.tile(whole(values.shape))});
  for (int way = 0; way < 5; ++way) {
    const Array plain = stored(values, way);
    const Array inner = elementwise_array(program, log, {{plain}}, values.shape);
    const Array outer = elementwise_array(program, log, {{inner}}, values.shape);
    expect_same(inner, once);
    expect_same(outer, twice);
    const Box box{{3, 5}, {100, 200}};
    const Transfer transfer = outer.store().read(box);
    EXPECT_EQ(transfer.flops, 4.0 * 100 * 200);
    EXPECT_EQ(transfer.bytes(), plain.in_memory() ? 0 : plain.store().read(box).bytes());
    EXPECT_EQ(outer.chunks(), plain.in_memory() ? plain.shape() : plain.chunks());
    if (!plain.in_memory()) {
      EXPECT_EQ(outer.store().run_bytes(box.shape), plain.store().run_bytes(box.shape));
      EXPECT_EQ(outer.store().pass_bytes(), plain.store().pass_bytes() ? plain.store().pass_bytes() : plain.nbytes());
      EXPECT_EQ(outer.store().unpack_bytes() > 0, plain.store().unpack_bytes() > 0);
    }
    EXPECT_EQ(outer.store().verified(), plain.store().verified());
  }
}

TEST_F(LazyArray, RefusesWritesAndOperandsThatDoNotFit) {
  auto program = std::make_shared<Program>();
  const int x = program->input(Dtype::float32);
  const int value = program->apply(Verb::negative, x);
  const Array operand = memory_array({4, 6}, Dtype::float32);
  const Array lazy = elementwise_array(program, value, {{operand}}, {4, 6});
  EXPECT_THAT(message_of<StorageError>([&] { lazy.store().write({{0, 0}, {1, 1}}); }), HasSubstr("store it first"));
  EXPECT_THAT(message_of<ShapeError>([&] { elementwise_array(program, value, {}, {4, 6}); }), HasSubstr("1 inputs"));
  EXPECT_THAT(message_of<ShapeError>([&] {
                elementwise_array(program, value, {{operand}}, {5, 6});
              }),
              HasSubstr("does not broadcast"));
  EXPECT_THAT(message_of<ShapeError>([&] {
                elementwise_array(program, value, {{memory_array({4, 6}, Dtype::float64)}}, {4, 6});
              }),
              HasSubstr("must agree"));
  EXPECT_THAT(message_of<ShapeError>([&] { lazy.store().read({{0, 0}, {5, 6}}); }), HasSubstr("does not lie"));
}

TEST_F(LazyArray, IsCleanDroppedAndComputedAgainInsideTheBudget) {
  auto program = std::make_shared<Program>();
  const int value = program->apply(Verb::square, program->input(Dtype::float64));
  Reference x(Shape{512, 256}, Dtype::float64);
  for (std::size_t i = 0; i < x.data.size() / 8; ++i) {
    const auto number = static_cast<double>(i % 97);
    std::memcpy(x.data.data() + 8 * i, &number, 8);
  }
  const Array plain = stored(x, 1);
  const Array lazy = elementwise_array(program, value, {{plain}}, x.shape);
  double wanted = 0;
  for (std::size_t i = 0; i < x.data.size() / 8; ++i) wanted += static_cast<double>((i % 97) * (i % 97));
  for (const std::uint64_t memory : {64, 400}) {  // MiB
    double sum = 0;
    std::mutex one;
    RuntimeOptions options{.memory = memory << 20, .workers = 2, .scratch = directory_.path()};
    Runtime runtime(options);
    const auto build = [&](Graph& graph) {
      sum = 0;
      for (int pass = 0; pass < 2; ++pass) {
        for (Index i = 0; i < 512; i += 64) {
          TaskSpec task;
          task.name = "sum";
          task.accesses = {read({lazy, {{i, 0}, {64, 256}}})};
          task.body = [&](std::span<const Tile> tiles) {
            double part = 0;
            for (Index r = 0; r < 64; ++r)
              for (Index c = 0; c < 256; ++c)
                part += *reinterpret_cast<double*>(tiles[0].data + r * tiles[0].strides[0] + c * tiles[0].strides[1]);
            const std::lock_guard lock(one);
            sum += part;
          };
          graph.add(std::move(task));
        }
        graph.barrier();
      }
    };
    const Statistics planned = runtime.plan(build);
    const Statistics stats = runtime.run(build);
    EXPECT_EQ(sum, 2 * wanted);
    EXPECT_EQ(stats.bytes_written, 0u);
    EXPECT_EQ(stats.bytes_read, planned.bytes_read);
    EXPECT_EQ(stats.flops, planned.flops);
    EXPECT_GE(stats.flops, 512.0 * 256);
    EXPECT_LE(stats.peak_budget, stats.budget);
  }
}

TEST_F(LazyArray, AGraphMayNotWriteWhatALazyArrayIsComputedFrom) {
  auto program = std::make_shared<Program>();
  const int value = program->apply(Verb::square, program->input(Dtype::float64));
  Reference x = numbers({64}, Dtype::float64);
  const Array plain = stored(x, 1);
  const Array lazy = elementwise_array(program, value, {{plain}}, x.shape);
  RuntimeOptions options{.memory = 64 << 20, .workers = 1, .scratch = directory_.path()};
  Runtime runtime(options);
  for (const bool reads_first : {true, false}) {
    const auto add = [](Graph& graph, Access access) {
      TaskSpec task;
      task.name = "one";
      task.accesses = {std::move(access)};
      task.body = [](std::span<const Tile>) {};
      graph.add(std::move(task));
    };
    EXPECT_THAT(message_of<ShapeError>([&] {
                  runtime.run([&](Graph& graph) {
                    if (reads_first) add(graph, read({lazy, {{0}, {64}}}));
                    add(graph, write({plain, {{0}, {64}}}));
                    if (!reads_first) add(graph, read({lazy, {{0}, {64}}}));
                  });
                }),
                HasSubstr("store that one first"));
  }
}

// ---- places --------------------------------------------------------------------------------------------------------

using Kind = AxisMap::Kind;

/// Element by element: which member, and where in it.
Reference mapped(std::vector<Reference>& members, const std::vector<AxisMap>& axes, const Shape& shape) {
  Reference result(shape, members[0].dtype);
  if (count(shape) == 0) return result;
  Shape at(shape.size(), 0);
  do {
    std::size_t member = 0;
    Shape from(members[0].shape.size(), 0);
    for (std::size_t d = 0; d < axes.size(); ++d) {
      const AxisMap& axis = axes[d];
      const Index i = at[d], n = axis.source < 0 ? 1 : members[0].shape[static_cast<std::size_t>(axis.source)];
      Index own = i;
      if (axis.kind == Kind::flip) own = n - 1 - i;
      if (axis.kind == Kind::roll) own = (((i - axis.amount) % n) + n) % n;
      if (axis.kind == Kind::repeat) own = i / axis.amount;
      if (axis.kind == Kind::tile) own = i % n;
      if (axis.kind == Kind::stretch) own = 0;
      if (axis.kind == Kind::select) own = axis.amount;
      if (axis.kind == Kind::join && axis.source < 0) member = static_cast<std::size_t>(i), own = 0;
      if (axis.kind == Kind::join && axis.source >= 0)
        for (; own >= members[member].shape[static_cast<std::size_t>(axis.source)]; ++member)
          own -= members[member].shape[static_cast<std::size_t>(axis.source)];
      if (axis.source >= 0) from[static_cast<std::size_t>(axis.source)] = own;
    }
    Box here{at, Shape(at.size(), 1)}, there{from, Shape(from.size(), 1)};
    const Tile source = members[member].tile(there), to = result.tile(here);
    std::memcpy(to.data, source.data, size_of(result.dtype));
  } while (advance(at, shape));
  return result;
}

TEST_F(LazyArray, PutsMembersAndPlacesTogether) {
  struct Case {
    std::vector<Shape> members;
    std::vector<AxisMap> axes;
  };
  const std::vector<Case> cases = {
      {{{20, 30}, {7, 30}, {0, 30}, {50, 30}}, {{Kind::join, 0}, {Kind::same, 1}}},
      {{{20, 3}, {20, 30}, {20, 17}}, {{Kind::same, 0}, {Kind::join, 1}}},
      {{{20, 30}, {20, 30}, {20, 30}}, {{Kind::same, 0}, {Kind::join}, {Kind::same, 1}}},
      {{{20, 30}, {20, 30}}, {{Kind::join}, {Kind::same, 0}, {Kind::same, 1}}},
      {{{20, 30}}, {{Kind::flip, 0}, {Kind::same, 1}}},
      {{{20, 30}}, {{Kind::flip, 0}, {Kind::flip, 1}}},
      {{{20, 30}}, {{Kind::roll, 0, 7}, {Kind::roll, 1, -33}}},
      {{{20, 30}}, {{Kind::repeat, 0, 3}, {Kind::same, 1}}},
      {{{20, 30}}, {{Kind::same, 0}, {Kind::repeat, 1, 2}}},
      {{{20, 30}}, {{Kind::tile, 0, 4}, {Kind::tile, 1, 2}}},
      {{{2, 3}}, {{Kind::tile, 0, 40}, {Kind::tile, 1, 17}}},
      {{{4, 30}}, {{Kind::repeat, 0, 20}, {Kind::repeat, 1, 5}}},
      {{{1, 30}}, {{Kind::stretch, 0, 19}, {Kind::same, 1}}},
      {{{20, 1}}, {{Kind::stretch, -1, 3}, {Kind::same, 0}, {Kind::stretch, 1, 9}}},
      {{{20, 1, 30}}, {{Kind::same, 0}, {Kind::same, 2}}},
      {{{20, 30}}, {{Kind::same, 1}, {Kind::flip, 0}}},
      {{{1}}, {}},
      {{{20, 30}}, {{Kind::same, 0}, {Kind::select, 1, 17}}},
      {{{0, 5}}, {{Kind::tile, 0, 3}, {Kind::flip, 1}}},
  };
  for (std::size_t which = 0; which < cases.size(); ++which)
    for (int way = 0; way < 5; ++way) {
      const Case& given = cases[which];
      std::vector<Reference> values;
      std::vector<Array> members;
      for (const Shape& shape : given.members) values.push_back(numbers(shape, Dtype::int32));
      for (Reference& one : values) members.push_back(stored(one, way + static_cast<int>(members.size()) % 2));
      const Array lazy = mapped_array(members, given.axes);
      Reference wanted = mapped(values, given.axes, lazy.shape());
      expect_same(lazy, wanted, 20);
      if (HasFatalFailure()) FAIL() << "case " << which << " way " << way;
    }
}

TEST_F(LazyArray, ABoxOfOneMemberTravelsAsItDoesThere) {
  Reference x = numbers({64, 32}, Dtype::float64), y = numbers({40, 32}, Dtype::float64);
  for (const int way : {1, 2, 3, 4}) {
    const Array a = stored(x, way), b = stored(y, way);
    const Array joined = mapped_array({a, b}, {{Kind::join, 0}, {Kind::same, 1}});
    const Transfer there = b.store().read({{5, 0}, {20, 32}}), here = joined.store().read({{69, 0}, {20, 32}});
    EXPECT_EQ(here.bytes(), there.bytes());
    EXPECT_EQ(here.staging_bytes, there.staging_bytes);
    EXPECT_EQ(here.strides, there.strides);
    EXPECT_EQ(here.segments.size(), there.segments.size());
    EXPECT_EQ(joined.chunks(), way <= 2 ? joined.shape() : a.chunks());
  }
}

TEST_F(LazyArray, RefusesMembersThatDoNotFit) {
  const Array a = memory_array({4, 6}, Dtype::float32), b = memory_array({4, 5}, Dtype::float32);
  const std::vector<AxisMap> rows = {{Kind::join, 0}, {Kind::same, 1}};
  EXPECT_THAT(message_of<ShapeError>([&] { mapped_array({}, rows); }), HasSubstr("at least one"));
  EXPECT_THAT(message_of<ShapeError>([&] { mapped_array({a, b}, rows); }), HasSubstr("extents must agree"));
  EXPECT_THAT(message_of<ShapeError>([&] {
                mapped_array({a, memory_array({4, 6}, Dtype::float64)}, rows);
              }),
              HasSubstr("convert them first"));
  EXPECT_THAT(message_of<ShapeError>([&] {
                mapped_array({a, a}, {{Kind::same, 0}, {Kind::same, 1}});
              }),
              HasSubstr("no dimension joins"));
  EXPECT_THAT(message_of<ShapeError>([&] { mapped_array({a}, {{Kind::same, 0}}); }), HasSubstr("named once"));
  EXPECT_THAT(message_of<ShapeError>([&] {
                mapped_array({a}, {{Kind::stretch, 0, 3}, {Kind::same, 1}});
              }),
              HasSubstr("one index is stretched"));
}

TEST_F(LazyArray, GeneratesElementsByTheirPlace) {
  const double start = 0.1, step = 0.3, last = 99;
  Reference line(Shape{1000}, Dtype::float64);
  for (std::size_t i = 0; i < 1000; ++i) {
    const double value = i == 999 ? last : start + static_cast<double>(i) * step;
    std::memcpy(line.data.data() + 8 * i, &value, 8);
  }
  expect_same(linear_array(1000, Dtype::float64, &start, &step, &last), line);
  Reference eye(Shape{37, 53}, Dtype::int16), triangle(Shape{37, 53}, Dtype::boolean);
  const std::int16_t one = 1;
  for (const Index diagonal : {-40, -3, 0, 5, 60}) {
    std::fill(eye.data.begin(), eye.data.end(), std::byte{0});
    for (Index i = 0; i < 37; ++i)
      for (Index j = 0; j < 53; ++j) {
        if (j - i == diagonal) std::memcpy(eye.data.data() + 2 * (i * 53 + j), &one, 2);
        triangle.data[static_cast<std::size_t>(i * 53 + j)] = std::byte{j - i <= diagonal};
      }
    expect_same(diagonal_array(37, 53, Dtype::int16, diagonal, &one), eye);
    expect_same(lower_triangle({37, 53}, diagonal), triangle);
  }
  const std::complex<double> value{1, -2};
  Reference full(Shape{3, 4, 5}, Dtype::complex128);
  fill(full.tile(whole(full.shape)), &value);
  expect_same(constant_array({3, 4, 5}, Dtype::complex128, &value), full);
  EXPECT_THAT(message_of<ShapeError>([&] { linear_array(3, Dtype::int8, &start, &step); }), HasSubstr("int64"));
}

TEST_F(LazyArray, TheOtherTriangleIsNeverRead) {
  const Index n = 40;
  const Array file = create_zarr_array(directory_ / "triangle.zarr", {n, n}, Dtype::float32, {.chunks = {10, 10}});
  for (const bool lower : {false, true})
    for (const auto kind : {Structure::Kind::symmetric, Structure::Kind::triangular}) {
      const Array seen = structured_array(file, {kind, lower, false});
      const auto bytes = [&](Box box) { return seen.store().read(box).bytes(); };
      const Box inside = lower ? Box{{30, 0}, {10, 10}} : Box{{0, 30}, {10, 10}};
      const Box beside = lower ? Box{{0, 30}, {10, 10}} : Box{{30, 0}, {10, 10}};
      EXPECT_EQ(bytes(inside), file.store().read(inside).bytes());
      EXPECT_EQ(bytes(beside), kind == Structure::Kind::symmetric ? file.store().read(inside).bytes() : 0u);
      EXPECT_EQ(bytes({{10, 10}, {10, 10}}), file.store().read({{10, 10}, {10, 10}}).bytes());  // once
    }
  EXPECT_THROW(structured_array(create_zarr_array(directory_ / "wide.zarr", {2, 3}, Dtype::float32, {}), {}),
               ShapeError);
}

}  // namespace
}  // namespace flagstone
