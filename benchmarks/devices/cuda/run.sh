#!/bin/bash
# bash run.sh [OPTIONS of device_figures], in the bundle's folder, on a machine with a card: kernels against float64, a lost
# device, floors of this card, rates of tiles, routines end to end. Lines of JSON in results/, tables on the way.
cd "$(dirname "$0")" && mkdir -p results
for d in "${CUDA_HOME:-/usr/local/cuda}/lib64" /usr/local/cuda/lib64; do
  [ -d "$d" ] && libraries=$d && break
done
export LD_LIBRARY_PATH=$PWD:$libraries:$LD_LIBRARY_PATH
set -e
chmod +x device_* algorithms_kernels_test
./algorithms_kernels_test --gtest_filter='*DeviceTable*cuda*' --gtest_brief=1
./algorithms_kernels_test --gtest_filter='*ALostDevice*cuda_float32' --gtest_also_run_disabled_tests --gtest_brief=1
./device_floors --link 2147483648 --gemm32 49152 --gemm64 40960 --potrf 49152 --geqrf 65536 8192 | tee results/floors.json
./device_rates 256 512 1024 2048 4096 > results/rates.json
[ $# -gt 0 ] || set -- --memory 8 --product32 49152 --product64 40960 --cholesky 49152 --qr 65536 8192 --disk 24576
./device_figures --scratch "$PWD/results" "$@" | tee results/figures.json
