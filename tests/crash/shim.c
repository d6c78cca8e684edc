/* Preloaded into a process under test. Below the directory SHIM_DIR it
 *   - appends every call that changes a file or a name to SHIM_LOG, in the order of its effect, and
 *   - makes calls fail as the shared control page SHIM_CONTROL says.
 * A write to the file SHIM_ACK is logged as an acknowledgement and never made to fail.
 * The layouts of `event` and `control` are known to writelog.py and faults.py.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITE = 'w', TRUNCATE = 't', SYNC = 's', CREATE = 'c', UNLINK = 'u', RENAME = 'r', ACK = 'a' };
enum { NO_FAULT, NO_SPACE, IO_ERROR, INTERRUPTED, SHORT_WRITE, READ_ONLY };
enum { ON_WRITE = 1, ON_SYNC = 2, ON_TRUNCATE = 4, ON_NAME = 8, ON_READ = 16 };

struct event { uint8_t op; uint8_t pad; uint16_t path_len; uint32_t data_len; int64_t offset; };
struct control { int64_t calls, first, span; int32_t fault, mask; int64_t failed; };

static struct control none, *control = &none;
static const char *watched, *ack_path;
static size_t watched_len;
static int log_fd = -1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define REAL(type, name, ...) ((type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name))
typedef ssize_t (*write_fn)(int, const void *, size_t);
typedef ssize_t (*pwrite_fn)(int, const void *, size_t, off_t);
static write_fn real_write;
static pwrite_fn real_pwrite;
static int (*real_open)(const char *, int, ...);
static int (*real_fsync)(int), (*real_fdatasync)(int), (*real_ftruncate)(int, off_t);

__attribute__((constructor)) static void start(void) {
    real_write = (write_fn)dlsym(RTLD_NEXT, "write");
    real_pwrite = (pwrite_fn)dlsym(RTLD_NEXT, "pwrite64");
    real_open = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
    real_fsync = REAL(int, "fsync", int);
    real_fdatasync = REAL(int, "fdatasync", int);
    real_ftruncate = REAL(int, "ftruncate64", int, off_t);
    watched = getenv("SHIM_DIR");
    ack_path = getenv("SHIM_ACK");
    const char *log = getenv("SHIM_LOG"), *page = getenv("SHIM_CONTROL");
    if (!watched) return;
    watched_len = strlen(watched);
    if (log) log_fd = real_open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (page) {
        int fd = real_open(page, O_RDWR | O_CLOEXEC);
        void *at = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (fd < 0 || at == MAP_FAILED) abort();
        control = at;
        close(fd);
    }
}

static int is_watched(const char *path) {
    return watched && !strncmp(path, watched, watched_len) && (path[watched_len] == '/' || !path[watched_len]);
}

/* The path of an open file below the watched directory, or 0. A file without a name any more is of no interest. */
static int path_of(int fd, char *path) {
    char link[40];
    if (!watched) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, PATH_MAX - 1);
    if (n <= 0) return 0;
    path[n] = 0;
    if (ack_path && !strcmp(path, ack_path)) return 2;
    if (n > 10 && !strcmp(path + n - 10, " (deleted)")) return 0;
    return is_watched(path);
}

static int absolute(int dir, const char *path, char *full) {
    if (path[0] == '/') snprintf(full, PATH_MAX, "%s", path);
    else {
        char base[PATH_MAX];
        if (dir == AT_FDCWD) { if (!getcwd(base, sizeof base)) return 0; }
        else {
            char link[40];
            snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
            ssize_t n = readlink(link, base, sizeof base - 1);
            if (n <= 0) return 0;
            base[n] = 0;
        }
        snprintf(full, PATH_MAX, "%.2000s/%.2000s", base, path);
    }
    return is_watched(full);
}

static void note(int op, const char *path, int64_t offset, const void *data, size_t data_len) {
    if (log_fd < 0) return;
    struct event event = {op, 0, (uint16_t)strlen(path), (uint32_t)data_len, offset};
    struct iovec parts[3] = {{&event, sizeof event}, {(void *)path, event.path_len}, {(void *)data, data_len}};
    ssize_t (*real_writev)(int, const struct iovec *, int) = dlsym(RTLD_NEXT, "writev");
    if (real_writev(log_fd, parts, 3) != (ssize_t)(sizeof event + event.path_len + data_len)) abort();
}

