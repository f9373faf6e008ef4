/* Cases: options and calls that few programs use, on a stream whose bytes lie in a ring. */
#include "sets.h"
#include <linux/errqueue.h>
#include <sys/syscall.h>

#define SIZE 3000

/* A send that the kernel makes without a copy, and its report. */
void one_rare_zero_copy(void)
{
    int on = 1;
    char control[200];
    struct msghdr message = { .msg_control = control, .msg_controllen = sizeof control };
    fill(bytes, SIZE, 70);
    DO(write(fd, bytes, SIZE));
    int set = setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof on);
    say("SO_ZEROCOPY: %d", set);
    DO(write(fd, bytes, SIZE));
    DO(send(fd, bytes, SIZE, MSG_ZEROCOPY));
    allow_next();
    await_next();
    if (set == 0 && !is_unix) {
        until_ready(fd, POLLERR);
        DO(recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT));
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        say("flags %#x, with %d of %d", message.msg_flags, head ? head->cmsg_type : 0,
            head ? head->cmsg_level : 0);
    }
    DO(write(fd, bytes, 10));
    GET(recv(fd, bytes, 4, MSG_WAITALL));
}

void two_rare_zero_copy(void)
{
    await_next();
    GET(recv(fd, bytes, 3 * SIZE, MSG_WAITALL));
    allow_next();
    GET(recv(fd, bytes, 10, MSG_WAITALL));
    DO(write(fd, "done", 4));
}

/* Control data with each receive, from some byte on. */
void one_rare_control(void)
{
    fill(bytes, SIZE, 71);
    DO(write(fd, bytes, SIZE));
    await_next();
    DO(write(fd, bytes, SIZE));
    await_next();
}

void two_rare_control(void)
{
    int on = 1;
    char control[200];
    struct iovec part = { bytes, SIZE };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
    until_bytes(fd, SIZE);
    /* TCP has only the times of packets, which differ, and TCP_INQ, which the library refuses. */
    int set = is_unix ? setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) : 0;
    say("option: %d", set);
    GET(recv(fd, bytes, SIZE, MSG_WAITALL));
    allow_next();
    until_bytes(fd, SIZE);
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    GET(recvmsg(fd, &message, MSG_WAITALL));
    struct cmsghdr *head = message.msg_controllen ? CMSG_FIRSTHDR(&message) : NULL;
    say("with %d of %d", head ? head->cmsg_type : 0, head ? head->cmsg_level : 0);
    allow_next();
}

/* Many messages at once, with a time limit, and an end between them. */
void one_rare_many(void)
{
    struct iovec parts[4] = { { bytes, 100 }, { bytes + 100, 200 }, { bytes + 300, 300 },
        { bytes + 600, 400 } };
    struct mmsghdr many[4] = { 0 };
    fill(bytes, SIZE, 72);
    for (int i = 0; i < 4; i++)
        many[i].msg_hdr = (struct msghdr) { .msg_iov = &parts[i], .msg_iovlen = 1 };
    DO(sendmmsg(fd, many, 4, 0));
    for (int i = 0; i < 4; i++)
        say("%u", many[i].msg_len);
    DO(sendmmsg(fd, many, 0, 0));
    await_next();
    DO(sendmmsg(fd, many, 2, MSG_DONTWAIT));
    DO(shutdown(fd, SHUT_WR));
    await_next();
}

void two_rare_many(void)
{
    struct iovec parts[4] = { { bytes, 300 }, { bytes + 300, 300 }, { bytes + 600, 300 },
        { bytes + 900, 300 } };
    struct mmsghdr many[4] = { 0 };
    struct timespec none = { 0, 0 }, later = { 20, 0 };
    until_bytes(fd, 1000);
    for (int i = 0; i < 4; i++)
        many[i].msg_hdr = (struct msghdr) { .msg_iov = &parts[i], .msg_iovlen = 1 };
    DO(recvmmsg(fd, many, 2, 0, &later));
    for (int i = 0; i < 2; i++)
        say("%u", many[i].msg_len);
    DO(recvmmsg(fd, many, 4, 0, &none));
    say("%u", many[0].msg_len);
    DO(recvmmsg(fd, many, 4, MSG_WAITFORONE, NULL));
    say("%u", many[0].msg_len);
    DO(recvmmsg(fd, many, 4, MSG_DONTWAIT, NULL));
    allow_next();
    until_ready(fd, POLLRDHUP);
    DO(recvmmsg(fd, many, 4, 0, &later));
    for (int i = 0; i < 3; i++)
        say("%u", many[i].msg_len);
    allow_next();
}

/* Descriptors that no exec keeps, and their other numbers. */
void one_rare_numbers(void)
{
    struct stat now;
    struct statx more;
    fill(bytes, SIZE, 73);
    DO(write(fd, bytes, SIZE));
    int second = dup3(fd, 200, O_CLOEXEC), third = fcntl(fd, F_DUPFD_CLOEXEC, 300);
    say("%d %d", second, third);
    DO(fcntl(second, F_GETFD));
    DO(fcntl(third, F_GETFD));
    DO(write(second, bytes, SIZE));
    DO(write(third, bytes, SIZE));
    DO(dup3(fd, fd, 0));
    DO(fcntl(fd, F_SETPIPE_SZ, 4096));
    DO(fstat(second, &now));
    say("mode %o, size %ld", now.st_mode & S_IFMT, (long)now.st_size);
    DO(statx(third, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &more));
    say("mode %o", more.stx_mode & S_IFMT);
    DO(pread(fd, bytes, 10, 0));
    DO(pwrite(fd, bytes, 10, 0));
    DO(lseek(fd, 0, SEEK_CUR));
    DO(ftruncate(fd, 0));
    DO(fsync(fd));
    DO(tee(fd, fd, 10, 0));
    DO(copy_file_range(fd, NULL, second, NULL, 10, 0));
    DO(close_range(200, 300, CLOSE_RANGE_UNSHARE));
    DO(write(second, bytes, 1));
    DO(write(fd, bytes, SIZE));
    GET(recv(fd, bytes, 4, MSG_WAITALL));
}

