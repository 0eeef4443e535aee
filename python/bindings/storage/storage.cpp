// Arrays on disk and in memory, and outputs that appear whole.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings/core/bindings.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/storage/array/dirty_mark.hpp"
#include "flagstone/storage/array/file_extent.hpp"
#include "flagstone/storage/array/memory_array.hpp"
#include "flagstone/storage/box/box_pieces.hpp"
#include "flagstone/storage/chunk/planned_array.hpp"
#include "flagstone/storage/codec/codec_name.hpp"
#include "flagstone/storage/codec/decode.hpp"
#include "flagstone/storage/codec/encode.hpp"
#include "flagstone/storage/file/crc32.hpp"
#include "flagstone/storage/formats/flat.hpp"
#include "flagstone/storage/formats/hdf5_chunks.hpp"
#include "flagstone/storage/formats/npy.hpp"
#include "flagstone/storage/maintenance/attributes.hpp"
#include "flagstone/storage/maintenance/check.hpp"
#include "flagstone/storage/maintenance/pack.hpp"
#include "flagstone/storage/maintenance/repair.hpp"
#include "flagstone/storage/output/output.hpp"
#include "flagstone/storage/transaction/epoch_ring.hpp"
#include "flagstone/storage/transaction/transaction.hpp"
#include "flagstone/storage/zarr/metadata/group.hpp"
#include "flagstone/storage/zarr/metadata/long_metadata.hpp"
#include "flagstone/storage/zarr/store/zarr_store.hpp"
#include "flagstone/storage/zarr/zarr.hpp"

