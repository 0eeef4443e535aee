// What the card, its libraries and its link do by themselves: what figures of devices are held to. Everything is on the
// card, in one call of the vendor's library each. One line of JSON.
//   floors [--link BYTES] [--gemm32 N] [--gemm64 N] [--potrf N] [--geqrf M N] [--spmm MILLIONS]
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cusolverDn.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>
#ifdef FLAGSTONE_CUSPARSE
#include <cusparse.h>
#endif

namespace {

void ok(int status, const char* what) {
  if (status != 0) throw std::runtime_error(std::string(what) + " answers " + std::to_string(status));
}

/// The median of three, after one to warm up, by events around the work; where one takes seconds, one more.
double seconds(cudaStream_t stream, const std::function<void()>& prepare, const std::function<void()>& work) {
  cudaEvent_t begin{}, end{};
  ok(cudaEventCreate(&begin), "event"), ok(cudaEventCreate(&end), "event");
  std::vector<double> times;
  for (int i = 0; i < 4; ++i) {
    prepare();
    ok(cudaStreamSynchronize(stream), "prepare");
    ok(cudaEventRecord(begin, stream), "event");
    work();
    ok(cudaEventRecord(end, stream), "event");
    ok(cudaEventSynchronize(end), "work");
    float ms = 0;
    ok(cudaEventElapsedTime(&ms, begin, end), "event");
    if (i > 0) times.push_back(ms / 1e3);
    if (i > 0 && ms > 1e3) break;
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

/// Fresh random numbers: a block from the host, over and over.
template <class T>
T* random_memory(std::int64_t count) {
  void* data = nullptr;
  ok(cudaMalloc(&data, static_cast<std::size_t>(count) * sizeof(T)), "malloc");
  std::vector<T> block(static_cast<std::size_t>(std::min<std::int64_t>(count, (1 << 22) + 7)));
  std::mt19937_64 random(std::random_device{}());
  std::uniform_real_distribution<double> uniform(-1, 1);
  for (T& x : block) x = static_cast<T>(uniform(random));
  for (std::int64_t at = 0; at < count; at += static_cast<std::int64_t>(block.size()))
    ok(cudaMemcpy(static_cast<T*>(data) + at, block.data(),
                  std::min<std::size_t>(block.size(), static_cast<std::size_t>(count - at)) * sizeof(T),
                  cudaMemcpyHostToDevice),
       "fill");
  return static_cast<T*>(data);
}

void link(std::int64_t bytes) {
  void *host[2]{}, *device[2]{};
  cudaStream_t in{}, out{};
  ok(cudaStreamCreateWithFlags(&in, cudaStreamNonBlocking), "stream");
  ok(cudaStreamCreateWithFlags(&out, cudaStreamNonBlocking), "stream");
  for (int i = 0; i < 2; ++i) {
    ok(cudaHostAlloc(&host[i], static_cast<std::size_t>(bytes), 0), "host memory");
    ok(cudaMalloc(&device[i], static_cast<std::size_t>(bytes)), "malloc");
    std::fill_n(static_cast<char*>(host[i]), bytes, static_cast<char>(i + 1));
  }
  const auto n = static_cast<std::size_t>(bytes);
  const auto copy_in = [&] { ok(cudaMemcpyAsync(device[0], host[0], n, cudaMemcpyHostToDevice, in), "copy"); };
  const auto copy_out = [&] { ok(cudaMemcpyAsync(host[1], device[1], n, cudaMemcpyDeviceToHost, out), "copy"); };
  const double one = seconds(
                   in, [] {}, copy_in),
               other = seconds(
                   out, [] {}, copy_out);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 4; ++i) copy_in(), copy_out();
  ok(cudaStreamSynchronize(in), "copy"), ok(cudaStreamSynchronize(out), "copy");
  const double both = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / 4;
  const double size = static_cast<double>(bytes);
  std::printf(", \"link_in\": %.4g, \"link_out\": %.4g, \"link_each_of_both\": %.4g", size / one, size / other,
              size / both);
  std::vector<char> ordinary(n, 1);  // not locked in place
  const auto since = [](auto start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  auto start = std::chrono::steady_clock::now();
  ok(cudaMemcpyAsync(device[0], ordinary.data(), n, cudaMemcpyHostToDevice, in), "copy");
  ok(cudaStreamSynchronize(in), "copy");
  std::printf(", \"ordinary_in\": %.4g", size / since(start));
  start = std::chrono::steady_clock::now();
  ok(cudaMemcpyAsync(ordinary.data(), device[1], n, cudaMemcpyDeviceToHost, out), "copy");
  ok(cudaStreamSynchronize(out), "copy");
  std::printf(", \"ordinary_out\": %.4g", size / since(start));
  start = std::chrono::steady_clock::now();
  ok(cudaHostRegister(ordinary.data(), n, 0), "locking");
  std::printf(", \"locking\": %.4g", size / since(start));
  start = std::chrono::steady_clock::now();
  ok(cudaHostUnregister(ordinary.data()), "unlocking");
  std::printf(", \"unlocking\": %.4g", size / since(start));
  for (int i = 0; i < 2; ++i) ok(cudaFreeHost(host[i]), "free"), ok(cudaFree(device[i]), "free");
}

struct Libraries {
  cudaStream_t stream{};
  cublasHandle_t blas{};
  cusolverDnHandle_t solver{};
  cusolverDnParams_t params{};
  Libraries() {
    ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
    ok(cublasCreate(&blas), "cublas"), ok(cublasSetStream(blas, stream), "cublas");
    ok(cusolverDnCreate(&solver), "cusolver"), ok(cusolverDnSetStream(solver, stream), "cusolver");
    ok(cusolverDnCreateParams(&params), "cusolver");
  }
};

void gemm32(Libraries& with, std::int64_t n) {
  float *a = random_memory<float>(n * n), *b = random_memory<float>(n * n), *c = random_memory<float>(n * n);
  const float one = 1, zero = 0;
  const double time = seconds(
      with.stream, [] {},
      [&] { ok(cublasSgemm_64(with.blas, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, a, n, b, n, &zero, c, n), "gemm"); });
  std::printf(", \"gemm32\": {\"n\": %lld, \"seconds\": %.5g, \"flops\": %.4g}", static_cast<long long>(n), time,
              2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n) / time);
  ok(cudaFree(a), "free"), ok(cudaFree(b), "free"), ok(cudaFree(c), "free");
}

void gemm64(Libraries& with, std::int64_t n) {
  double *a = random_memory<double>(n * n), *b = random_memory<double>(n * n), *c = random_memory<double>(n * n);
  const double one = 1, zero = 0;
  const double time = seconds(
      with.stream, [] {},
      [&] { ok(cublasDgemm_64(with.blas, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, a, n, b, n, &zero, c, n), "gemm"); });
  std::printf(", \"gemm64\": {\"n\": %lld, \"seconds\": %.5g, \"flops\": %.4g}", static_cast<long long>(n), time,
              2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n) / time);
  ok(cudaFree(a), "free"), ok(cudaFree(b), "free"), ok(cudaFree(c), "free");
}

/// What cuSOLVER asks for beside a matrix.
struct Workspace {
  Workspace(std::size_t device, std::size_t host) : on_host(host + 1) {
    ok(cudaMalloc(&on_device, device + 1), "malloc"),
        ok(cudaMalloc(reinterpret_cast<void**>(&info), sizeof(int)), "malloc");
  }
  ~Workspace() { (void)cudaFree(on_device), (void)cudaFree(info); }
  Workspace(const Workspace&) = delete;

