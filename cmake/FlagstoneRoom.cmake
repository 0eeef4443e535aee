# One folder = one room = one target. Sources and unit tests sit side by side: x.hpp, x.cpp, x_test.cpp.
add_library(flagstone_options INTERFACE)
target_compile_options(flagstone_options INTERFACE -Wall -Wextra -Wno-missing-field-initializers)
if(FLAGSTONE_WERROR)
  target_compile_options(flagstone_options INTERFACE -Werror)
endif()
if(FLAGSTONE_SANITIZE)
  set(sanitizers ${FLAGSTONE_SANITIZE})
  if(FLAGSTONE_SANITIZE STREQUAL "address")
    set(sanitizers address,undefined)
  endif()
  target_compile_options(flagstone_options INTERFACE -fsanitize=${sanitizers} -fno-omit-frame-pointer)
  target_link_options(flagstone_options INTERFACE -fsanitize=${sanitizers})
endif()

# Loops that are compiled once per instruction set (x_avx2.cpp, x_avx512.cpp). Under a sanitizer the baseline alone: the
# same source, whose wide variants cost a minute of compiling.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64" AND NOT FLAGSTONE_SANITIZE)
  set(FLAGSTONE_WIDE_KERNELS ON)
endif()

# A precompiled header for the rooms, a third of their compiling: under a sanitizer, and where no cache of objects is in
# front of the compiler. With one they must be found by other build folders, whose header is another file; and there each
# source must compile with what it includes.
if(FLAGSTONE_SANITIZE OR NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(FLAGSTONE_PRECOMPILED ON)
endif()
if(FLAGSTONE_PRECOMPILED)
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/precompiled.cpp "")
  add_library(flagstone_precompiled OBJECT ${CMAKE_CURRENT_BINARY_DIR}/precompiled.cpp)
  target_link_libraries(flagstone_precompiled PRIVATE flagstone_options Threads::Threads)
  target_precompile_headers(flagstone_precompiled PRIVATE
    <algorithm> <array> <atomic> <chrono> <complex> <condition_variable> <deque> <filesystem> <fstream> <functional> <map>
    <memory> <mutex> <numeric> <optional> <set> <span> <string> <thread> <unordered_map> <vector>)
endif()

# What unit tests are compiled with: -Og, since they are compiled more often than they run (gemm_test.cpp: 9 s with -O3,
# 2.7 so), and one precompiled header, a third of what remains. The library beneath them is the one that is installed.
if(FLAGSTONE_TESTS)
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/unit_test.cpp "")
  add_library(flagstone_unit_test OBJECT ${CMAKE_CURRENT_BINARY_DIR}/unit_test.cpp)
  set(FLAGSTONE_UNIT_TEST_OPTIONS -Og -fpch-preprocess)  # the latter for ccache, which hashes the header then
  target_compile_options(flagstone_unit_test PRIVATE ${FLAGSTONE_UNIT_TEST_OPTIONS} -fPIE)  # as executables are
  set_target_properties(flagstone_unit_test PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_link_libraries(flagstone_unit_test PRIVATE flagstone_options GTest::gtest GTest::gmock)
  target_precompile_headers(flagstone_unit_test PRIVATE
    <gmock/gmock.h> <gtest/gtest.h> <algorithm> <atomic> <complex> <deque> <filesystem> <fstream> <functional> <map>
    <memory> <mutex> <optional> <random> <set> <span> <string> <thread> <vector>)
endif()

# flagstone_room(NAME USES rooms that it sees PUBLIC headers that programs may include). LOADED: a library of its own,
# opened at run time, and no part of the core. NAME is the folder's path with
# _ for /; tools/layers.toml lists the same USES, and tools/check_layers.py compares. Unit tests may see every room: they
# are linked to the whole library.
function(flagstone_room name)
  cmake_parse_arguments(ROOM "LOADED" "" "USES;PUBLIC" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cpp$")
  if(NOT FLAGSTONE_WIDE_KERNELS)
    list(FILTER sources EXCLUDE REGEX "_avx[0-9]+\\.cpp$")
  endif()
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
  if(NOT sources)  # a room that has only headers
    file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/empty.cpp "")
    set(sources ${CMAKE_CURRENT_BINARY_DIR}/empty.cpp)
  endif()
  if(ROOM_LOADED)
    add_library(flagstone_${name} MODULE ${sources})
  else()
    add_library(flagstone_${name} STATIC ${sources})
    set_property(GLOBAL APPEND PROPERTY FLAGSTONE_ROOMS flagstone_${name})
  endif()
  list(TRANSFORM ROOM_USES PREPEND flagstone_)
  target_include_directories(flagstone_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(flagstone_${name} PUBLIC flagstone_options Threads::Threads ${ROOM_USES})
  if(FLAGSTONE_SANITIZE AND name MATCHES "^kernel_")
    target_compile_options(flagstone_${name} PRIVATE -O1)  # what computes
  endif()
  if(FLAGSTONE_PRECOMPILED AND NOT name MATCHES "^kernel_")  # these have flags of their own
    target_precompile_headers(flagstone_${name} REUSE_FROM flagstone_precompiled)
  endif()
  foreach(header IN LISTS ROOM_PUBLIC)
    file(RELATIVE_PATH path ${PROJECT_SOURCE_DIR}/src ${CMAKE_CURRENT_SOURCE_DIR}/${header})
    set_property(GLOBAL APPEND PROPERTY FLAGSTONE_PUBLIC_HEADERS ${path})
  endforeach()
  if(FLAGSTONE_TESTS AND tests)
    add_executable(${name}_test ${tests})
    # First what gtest needs of std, or a room's copy of std::string brings that room and its kernels into every test.
    target_link_libraries(${name}_test PRIVATE stdc++ flagstone GTest::gtest GTest::gmock GTest::gtest_main)
    target_compile_options(${name}_test PRIVATE ${FLAGSTONE_UNIT_TEST_OPTIONS})
    target_precompile_headers(${name}_test REUSE_FROM flagstone_unit_test)
    gtest_discover_tests(${name}_test TEST_PREFIX ${name}. DISCOVERY_TIMEOUT 60)
  endif()
endfunction()
