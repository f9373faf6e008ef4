/*
 * Cases: bytes of a stream that the C library or the kernel moves where no call names the stream,
 * or where a rare call does.
 */
#include "sets.h"
#include <dlfcn.h>
#include <execinfo.h>
#include <linux/aio_abi.h>
#include <linux/nbd.h>
#include <spawn.h>
#include <sys/syscall.h>

#define SIZE 3000

/* The rest of a stream, until its end. */
static void take_all(void)
{
    long all = 0, count;
    while ((count = read(fd, bytes + all, 4096)) > 0)
        all += count;
    got("all", all);
    say("the end: %ld", count);
}

/* The library's list of addresses, between writes. */
void one_unseen_backtrace(void)
{
    void *addresses[] = { (void *)0x1111, (void *)0x2222 };
    fill(bytes, SIZE, 60);
    DO(write(fd, bytes, SIZE));
    backtrace_symbols_fd(addresses, 2, fd);
    DO(write(fd, bytes, SIZE));
    DO(shutdown(fd, SHUT_WR));
    DO(read(fd, bytes, 10));
}

void two_unseen_backtrace(void)
{
    until_bytes(fd, SIZE);
    take_all();
}

/* A stream in the place of a file that the C library has open. */
void one_unseen_file(void)
{
    FILE *written = fopen("/dev/null", "w");
    fill(bytes, SIZE, 61);
    DO(write(fd, bytes, SIZE));
    if (!written || dup2(fd, fileno(written)) < 0)
        quit("dup2");
    fprintf(written, "a line of the file\n");
    fflush(written);
    DO(write(fd, bytes, SIZE));
    DO(write(fileno(written), bytes, SIZE));
    fprintf(written, "another line\n");
    fclose(written);
    /* The number stands for no file any more. */
    DO(shutdown(fd, SHUT_WR));
    await_next();
    FILE *file = fopen("/dev/null", "r");
    if (!file || dup2(fd, fileno(file)) < 0)
        quit("dup2");
    allow_next();
    char line[100];
    say("fgets: %s", fgets(line, sizeof line, file) ? line : "nothing");
    say("fgets: %s", fgets(line, sizeof line, file) ? line : "nothing");
    fclose(file);
}

void two_unseen_file(void)
{
    until_bytes(fd, SIZE);
    take_all();
    allow_next();
    await_next();
    DO(write(fd, "first\nsecond\n", 13));
}

/* A connection to the other side, which waits at the address. */
static struct sockaddr_storage at;
static socklen_t at_length;

static void other_end(void (*act)(void))
{
    int made = listener(&at, &at_length, 1);
    pid_t child = fork();
    if (child == 0) {
        fd = accept(made, NULL, NULL);
        close(made);
        warm(fd, 0);
        act();
        fflush(NULL);
        _exit(0);
    }
    close(made);
}

static void take_lines(void)
{
    long all = 0, count;
    while ((count = read(fd, bytes + all, 4096)) > 0)
        all += count;
    long sums[2] = { all, (long)sum(bytes, all) };
    if (write(fd, sums, sizeof sums) != sizeof sums)
        _exit(9);
}

/* A file of the C library over a socket that has no peer yet. */
void one_unseen_early(void)
{
    other_end(take_lines);
    fd = socket(is_unix ? AF_UNIX : AF_INET, SOCK_STREAM, 0);
    FILE *file = fdopen(fd, "w");
    DO(connect(fd, (void *)&at, at_length));
    warm(fd, 1);
    fill(bytes, SIZE, 62);
    DO(write(fd, bytes, SIZE));
    fprintf(file, "a line of the file\n");
    fflush(file);
    DO(write(fd, bytes, SIZE));
    DO(shutdown(fd, SHUT_WR));
    GET(recv(fd, bytes, 2 * sizeof(long), MSG_WAITALL));
    fclose(file);
    wait(NULL);
}

/* One operation of the kernel's asynchronous I/O. */
static long submit(int what, char *place, long count)
{
    static aio_context_t context;
    struct iocb block = { .aio_lio_opcode = what, .aio_fildes = fd,
        .aio_buf = (unsigned long)place, .aio_nbytes = count };
    struct iocb *blocks[] = { &block };
    struct io_event event;
    if (!context && syscall(SYS_io_setup, 4, &context) != 0)
        leave_out("the kernel has no asynchronous I/O");
    if (syscall(SYS_io_submit, context, 1L, blocks) != 1)
        return -1;
    if (syscall(SYS_io_getevents, context, 1L, 1L, &event, NULL) != 1)
        quit("io_getevents");
    errno = event.res < 0 ? (int)-event.res : 0;
    return event.res < 0 ? -1 : (long)event.res;
}

void one_unseen_submit(void)
{
    fill(bytes, SIZE, 63);
    DO(write(fd, bytes, SIZE));
    DO(submit(IOCB_CMD_PWRITE, bytes, SIZE));
    DO(write(fd, bytes, SIZE));
    GET(recv(fd, bytes, 8, MSG_WAITALL));
    allow_next();
    GET(submit(IOCB_CMD_PREAD, bytes, 100));
    DO(write(fd, "received", 8));
}

void two_unseen_submit(void)
{
    until_bytes(fd, SIZE);
    GET(recv(fd, bytes, 3 * SIZE, MSG_WAITALL));
    DO(write(fd, "answered", 8));
    await_next();
    DO(write(fd, "for aio", 7));
    GET(recv(fd, bytes, 8, MSG_WAITALL));
}

