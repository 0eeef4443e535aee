// Stands between a program and the C library (LD_PRELOAD): nothing is synced. For processes whose worst end is a kill,
// which takes nothing from what the kernel has; what a disk without power keeps is asked in tests/durability/harness.
extern "C" {
int fdatasync(int /*file*/) { return 0; }
int fsync(int /*file*/) { return 0; }
}
