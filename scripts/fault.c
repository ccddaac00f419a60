// Makes a write to a regular file go wrong: loaded into the program by LD_PRELOAD.
//
// FAULT_KIND   enospc: from the chosen write on, every write fails, as on a full disk
//              eio:    the chosen write fails
//              short:  the chosen write takes only half of its bytes
//              count:  none; FAULT_COUNT names a file that gets the number of writes at the end
// FAULT_AT     which write, counted from 1
// FAULT_UNDER  only files below this folder
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_long writes;

static int is_ours(int file) {
    struct stat about;
    const char *under = getenv("FAULT_UNDER");
    char link[64], path[PATH_MAX];
    if (!under || fstat(file, &about) || !S_ISREG(about.st_mode)) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return !strncmp(path, under, strlen(under));
}

// How many bytes to write; -1 for a failure, with errno set.
static ssize_t allowed(int file, size_t bytes) {
    int before = errno;
    const char *kind = getenv("FAULT_KIND"), *at = getenv("FAULT_AT");
    if (!kind || !at || !is_ours(file)) return errno = before, (ssize_t)bytes;
    long chosen = atol(at), number = atomic_fetch_add(&writes, 1) + 1;
    errno = before;
    if (!strcmp(kind, "enospc") && number >= chosen) return errno = ENOSPC, -1;
    if (number != chosen || !strcmp(kind, "count")) return bytes;
    if (!strcmp(kind, "eio")) return errno = EIO, -1;
    return bytes > 1 ? bytes / 2 : bytes;
}

__attribute__((destructor)) static void tell(void) {
    const char *path = getenv("FAULT_COUNT");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file) return;
    fprintf(file, "%ld", atomic_load(&writes));
    fclose(file);
}

#define REAL(name) static __typeof__(&name) real; if (!real) real = dlsym(RTLD_NEXT, #name)

ssize_t write(int file, const void *data, size_t bytes) {
    REAL(write);
    ssize_t some = allowed(file, bytes);
    return some < 0 ? some : real(file, data, some);
}

ssize_t pwrite(int file, const void *data, size_t bytes, off_t at) {
    REAL(pwrite);
    ssize_t some = allowed(file, bytes);
    return some < 0 ? some : real(file, data, some, at);
}

ssize_t pwrite64(int file, const void *data, size_t bytes, off64_t at) {
    REAL(pwrite64);
    ssize_t some = allowed(file, bytes);
    return some < 0 ? some : real(file, data, some, at);
}

ssize_t writev(int file, const struct iovec *parts, int number) {
    REAL(writev);
    if (number < 1) return real(file, parts, number);
    ssize_t some = allowed(file, parts[0].iov_len);
    if (some < 0) return some;
    if ((size_t)some == parts[0].iov_len) return real(file, parts, number);
    struct iovec half = {parts[0].iov_base, some};
    return real(file, &half, 1);
}