  void* on_device = nullptr;
  int* info = nullptr;
  std::vector<char> on_host;
};

/// Seconds of a factorization in place of `given`, which is copied to `a` before each time.
template <class Factor>
double seconds_of_factor(const Libraries& with, const double* given, double* a, std::int64_t elements, Factor factor) {
  const auto bytes = static_cast<std::size_t>(elements) * sizeof(double);
  return seconds(
      with.stream, [&] { ok(cudaMemcpyAsync(a, given, bytes, cudaMemcpyDeviceToDevice, with.stream), "copy"); },
      factor);
}

void potrf(Libraries& with, std::int64_t n) {
  double *given = random_memory<double>(n * n), *a = random_memory<double>(n * n);
  const std::vector<double> diagonal(static_cast<std::size_t>(n), 2.0 * static_cast<double>(n));
  ok(cudaMemcpy2D(given, static_cast<std::size_t>(n + 1) * sizeof(double), diagonal.data(), sizeof(double),
                  sizeof(double), static_cast<std::size_t>(n), cudaMemcpyHostToDevice),
     "diagonal");
  std::size_t device = 0, host = 0;
  ok(cusolverDnXpotrf_bufferSize(with.solver, with.params, CUBLAS_FILL_MODE_LOWER, n, CUDA_R_64F, a, n, CUDA_R_64F,
                                 &device, &host),
     "potrf");
  Workspace work(device, host);
  const double time = seconds_of_factor(with, given, a, n * n, [&] {
    ok(cusolverDnXpotrf(with.solver, with.params, CUBLAS_FILL_MODE_LOWER, n, CUDA_R_64F, a, n, CUDA_R_64F,
                        work.on_device, device, work.on_host.data(), host, work.info),
       "potrf");
  });
  int found = -1;
  ok(cudaMemcpy(&found, work.info, sizeof found, cudaMemcpyDeviceToHost), "info"), ok(found, "potrf's info");
  std::printf(", \"potrf64\": {\"n\": %lld, \"seconds\": %.5g, \"flops\": %.4g}", static_cast<long long>(n), time,
              static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n) / 3 / time);
  ok(cudaFree(given), "free"), ok(cudaFree(a), "free");
}

