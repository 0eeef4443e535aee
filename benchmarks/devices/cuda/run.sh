#!/bin/bash
# bash run.sh [OPTIONS of device_figures], in the bundle's folder, on a machine with a card: kernels against float64, a lost
# device, floors of this card, routines end to end, rates of tiles. Every step has a limit of its own, and says at once what
# it found; `bash run.sh short` is what three minutes hold, in the order of what is not known yet. Lines of JSON in results/.
cd "$(dirname "$0")" && mkdir -p results
for d in "${CUDA_HOME:-/usr/local/cuda}/lib64" /usr/local/cuda/lib64; do
  [ -d "$d" ] && libraries=$d && break
done
export LD_LIBRARY_PATH=$PWD:$libraries:$LD_LIBRARY_PATH
chmod +x device_* algorithms_kernels_test
failed=0 last=100000
step() {  # SECONDS NAME COMMAND...
  local limit=$(($1 < last - SECONDS ? $1 : last - SECONDS)) name=$2 began=$SECONDS
  shift 2
  [ $limit -ge 5 ] || { echo "== $name: no time left"; return; }
  echo "== $name"
  timeout "$limit" "$@" > "results/$name.json" || { echo "$name: ended with $?"; failed=1; }
  cut -c1-1500 "results/$name.json"
  echo "== $name: $((SECONDS - began)) s"
}
figures() { step "$1" "$2" ./device_figures --scratch "$PWD/results" "${@:3}"; }
tests() { step 60 "$1" ./algorithms_kernels_test --gtest_brief=1 "${@:2}"; }

if [ "$1" = short ]; then
  last=175
  tests kernels --gtest_filter='Devices/*cuda*'
  figures 40 qr --memory 2 --qr 65536 8192
  step 20 floor_qr ./device_floors --geqrf 65536 8192
  step 15 rates_qr ./device_rates 512
  figures 45 disk --disk 24576
  step 25 fetch ./device_fetch --scratch "$PWD/results"
  step 20 floors ./device_floors --potrf 49152 --gemm64 40960
  figures 30 cholesky --memory 8 --cholesky 49152
  figures 40 product64 --memory 8 --product64 40960
  exit $failed
fi
if [ "$1" = sparse ]; then  # two minutes: VALUES of the matrix, in millions (2000 take 16 GB of host memory and of the card)
  last=115 millions=${2:-500}
  tests kernels_sparse --gtest_filter='Devices/DeviceSparse*cuda*'
  step 40 floors_sparse ./device_floors --link 1073741824 --spmm "$millions"
  figures 60 sparse --host 8 --sparse "$millions"
  exit $failed
fi
tests kernels --gtest_filter='Devices/*cuda*'
tests lost --gtest_filter='*ALostDevice*cuda_float32' --gtest_also_run_disabled_tests
step 120 floors ./device_floors --link 2147483648 --gemm32 49152 --gemm64 40960 --potrf 49152 --geqrf 65536 8192 --spmm 2000
step 60 rates ./device_rates 256 512 1024 2048 4096
step 60 fetch ./device_fetch --scratch "$PWD/results"
[ $# -gt 0 ] || set -- --memory 8 --product32 49152 --product64 40960 --cholesky 49152 --qr 65536 8192 --sparse 2000 --disk 24576
figures 240 figures "$@"
exit $failed