namespace flagstone::python {
namespace {

/// Keeps a Python object alive from threads that do not hold the lock.
std::shared_ptr<void> keep_alive(nb::object object) {
  return {new nb::object(std::move(object)), [](void* held) {
            if (!Py_IsInitialized()) return;  // the interpreter is gone and its objects with it
            nb::gil_scoped_acquire lock;
            delete static_cast<nb::object*>(held);
          }};
}

Array create_zarr(const std::string& directory, const Shape& shape, const std::string& dtype, const Shape& chunks,
                  const std::string& codec, const std::string& attributes,
                  const std::vector<std::string>& dimension_names, const std::string& checksum,
                  const std::string& order, nb::bytes fill) {
  const auto* element = static_cast<const std::byte*>(fill.data());
  const ZarrOptions options{.chunks = chunks,
                            .codec = codec,
                            .column_major = order == "F",
                            .checksum = checksum,
                            .attributes = attributes,
                            .dimension_names = dimension_names,
                            .fill = {element, element + fill.size()}};
  const nb::gil_scoped_release unlocked;
  return create_zarr_array(directory, shape, dtype_from_name(dtype), options);
}

Array open_flat(const std::string& path, const std::string& dtype, const Shape& shape, const std::string& order,
                std::uint64_t offset, Index leading, bool writable, bool big_endian) {
  const RawLayout layout{.shape = shape,
                         .dtype = dtype_from_name(dtype),
                         .column_major = order == "F",
                         .big_endian = big_endian,
                         .offset = offset,
                         .leading = leading};
  return open_raw(path, layout, writable);
}

/// Rows of three numbers: offset, bytes, filter mask. Steps: (name, item bytes) as they were applied.
Array chunk_table(const std::string& file, const std::string& name, const Shape& shape, const Shape& chunks,
                  const std::string& dtype, bool big_endian,
                  const std::vector<std::pair<std::string, std::size_t>>& steps, nb::bytes fill,
                  const nb::ndarray<const std::uint64_t, nb::shape<-1, 3>, nb::c_contig, nb::device::cpu>& places) {
  ChunkTable table{.shape = shape, .chunks = chunks, .dtype = dtype_from_name(dtype)};
  table.codec.big_endian = big_endian;
  for (const auto& [step, item] : steps) table.codec.steps.push_back({.codec = codec_named(step), .item = item});
  const auto* first = static_cast<const std::byte*>(fill.data());
  table.fill.assign(first, first + fill.size());
  const std::uint64_t* place = places.data();
  for (std::size_t i = 0; i < places.shape(0); ++i, place += 3)
    table.entries.push_back({place[0], static_cast<std::uint32_t>(place[1]), static_cast<std::uint32_t>(place[2])});
  return open_chunk_table(file, std::move(table), name);
}

}  // namespace

void bind_storage(nb::module_& m) {
  using unlocked = nb::call_guard<nb::gil_scoped_release>;

  nb::class_<Array>(m, "Array")
      .def_prop_ro("shape", [](const Array& a) { return a.shape(); })
      .def_prop_ro("chunks", [](const Array& a) { return a.chunks(); })
      .def_prop_ro("dtype", [](const Array& a) { return std::string(name_of(a.dtype())); })
      .def_prop_ro("nbytes", &Array::nbytes)
      .def_prop_ro("path", &Array::path)
      .def_prop_ro("in_memory", &Array::in_memory)
      .def_prop_ro("computed", [](const Array& a) { return !a.store().operands().empty(); })
      .def_prop_ro("codec", &codec_of)
      .def_prop_ro("by_chunks",  // changed one chunk at a time, without transactions
                   [](const Array& array) {
                     const ZarrStore* store = zarr_store(array);
                     return store && store->by_chunks();
                   })
      .def_prop_ro("fill",  // one element; nothing where the array has no fill value
                   [](const Array& array) {
                     const ZarrStore* store = zarr_store(array);
                     const std::vector<std::byte> none, &fill = store ? store->metadata().fill : none;
                     return nb::bytes(reinterpret_cast<const char*>(fill.data()), fill.size());
                   })
      .def_prop_ro("order", [](const Array& array) { return std::string(1, order_of(array)); })
      .def_prop_ro("id", [](const Array& a) { return reinterpret_cast<std::uintptr_t>(a.id()); })
      .def_prop_ro("located",
                   [](const Array& a) -> nb::object {
                     const auto at = file_extent(a);
                     if (!at) return nb::none();
                     return nb::make_tuple(at->device, at->inode, at->offset, at->leading, at->column_major,
                                           at->big_endian);
                   })
      .def_prop_ro("unpack_bytes", [](const Array& a) { return a.store().unpack_bytes(); })
      .def_prop_ro("pack_bytes", [](const Array& a) { return a.store().pack_bytes(); })
      .def_prop_ro("verified", [](const Array& a) { return a.store().verified(); })
      .def_prop_ro("takes_any_box", &takes_any_box)
      .def_prop_ro("stored_bytes",
                   [](const Array& a) {
                     nb::gil_scoped_release unlocked;  // may read the index of every shard
                     const std::uint64_t stored = a.store().pass_bytes();
                     return stored > 0 ? stored : a.nbytes();
                   })
      .def("run_bytes", [](const Array& a, const Shape& box) { return a.store().run_bytes(box); })
      .def_prop_ro("transacting",
                   [](const Array& a) {
                     const ZarrStore* store = zarr_store(a);
                     return store && store->transacting();
                   })
      .def_prop_ro("updates",
                   [](const Array& a) {
                     const ZarrStore* store = zarr_store(a);
                     return store ? store->updates() : 0;
                   })
      .def_prop_ro("in_place",
                   [](const Array& a) {
                     const ZarrStore* store = zarr_store(a);
                     return store && store->in_place();
                   })
      .def(
          "look", [](const Array& a) { return a.store().look(); }, unlocked())
      .def(
          "flush", [](const Array& a) { a.store().flush(); }, unlocked())
      .def(
          "checkpoint", [](const Array& a) { a.store().checkpoint(); }, unlocked())
      .def(
          "reserve", [](const Array& a) { return a.store().reserve(); }, unlocked())
      .def(
          "adopt", [](const Array& a) { a.store().adopt(); }, unlocked())
      .def(
          "stored",
          [](const Array& a, const Shape& start, const Shape& shape) {
            return a.store().stored({start, shape});
          },
          unlocked());

  using Field = std::tuple<std::string, Shape, std::string, Shape>;
  m.def(
      "create_epochs",
      [](const std::string& path, const std::vector<Field>& given, int slots, const std::string& checksum,
         bool replace) {
        std::vector<EpochField> fields;
        for (const auto& [name, shape, dtype, chunks] : given)
          fields.push_back({name, shape, dtype_from_name(dtype), {.chunks = chunks, .checksum = checksum}});
        Epochs::create(path, fields, slots, replace);
      },
      unlocked());
  nb::class_<Epochs>(m, "Epochs")
      .def_prop_ro_static("most_slots", [](nb::handle) { return Epochs::most_slots; })
      .def(nb::init<const std::string&, bool>(), unlocked())
      .def_prop_ro("epoch", &Epochs::epoch)
      .def_prop_ro("slots", &Epochs::slots)
      .def_prop_ro("fields", &Epochs::fields)
      .def_prop_ro("values", &Epochs::values)
      .def("refresh", &Epochs::refresh, unlocked())
      .def("current", &Epochs::current, unlocked())
      .def("next", &Epochs::next, unlocked())
      .def("commit", &Epochs::commit, unlocked());

  nb::class_<Transaction>(m, "Transaction")
      .def(nb::init<>())
      .def("add", &Transaction::add, unlocked())
      .def("commit", &Transaction::commit, unlocked())
      .def("rollback", &Transaction::rollback, unlocked());

  nb::class_<WriterLock>(m, "WriterLock")
      .def(
          "__init__",
          [](WriterLock* self, const std::string& directory) { new (self) WriterLock(Directory(directory)); },
          unlocked());

  m.def("open_zarr", &open_zarr_array, nb::arg("directory"), nb::arg("writable") = false, nb::arg("verify") = false,
        unlocked());
  m.def("create_zarr", &create_zarr, nb::arg("directory"), nb::arg("shape"), nb::arg("dtype"),
        nb::arg("chunks") = Shape{}, nb::arg("codec") = "raw", nb::arg("attributes") = "",
        nb::arg("dimension_names") = std::vector<std::string>{}, nb::arg("checksum") = "sidecar",
        nb::arg("order") = "C", nb::arg("fill") = nb::bytes("", 0));
  m.def("set_attributes", &set_attributes, nb::arg("directory"), nb::arg("attributes"), nb::arg("dimension_names"),
        unlocked());
  m.def("open_chunk_table", &chunk_table, nb::arg("file"), nb::arg("name"), nb::arg("shape"), nb::arg("chunks"),
        nb::arg("dtype"), nb::arg("big_endian"), nb::arg("steps"), nb::arg("fill"), nb::arg("places"));
  m.def(
      "crc32",
      [](const nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>& bytes,
         std::uint32_t before) {
        nb::gil_scoped_release unlocked;
        return crc32(bytes.data(), bytes.shape(0), before);
      },
      nb::arg("bytes"), nb::arg("before") = 0);
  m.def("missing_library", [](const std::string& codec) {
    const char* library = missing_library(codec_named(codec));
    return std::string(library ? library : "");
  });
  m.def("packed_bytes",  // of one chunk
        [](const std::string& codec, const nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>& values) {
          const CodecChain chain = codec_from_text(codec);
          const std::size_t bytes = values.nbytes();
          nb::gil_scoped_release unlocked;
          const Buffer packed(most_encoded(chain, bytes) + page_bytes);
          const Buffer scratch(encode_scratch_bytes(chain, bytes) + page_bytes);
          return encode_chunk(chain, {static_cast<const std::byte*>(values.data()), bytes}, values.itemsize(),
                              {packed.data(), packed.size()}, scratch.data());
        });
  m.def("check_codec", [](const std::string& text) { return to_text(codec_from_text(text)); });
  m.def("open_npy", &open_npy, nb::arg("path"), nb::arg("writable") = false, unlocked());
  m.def(
      "create_npy",
      [](const std::string& path, const Shape& shape, const std::string& dtype) {
        return create_npy(path, shape, dtype_from_name(dtype));
      },
      unlocked());
  m.def("open_raw", &open_flat, nb::arg("path"), nb::arg("dtype"), nb::arg("shape"), nb::arg("order") = "C",
        nb::arg("offset") = 0, nb::arg("leading") = 0, nb::arg("writable") = false, nb::arg("big_endian") = false,
        unlocked());
  m.def("memory_array", [](nb::object numpy_array) {
    const Tile tile = tile_of(nb::cast<nb::ndarray<nb::ro>>(numpy_array));
    return memory_array(tile.data, tile.shape, tile.dtype, tile.strides, keep_alive(std::move(numpy_array)));
  });
  m.def(
      "planned_array",
      [](const Shape& shape, const std::string& dtype, const Shape& chunks, const std::string& codec,
         const std::string& order) {
        return planned_array(shape, dtype_from_name(dtype), chunks, codec, order == "F");
      },
      nb::arg("shape"), nb::arg("dtype"), nb::arg("chunks"), nb::arg("codec") = "raw", nb::arg("order") = "C");
  m.def("dropping_array", [](const Shape& shape, const std::string& dtype, const Shape& chunks) {
    return dropping_array(shape, dtype_from_name(dtype), chunks);
  });
  m.def("default_chunks",
        [](const Shape& shape, const std::string& dtype) { return default_chunks(shape, dtype_from_name(dtype)); });

  m.def("is_zarr_group", &is_zarr_group);
  m.def("is_zarr_array", &is_zarr_array);
  m.def("longest_metadata", [](const std::string& directory, int levels) {
    const LongMetadata found = longest_metadata(directory, levels);
    return std::make_tuple(found.file, found.text, found.parsed);
  });
  m.def("open_group", [](const std::string& directory) {
    const GroupInfo group = open_group(directory);
    return std::make_tuple(group.attributes, group.arrays, group.groups);
  });
  m.def("write_group", &write_group);
  m.def("mark_dirty", &mark_dirty, unlocked());
  m.def("is_dirty", &is_dirty);

  nb::class_<Damage>(m, "Damage")
      .def_ro("file", &Damage::file)
      .def_ro("chunk", &Damage::chunk)
      .def_ro("what", &Damage::what);
  nb::class_<CheckReport>(m, "CheckReport")
      .def_ro("chunks", &CheckReport::chunks)
      .def_ro("stored", &CheckReport::stored)
      .def_ro("verified", &CheckReport::verified)
      .def_ro("bytes", &CheckReport::bytes)
      .def_ro("damages", &CheckReport::damages)
      .def_ro("notes", &CheckReport::notes);
  nb::class_<RepairReport>(m, "RepairReport")
      .def_ro("repaired", &RepairReport::repaired)
      .def_ro("lost", &RepairReport::lost);
  m.def("repair", &repair_array, nb::arg("directory"), nb::arg("accept") = false, unlocked());

  nb::class_<PackReport>(m, "PackReport")
      .def_ro("chunks", &PackReport::chunks)
      .def_ro("stored", &PackReport::stored)
      .def_ro("bytes_read", &PackReport::bytes_read)
      .def_ro("bytes_written", &PackReport::bytes_written);

  nb::class_<PackPlan>(m, "PackPlan")
      .def_ro("moved", &PackPlan::moved)
      .def_ro("again", &PackPlan::again)
      .def_ro("codec", &PackPlan::codec)
      .def_ro("unpacked", &PackPlan::unpacked)
      .def_ro("memory", &PackPlan::memory);
  m.def(
      "plan_pack",
      [](const std::string& source, const std::string& codec, bool checksum) {
        return plan_pack(source, {.codec = codec, .checksum = checksum});
      },
      unlocked());

  nb::class_<Output>(m, "Output")
      .def(nb::init<const std::string&, bool, std::uint64_t, const std::string&>(), nb::arg("path"), nb::arg("replace"),
           nb::arg("bytes_needed") = 0, nb::arg("record") = "", unlocked())
      .def_prop_ro("directory", &Output::directory)
      .def_prop_ro("adopted", &Output::adopted)
      .def_prop_ro("notes", &Output::notes)
      .def("leave", &Output::leave)
      .def("remove_replaced", &Output::remove_replaced, unlocked())
      .def("publish", &Output::publish, unlocked());
}

}  // namespace flagstone::python