void two_rare_numbers(void)
{
    GET(recv(fd, bytes, 4 * SIZE, MSG_WAITALL));
    DO(write(fd, "done", 4));
}

/* An end without destructors of the program. */
void one_rare_quick_exit(void)
{
    DO(write(fd, "the last", 8));
    DO(read(fd, bytes, 10));
    DO(write(fd, bytes, 10));
}

void two_rare_quick_exit(void)
{
    struct epoll_event event = { .events = EPOLLIN };
    int set = epoll_create1(0);
    epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
    DO(epoll_wait(set, &event, 1, -1));
    GET(recv(fd, bytes, 8, MSG_WAITALL));
    fflush(NULL);
    quick_exit(0);
}

/* A message that the kernel takes in part is the last of its call. */
void one_rare_part(void)
{
    struct iovec parts[3] = { { bytes, MOST / 4 }, { NULL, MOST / 4 }, { "second", 6 } };
    struct mmsghdr many[2] = { { .msg_hdr = { .msg_iov = parts, .msg_iovlen = 2 } },
        { .msg_hdr = { .msg_iov = &parts[2], .msg_iovlen = 1 } } };
    fill(bytes, MOST / 4, 74);
    DO(sendmmsg(fd, many, 2, 0));
    say("a part: %d", many[0].msg_len > 0 && many[0].msg_len <= MOST / 4);
    DO(shutdown(fd, SHUT_WR));
    await_next();
}

void two_rare_part(void)
{
    long all = 0, count;
    while ((count = read(fd, bytes + all, MOST - all)) > 0)
        all += count;
    say("the second follows: %d", all >= 6 && memcmp(bytes + all - 6, "second", 6) == 0);
    allow_next();
}

/* The name of the peer comes with bytes, and not with the end. */
void one_rare_name(void)
{
    struct sockaddr_storage from = { .ss_family = 7 };
    struct iovec part = { bytes, 100 };
    struct msghdr message = { .msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &part,
        .msg_iovlen = 1 };
    socklen_t length = sizeof from;
    GET(recvfrom(fd, bytes, 5, MSG_WAITALL, (void *)&from, &length));
    say("family %d, a name: %d", from.ss_family, length > 0);
    from.ss_family = 7;
    length = sizeof from;
    DO(recvfrom(fd, bytes, 100, 0, (void *)&from, &length));
    say("family %d, length %u", from.ss_family, length);
    DO(recvmsg(fd, &message, 0));
    say("family %d, length %u", from.ss_family, message.msg_namelen);
    allow_next();
}

void two_rare_name(void)
{
    DO(write(fd, "bytes", 5));
    DO(shutdown(fd, SHUT_WR));
    await_next();
}

/* The next program passes the stream on before any other call, to a program without the library. */
void one_exec_passed(void)
{
    int pair[2], outcome;
    char over[16];
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    snprintf(over, sizeof over, "%d", pair[0]);
    setenv("M3_MATRIX_OVER", over, 1);
    pid_t taker = fork();
    if (taker == 0) {
        close(fd);
        char **words = resume("take", pair[1]);
        execve(words[0], words, large_environment());
        _exit(127);
    }
    pid_t giver = fork();
    if (giver == 0) {
        char **words = resume("hand", fd);
        execv(words[0], words);
        _exit(127);
    }
    waitpid(giver, &outcome, 0);
    say("the giver ended with %d", WEXITSTATUS(outcome));
    waitpid(taker, &outcome, 0);
    say("the taker ended with %d", WEXITSTATUS(outcome));
    DO(write(fd, "parent again", 12));
    DO(close(fd));
}

void two_exec_passed(void)
{
    GET(recv(fd, bytes, 10, MSG_WAITALL));
    DO(write(fd, "answer", 6));
    GET(recv(fd, bytes, 12, MSG_WAITALL));
    DO(read(fd, bytes, 10));
}

/* A child from before the accept gets the stream in a message, and its owner goes on with it. */
void one_rare_passed(void)
{
    struct sockaddr_storage at;
    socklen_t length;
    int over[2], taken[2], outcome, listening = listener(&at, &length, 1);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, over) != 0 || pipe(taken) != 0)
        quit("no pair");
    pid_t peer = fork();
    if (peer == 0) {
        fd = connected(&at, length);
        warm(fd, 1);
        int is_whole = recv(fd, bytes, 11, MSG_WAITALL) == 11 && !memcmp(bytes, "owner again", 11);
        _exit(is_whole && write(fd, "answer", 6) == 6 ? 7 : 8);
    }
    pid_t taker = fork();
    if (taker == 0) {
        int stream = take(over[1]);
        warm(stream, 0);
        _exit(write(taken[1], "x", 1) == 1 ? 7 : 8);
    }
    fd = accept(listening, NULL, NULL);
    pass(over[0], fd);
    DO(read(taken[0], bytes, 1));
    DO(write(fd, "owner again", 11));
    GET(recv(fd, bytes, 6, MSG_WAITALL));
    waitpid(taker, &outcome, 0);
    say("the taker ended with %d", WEXITSTATUS(outcome));
    waitpid(peer, &outcome, 0);
    say("the peer ended with %d", WEXITSTATUS(outcome));
}