void geqrf(Libraries& with, std::int64_t m, std::int64_t n) {
  double *given = random_memory<double>(m * n), *a = random_memory<double>(m * n), *tau = random_memory<double>(n);
  std::size_t device = 0, host = 0;
  ok(cusolverDnXgeqrf_bufferSize(with.solver, with.params, m, n, CUDA_R_64F, a, m, CUDA_R_64F, tau, CUDA_R_64F, &device,
                                 &host),
     "geqrf");
  Workspace work(device, host);
  const double time = seconds_of_factor(with, given, a, m * n, [&] {
    ok(cusolverDnXgeqrf(with.solver, with.params, m, n, CUDA_R_64F, a, m, CUDA_R_64F, tau, CUDA_R_64F, work.on_device,
                        device, work.on_host.data(), host, work.info),
       "geqrf");
  });
  std::printf(", \"geqrf64\": {\"m\": %lld, \"n\": %lld, \"seconds\": %.5g}", static_cast<long long>(m),
              static_cast<long long>(n), time);
  ok(cudaFree(given), "free"), ok(cudaFree(a), "free"), ok(cudaFree(tau), "free");
}

#ifdef FLAGSTONE_CUSPARSE
/// CSR of float32 values in rows of 200 over 50,000 columns times 64 columns, by rows.
void spmm(const Libraries& with, std::int64_t millions) {
  constexpr std::int64_t n = 50'000, width = 64, in_row = 200;
  const std::int64_t m = millions * 1'000'000 / in_row, nnz = m * in_row;
  float *values = random_memory<float>(nnz), *x = random_memory<float>(n * width), *y = random_memory<float>(m * width);
  std::vector<std::int32_t> block(1 << 22), ends(static_cast<std::size_t>(m + 1));
  std::mt19937_64 random(std::random_device{}());
  for (std::int32_t& column : block) column = static_cast<std::int32_t>(random() % n);
  for (std::int64_t i = 0; i <= m; ++i) ends[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(i * in_row);
  std::int32_t *columns = nullptr, *pointers = nullptr;
  ok(cudaMalloc(reinterpret_cast<void**>(&columns), static_cast<std::size_t>(nnz) * 4), "malloc");
  ok(cudaMalloc(reinterpret_cast<void**>(&pointers), ends.size() * 4), "malloc");
  ok(cudaMemcpy(pointers, ends.data(), ends.size() * 4, cudaMemcpyHostToDevice), "fill");
  for (std::int64_t at = 0; at < nnz; at += static_cast<std::int64_t>(block.size()))
    ok(cudaMemcpy(columns + at, block.data(), 4 * std::min(block.size(), static_cast<std::size_t>(nnz - at)),
                  cudaMemcpyHostToDevice),
       "fill");
  cusparseHandle_t sparse{};
  cusparseSpMatDescr_t a{};
  cusparseDnMatDescr_t b{}, c{};
  ok(cusparseCreate(&sparse), "cusparse"), ok(cusparseSetStream(sparse, with.stream), "cusparse");
  ok(cusparseCreateCsr(&a, m, n, nnz, pointers, columns, values, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I,
                       CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F),
     "cusparse");
  ok(cusparseCreateDnMat(&b, n, width, width, x, CUDA_R_32F, CUSPARSE_ORDER_ROW), "cusparse");
  ok(cusparseCreateDnMat(&c, m, width, width, y, CUDA_R_32F, CUSPARSE_ORDER_ROW), "cusparse");
  const float one = 1, zero = 0;
  constexpr auto plain = CUSPARSE_OPERATION_NON_TRANSPOSE;
  for (const cusparseSpMMAlg_t algorithm : {CUSPARSE_SPMM_ALG_DEFAULT, CUSPARSE_SPMM_CSR_ALG2}) {
    std::size_t bytes = 0;
    ok(cusparseSpMM_bufferSize(sparse, plain, plain, &one, a, b, &zero, c, CUDA_R_32F, algorithm, &bytes), "spmm");
    void* memory = nullptr;
    ok(cudaMalloc(&memory, bytes + 1), "malloc");
    const double time = seconds(
        with.stream, [] {},
        [&] { ok(cusparseSpMM(sparse, plain, plain, &one, a, b, &zero, c, CUDA_R_32F, algorithm, memory), "spmm"); });
    std::printf(", \"spmm_%s\": {\"values\": %lld, \"seconds\": %.5g, \"flops\": %.4g}",
                algorithm == CUSPARSE_SPMM_ALG_DEFAULT ? "default" : "alg2", static_cast<long long>(nnz), time,
                2.0 * static_cast<double>(nnz) * static_cast<double>(width) / time);
    ok(cudaFree(memory), "free");
  }
  ok(cudaFree(values), "free"), ok(cudaFree(x), "free"), ok(cudaFree(y), "free");
  ok(cudaFree(columns), "free"), ok(cudaFree(pointers), "free");
}
#else
void spmm(const Libraries&, std::int64_t) { throw std::runtime_error("compiled without cuSPARSE"); }
#endif

}  // namespace

int main(int argc, char** argv) {
  try {
    cudaDeviceProp card{};
    ok(cudaGetDeviceProperties(&card, 0), "device");
    std::printf("{\"card\": \"%s\", \"memory\": %zu", card.name, card.totalGlobalMem);
    Libraries with;
    for (int i = 1; i + 1 < argc; i += 2) {
      const std::string option = argv[i];
      const std::int64_t n = std::atoll(argv[i + 1]);
      if (option == "--link") link(n);
      if (option == "--gemm32") gemm32(with, n);
      if (option == "--gemm64") gemm64(with, n);
      if (option == "--potrf") potrf(with, n);
      if (option == "--spmm") spmm(with, n);
      if (option == "--geqrf" && i + 2 < argc) geqrf(with, n, std::atoll(argv[i + 2])), ++i;
      std::fflush(stdout);
    }
    std::printf("}\n");
  } catch (const std::exception& error) {
    std::printf("}\n");
    std::fprintf(stderr, "floors: %s\n", error.what());
    return 1;
  }
}
