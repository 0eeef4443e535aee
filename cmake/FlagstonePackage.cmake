# The C++ package: all rooms in one library, the headers, and what find_package(flagstone) reads.
#   cmake --install BUILD --prefix PREFIX --component cpp
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

get_property(rooms GLOBAL PROPERTY FLAGSTONE_ROOMS)
set(objects "")
foreach(room IN LISTS rooms)
  list(APPEND objects $<TARGET_OBJECTS:${room}>)
endforeach()
if(BUILD_SHARED_LIBS)
  add_library(flagstone SHARED ${objects})
else()
  add_library(flagstone STATIC ${objects})
endif()
add_library(flagstone::flagstone ALIAS flagstone)
set_target_properties(flagstone PROPERTIES LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION}
  INSTALL_RPATH_USE_LINK_PATH ON)
target_compile_features(flagstone PUBLIC cxx_std_20)
target_include_directories(flagstone PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>
                                            $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(flagstone PUBLIC Threads::Threads $<BUILD_INTERFACE:flagstone_options>
                                PRIVATE $<BUILD_INTERFACE:${rooms}>)  # for what they link to
# A static library's user links what it needs; a shared one has it already. Looked for by these names there.
set(FLAGSTONE_NEEDS blosc)
set(FLAGSTONE_NEEDS_DIRS ${FLAGSTONE_BLOSC_DIR} ${LIBURING_LIBRARY_DIRS} ${LZ4_LIBRARY_DIRS} ${ZSTD_LIBRARY_DIRS})
foreach(need LIBURING=uring LZ4=lz4 ZLIB=z BZIP2=bz2 ZSTD=zstd)
  string(REPLACE "=" ";" need ${need})
  list(GET need 0 package)
  list(GET need 1 name)
  if(${package}_FOUND)
    list(APPEND FLAGSTONE_NEEDS ${name})
  endif()
endforeach()
if(NOT BUILD_SHARED_LIBS)
  target_link_libraries(flagstone INTERFACE $<INSTALL_INTERFACE:flagstone::dependencies>)
endif()

install(TARGETS flagstone EXPORT flagstone COMPONENT cpp)
get_property(headers GLOBAL PROPERTY FLAGSTONE_PUBLIC_HEADERS)
foreach(header IN LISTS headers ITEMS flagstone/flagstone.hpp)
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${PROJECT_SOURCE_DIR}/src/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder} COMPONENT cpp)
endforeach()
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/flagstone)
install(EXPORT flagstone NAMESPACE flagstone:: FILE flagstone-targets.cmake DESTINATION ${package_dir} COMPONENT cpp)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/flagstone-config.cmake.in
  ${CMAKE_CURRENT_BINARY_DIR}/flagstone-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/flagstone-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/flagstone-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/flagstone-config-version.cmake
  DESTINATION ${package_dir} COMPONENT cpp)