/* An option whose value is bytes of the stream (TCP alone). */
struct zero_copy {
    unsigned long address;
    unsigned length, skip;
    unsigned inq;
    int err;
    unsigned long copy_address;
    int copy_length;
    unsigned flags;
};
#ifndef TCP_ZEROCOPY_RECEIVE
#define TCP_ZEROCOPY_RECEIVE 35
#endif

void one_unseen_option(void)
{
    fill(bytes, SIZE, 64);
    DO(write(fd, bytes, SIZE));
    await_next();
    DO(write(fd, bytes, SIZE));
}

/* One call for bytes by the option, and a receive of the bytes that it leaves. */
static long take_by_option(char *to)
{
    struct zero_copy asked = { .copy_address = (unsigned long)to, .copy_length = SIZE };
    socklen_t length = sizeof asked;
    if (getsockopt(fd, IPPROTO_TCP, TCP_ZEROCOPY_RECEIVE, &asked, &length) != 0)
        leave_out("the kernel copies nothing by this option");
    if (asked.length != 0)
        quit("bytes were mapped");
    if (asked.copy_length > 0 || asked.skip == 0)
        return asked.copy_length;
    return recv(fd, to, asked.skip, 0);
}

void two_unseen_option(void)
{
    long all = 0;
    until_bytes(fd, SIZE);
    while (!is_unix && all < 2 * SIZE) {
        long now = take_by_option(bytes + all);
        if (now < 0)
            quit("recv");
        if (all < SIZE && all + now >= SIZE)
            allow_next();
        all += now;
        if (all < 2 * SIZE)
            until_ready(fd, POLLIN);
    }
    if (is_unix) {
        GET(recv(fd, bytes, SIZE, MSG_WAITALL));
        allow_next();
        all = SIZE + recv(fd, bytes + SIZE, SIZE, MSG_WAITALL);
    }
    got("all", all);
}

/* Options of a listener that its connections inherit. */
#define PASS_PIDFD 76
#ifndef TCP_INQ
#define TCP_INQ 36
#endif

static void send_some(void)
{
    fill(bytes, SIZE, 65);
    if (write(fd, bytes, SIZE) != SIZE || read(fd, bytes, 1) < 0)
        _exit(9);
}

static void one_inherits(int level, int name)
{
    int on = 1, made = listener(&at, &at_length, 1);
    char control[200];
    struct iovec part = { bytes, SIZE };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control,
        .msg_controllen = sizeof control };
    if (setsockopt(made, level, name, &on, sizeof on) != 0)
        leave_out("the kernel has no such option");
    pid_t child = fork();
    if (child == 0) {
        close(made);
        fd = connected(&at, at_length);
        warm(fd, 1);
        send_some();
        _exit(0);
    }
    fd = accept(made, NULL, NULL);
    close(made);
    warm(fd, 0);
    until_bytes(fd, SIZE);
    for (long all = 0; all < SIZE; ) {
        part.iov_len = SIZE - all;
        message.msg_controllen = sizeof control;
        long now = recvmsg(fd, &message, 0);
        if (now <= 0)
            quit("recvmsg");
        all += now;
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        say("with %d of %d", head ? head->cmsg_type : 0, head ? head->cmsg_level : 0);
        /* A descriptor of the sender. */
        if (head && is_unix && head->cmsg_len == CMSG_LEN(sizeof(int)))
            close(*(int *)CMSG_DATA(head));
    }
    close(fd);
    waitpid(child, NULL, 0);
}

void one_unseen_inherited(void)
{
    if (is_unix)
        one_inherits(SOL_SOCKET, PASS_PIDFD);
    else
        one_inherits(IPPROTO_TCP, TCP_INQ);
}

/* The C library makes the child itself, from version 2.39 on. */
void one_unseen_pidfd_spawn(void)
{
    extern char **environ;
    int (*spawn)(int *, const char *, const posix_spawn_file_actions_t *,
        const posix_spawnattr_t *, char *const *, char *const *);
    int held = -1;
    siginfo_t end = { 0 };
    *(void **)&spawn = dlsym(RTLD_DEFAULT, "pidfd_spawn");
    if (!spawn)
        leave_out("the C library has no pidfd_spawn");
    DO(write(fd, "before exec", 11));
    char **words = resume("talk", fd);
    DO(spawn(&held, words[0], NULL, NULL, words, environ));
    DO(waitid(P_PIDFD, held, &end, WEXITED));
    say("the program ended with %d", end.si_status);
    DO(write(fd, "parent again", 12));
    await_next();
    GET(read(fd, bytes, 100));
    DO(close(fd));
}

/* A network block device takes the socket, and the kernel moves its bytes from then on. */
void one_unseen_block(void)
{
    int device = open("/dev/nbd0", O_RDWR);
    if (device < 0)
        leave_out("there is no network block device");
    DO(ioctl(device, NBD_SET_SOCK, fd));
    allow_next();
    DO(write(fd, "after", 5));
    DO(ioctl(device, NBD_CLEAR_SOCK));
    close(device);
    DO(close(fd));
}

void two_unseen_block(void)
{
    char text[16] = "";
    await_next();
    /* The kernel's bytes, as a program without the library finds them. */
    until_ready(fd, POLLIN);
    DO(syscall(SYS_read, fd, text, 5L));
    DO(read(fd, bytes, 10));
}
