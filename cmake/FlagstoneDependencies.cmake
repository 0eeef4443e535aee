# Everything the core links to, found in one place; a missing one is named together with its Debian package.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)

function(flagstone_require header package)
  find_path(FLAGSTONE_FOUND_${package} ${header})
  if(NOT FLAGSTONE_FOUND_${package})
    message(FATAL_ERROR "flagstone: ${header} was not found; install it first (Debian, Ubuntu: apt-get install ${package}).")
  endif()
endfunction()
flagstone_require(blosc.h libblosc-dev)
flagstone_require(nlohmann/json.hpp nlohmann-json3-dev)
find_library(BLOSC_LIBRARY blosc REQUIRED)
get_filename_component(FLAGSTONE_BLOSC_DIR ${BLOSC_LIBRARY} DIRECTORY)

# lz4 chunks are decoded into memory that the plan counts; without lz4 by libblosc, in memory of its own.
pkg_check_modules(LZ4 IMPORTED_TARGET liblz4)
if(NOT LZ4_FOUND)
  message(WARNING "flagstone: liblz4 was not found: passes over packed sparse matrices may take 20 MiB a worker more than planned; install it first (Debian, Ubuntu: apt-get install liblz4-dev).")
endif()

# Codecs of foreign files. Without a library its codec is refused when a file asks for it, by name.
find_package(ZLIB)
find_package(BZip2)
pkg_check_modules(ZSTD IMPORTED_TARGET libzstd)
if(NOT ZLIB_FOUND)
  message(WARNING "flagstone: zlib was not found: chunks packed with gzip or zlib (most HDF5 and .h5ad files) will be refused; install it first (Debian, Ubuntu: apt-get install zlib1g-dev).")
endif()
if(NOT ZSTD_FOUND)
  message(WARNING "flagstone: libzstd was not found: chunks packed with zstd (the default of zarr-python) will be refused; install it first (Debian, Ubuntu: apt-get install libzstd-dev).")
endif()
if(NOT BZIP2_FOUND)
  message(WARNING "flagstone: libbz2 was not found: chunks packed with bz2 will be refused; install it first (Debian, Ubuntu: apt-get install libbz2-dev).")
endif()

# io_uring is optional at build time and at run time: without it the ring is a pool of threads.
pkg_check_modules(LIBURING IMPORTED_TARGET liburing>=2.3)

# The BLAS: the wheel's library carries the prefix scipy_ on every symbol.
add_library(flagstone_blas INTERFACE)
if(FLAGSTONE_BLAS STREQUAL "scipy-openblas32")
  find_package(Python 3.10 REQUIRED COMPONENTS Interpreter)
  execute_process(
    COMMAND ${Python_EXECUTABLE} -c
            "import scipy_openblas32 as o; print(o.get_include_dir(), o.get_lib_dir(), sep=';', end='')"
    OUTPUT_VARIABLE openblas_dirs RESULT_VARIABLE openblas_missing)
  if(openblas_missing)
    message(FATAL_ERROR "flagstone: the Python package scipy-openblas32 was not found; pip install scipy-openblas32, or choose -DFLAGSTONE_BLAS=system.")
  endif()
  list(GET openblas_dirs 0 openblas_include)
  list(GET openblas_dirs 1 openblas_lib)
  target_include_directories(flagstone_blas SYSTEM INTERFACE ${openblas_include})
  target_compile_definitions(flagstone_blas INTERFACE FLAGSTONE_BLAS_PREFIX=scipy_)
  target_link_libraries(flagstone_blas INTERFACE ${openblas_lib}/libscipy_openblas.so)
  set(FLAGSTONE_BLAS_DIR ${openblas_lib})
else()
  find_package(BLAS REQUIRED)
  find_package(LAPACK REQUIRED)
  find_library(LAPACKE_LIBRARY lapacke)
  target_link_libraries(flagstone_blas INTERFACE LAPACK::LAPACK BLAS::BLAS)
  if(LAPACKE_LIBRARY)
    target_link_libraries(flagstone_blas INTERFACE ${LAPACKE_LIBRARY})
  endif()
endif()

if(FLAGSTONE_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
  enable_testing()
endif()