/* The fault for this call, decided by its number among the calls that the mask selects. */
static int fault_now(int kind) {
    if (!(control->mask & kind)) return NO_FAULT;
    int64_t number = __sync_add_and_fetch(&control->calls, 1);
    int fault = control->fault;
    if (!fault || number < control->first || number >= control->first + control->span) return NO_FAULT;
    if ((fault == SHORT_WRITE || fault == INTERRUPTED) && kind != ON_WRITE) return NO_FAULT;
    if (fault == READ_ONLY) return NO_FAULT;
    __sync_add_and_fetch(&control->failed, 1);
    if (fault == NO_SPACE) errno = ENOSPC;
    if (fault == IO_ERROR) errno = EIO;
    if (fault == INTERRUPTED) errno = EINTR;
    return fault;
}

static ssize_t logged_write(int fd, const void *data, size_t len, off_t at) {
    char path[PATH_MAX];
    int where = path_of(fd, path);
    if (!where) return at < 0 ? real_write(fd, data, len) : real_pwrite(fd, data, len, at);
    if (where == 1) {
        int fault = fault_now(ON_WRITE);
        if (fault == SHORT_WRITE) len = len > 1 ? len / 2 : len;
        else if (fault) return -1;
    }
    pthread_mutex_lock(&lock);
    ssize_t done = at < 0 ? real_write(fd, data, len) : real_pwrite(fd, data, len, at);
    int saved = errno;
    if (done > 0) {
        int64_t offset = at < 0 ? lseek(fd, 0, SEEK_CUR) - done : at;
        note(where == 2 ? ACK : WRITE, path, offset, data, done);
    }
    pthread_mutex_unlock(&lock);
    errno = saved;
    return done;
}

ssize_t write(int fd, const void *data, size_t len) { return logged_write(fd, data, len, -1); }
ssize_t pwrite(int fd, const void *data, size_t len, off_t at) { return logged_write(fd, data, len, at); }
ssize_t pwrite64(int fd, const void *data, size_t len, off_t at) { return logged_write(fd, data, len, at); }

static ssize_t joined_write(int fd, const struct iovec *parts, int count, off_t at) {
    size_t len = 0;
    for (int i = 0; i < count; i++) len += parts[i].iov_len;
    char *joined = malloc(len ? len : 1), *to = joined;
    for (int i = 0; i < count; i++) to = mempcpy(to, parts[i].iov_base, parts[i].iov_len);
    ssize_t done = logged_write(fd, joined, len, at);
    free(joined);
    return done;
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    char path[PATH_MAX];
    if (!path_of(fd, path)) return REAL(ssize_t, "writev", int, const struct iovec *, int)(fd, parts, count);
    return joined_write(fd, parts, count, -1);
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) { return joined_write(fd, parts, count, at); }
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off_t at) { return joined_write(fd, parts, count, at); }

/* Python asks for this one; no caller here uses its flags. */
ssize_t pwritev2(int fd, const struct iovec *parts, int count, off_t at, int flags) {
    (void)flags;
    return joined_write(fd, parts, count, at);
}
ssize_t pwritev64v2(int fd, const struct iovec *parts, int count, off_t at, int flags) {
    return pwritev2(fd, parts, count, at, flags);
}

static int read_fails(int fd) {
    char path[PATH_MAX];
    return (control->mask & ON_READ) && path_of(fd, path) == 1 && fault_now(ON_READ);
}

ssize_t read(int fd, void *data, size_t len) {
    return read_fails(fd) ? -1 : REAL(ssize_t, "read", int, void *, size_t)(fd, data, len);
}
ssize_t pread64(int fd, void *data, size_t len, off_t at) {
    return read_fails(fd) ? -1 : REAL(ssize_t, "pread64", int, void *, size_t, off_t)(fd, data, len, at);
}
ssize_t pread(int fd, void *data, size_t len, off_t at) { return pread64(fd, data, len, at); }

static int logged_sync(int fd, int (*real)(int)) {
    char path[PATH_MAX];
    if (path_of(fd, path) != 1) return real(fd);
    if (fault_now(ON_SYNC)) return -1;
    pthread_mutex_lock(&lock);
    int result = real(fd), saved = errno;
    if (!result) note(SYNC, path, 0, NULL, 0);
    pthread_mutex_unlock(&lock);
    errno = saved;
    return result;
}

int fsync(int fd) { return logged_sync(fd, real_fsync); }
int fdatasync(int fd) { return logged_sync(fd, real_fdatasync); }

static int logged_size(int fd, off_t size, int only_grow, int (*act)(int, off_t)) {
    char path[PATH_MAX];
    if (path_of(fd, path) != 1) return act(fd, size);
    if (fault_now(ON_TRUNCATE)) return -1;
    pthread_mutex_lock(&lock);
    struct stat before;
    int grows = !fstat(fd, &before) && before.st_size < size;
    int result = act(fd, size), saved = errno;
    if (!result && (grows || !only_grow)) note(TRUNCATE, path, size, NULL, 0);
    pthread_mutex_unlock(&lock);
    errno = saved;
    return result;
}

static int allocate_to(int fd, off_t end) { return REAL(int, "fallocate64", int, int, off_t, off_t)(fd, 0, 0, end); }
int ftruncate(int fd, off_t size) { return logged_size(fd, size, 0, real_ftruncate); }
int ftruncate64(int fd, off_t size) { return logged_size(fd, size, 0, real_ftruncate); }
int posix_fallocate(int fd, off_t at, off_t len) { return logged_size(fd, at + len, 1, allocate_to) ? errno : 0; }
int posix_fallocate64(int fd, off_t at, off_t len) { return posix_fallocate(fd, at, len); }

/* Whether the watched directory pretends to be on a read-only file system, to those who open or ask. */
static int is_read_only(int dir, const char *path) {
    char full[PATH_MAX];
    if (control->fault != READ_ONLY || !absolute(dir, path, full)) return 0;
    errno = EROFS;
    return 1;
}

int faccessat(int dir, const char *path, int mode, int flags) {
    if ((mode & W_OK) && is_read_only(dir, path)) return -1;
    return REAL(int, "faccessat", int, const char *, int, int)(dir, path, mode, flags);
}
int access(const char *path, int mode) {
    if ((mode & W_OK) && is_read_only(AT_FDCWD, path)) return -1;
    return REAL(int, "access", const char *, int)(path, mode);
}
int mkdir(const char *path, mode_t mode) {
    if (is_read_only(AT_FDCWD, path)) return -1;
    return REAL(int, "mkdir", const char *, mode_t)(path, mode);
}

static int logged_open(int dir, const char *path, int flags, mode_t mode) {
    int (*real)(int, const char *, int, ...) = (int (*)(int, const char *, int, ...))dlsym(RTLD_NEXT, "openat");
    char full[PATH_MAX];
    if ((flags & (O_ACCMODE | O_CREAT)) && is_read_only(dir, path)) return -1;
    if (!(flags & (O_CREAT | O_TRUNC)) || !absolute(dir, path, full)) return real(dir, path, flags, mode);
    struct stat before;
    int is_new = fstatat(dir, path, &before, 0) != 0;
    if (is_new && fault_now(ON_NAME)) return -1;
    pthread_mutex_lock(&lock);
    int fd = real(dir, path, flags, mode), saved = errno;
    if (fd >= 0 && is_new) note(CREATE, full, 0, NULL, 0);
    else if (fd >= 0 && (flags & O_TRUNC)) note(TRUNCATE, full, 0, NULL, 0);
    pthread_mutex_unlock(&lock);
    errno = saved;
    return fd;
}

static mode_t mode_of(int flags, va_list rest) { return flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; }
#define OPEN(name, dir, ...)                              \
    int name(__VA_ARGS__, ...) {                          \
        va_list rest;                                     \
        va_start(rest, flags);                            \
        mode_t mode = mode_of(flags, rest);               \
        va_end(rest);                                     \
        return logged_open(dir, path, flags, mode);       \
    }
OPEN(open, AT_FDCWD, const char *path, int flags)
OPEN(open64, AT_FDCWD, const char *path, int flags)
OPEN(openat, dir, int dir, const char *path, int flags)
OPEN(openat64, dir, int dir, const char *path, int flags)
int creat(const char *path, mode_t mode) { return logged_open(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

int unlinkat(int dir, const char *path, int flags) {
    char full[PATH_MAX];
    int (*real)(int, const char *, int) = dlsym(RTLD_NEXT, "unlinkat");
    if (!absolute(dir, path, full)) return real(dir, path, flags);
    pthread_mutex_lock(&lock);
    int result = real(dir, path, flags), saved = errno;
    if (!result && !(flags & AT_REMOVEDIR)) note(UNLINK, full, 0, NULL, 0);
    pthread_mutex_unlock(&lock);
    errno = saved;
    return result;
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }

int renameat(int from_dir, const char *from, int to_dir, const char *to) {
    char old[PATH_MAX], new[PATH_MAX];
    int (*real)(int, const char *, int, const char *) = dlsym(RTLD_NEXT, "renameat");
    if (!absolute(from_dir, from, old) || !absolute(to_dir, to, new)) return real(from_dir, from, to_dir, to);
    if (fault_now(ON_NAME)) return -1;
    pthread_mutex_lock(&lock);
    int result = real(from_dir, from, to_dir, to), saved = errno;
    if (!result) note(RENAME, old, 0, new, strlen(new));
    pthread_mutex_unlock(&lock);
    errno = saved;
    return result;
}
int rename(const char *from, const char *to) { return renameat(AT_FDCWD, from, AT_FDCWD, to); }
