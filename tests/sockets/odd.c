/* Cases: calls that few programs make, while bytes lie in a ring. */
#include "sets.h"
#include <sys/syscall.h>

#define SIZE 3000

/* The side that sends: bytes, and then what a case needs. */
static void send_and_wait(void)
{
    fill(bytes, SIZE, 90);
    DO(write(fd, bytes, SIZE));
    await_next();
    DO(write(fd, "more", 4));
    await_next();
}

/* The bytes that lie there, and four more. */
static void take_rest(long taken)
{
    GET(recv(fd, bytes, SIZE - taken, MSG_WAITALL));
    allow_next();
    GET(recv(fd, bytes, 4, MSG_WAITALL));
    allow_next();
}

#define SENDS(name) void one_##name(void) { send_and_wait(); }

SENDS(odd_flag)
void two_odd_flag(void)
{
    until_bytes(fd, SIZE);
    GET(recv(fd, bytes, 10, MSG_MORE));
    GET(recv(fd, bytes, 10, MSG_DONTROUTE | MSG_DONTWAIT));
    GET(recv(fd, bytes, 10, MSG_PEEK | MSG_EOR));
    take_rest(20);
}

SENDS(odd_queue)
void two_odd_queue(void)
{
    until_bytes(fd, SIZE);
    GET(recv(fd, bytes, 10, MSG_ERRQUEUE | MSG_DONTWAIT));
    take_rest(is_unix ? 10 : 0);
}

void one_odd_vectors(void)
{
    struct iovec part = { bytes, 100 };
    fill(bytes, SIZE, 91);
    DO(write(fd, bytes, SIZE));
    DO(pwritev2(fd, &part, 1, -1, RWF_SYNC));
    DO(pwritev2(fd, &part, 1, -1, RWF_APPEND));
    DO(pwritev2(fd, &part, 1, -1, RWF_NOWAIT));
    DO(pwritev2(fd, &part, 1, -1, RWF_HIPRI));
    DO(write(fd, bytes, SIZE));
    await_next();
}

void two_odd_vectors(void)
{
    struct iovec part = { bytes, 100 };
    until_bytes(fd, SIZE);
    GET(preadv2(fd, &part, 1, -1, RWF_HIPRI));
    GET(preadv2(fd, &part, 1, -1, RWF_NOWAIT));
    GET(preadv2(fd, &part, 1, -1, RWF_DSYNC));
    DO(preadv2(fd, &part, 1, 0, RWF_HIPRI));
    GET(recv(fd, bytes, 2 * SIZE + 100, MSG_WAITALL));
    allow_next();
}

/* Calls by their numbers. */
void one_odd_numbers(void)
{
    struct iovec part = { bytes, 100 };
    fill(bytes, SIZE, 92);
    DO(write(fd, bytes, SIZE));
    DO(syscall(SYS_pwritev2, fd, &part, 1, -1L, -1L, 0));
    await_next();
    DO(syscall(SYS_shutdown, fd, SHUT_WR));
    DO(write(fd, bytes, SIZE));
    await_next();
}

void two_odd_numbers(void)
{
    struct epoll_event event = { .events = EPOLLIN, .data.u32 = 7 };
    struct iovec part = { bytes, 50 };
    struct pollfd one = { fd, POLLIN, 0 };
    struct timespec later = { 20, 0 };
    int set = epoll_create1(0);
    DO(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    until_bytes(fd, SIZE + 100);
    DO(syscall(SYS_ppoll, &one, 1, &later, NULL, 8));
    say("events: %#x", one.revents);
    fd_set reads;
    FD_ZERO(&reads);
    FD_SET(fd, &reads);
    later.tv_sec = 20;
    DO(syscall(SYS_pselect6, fd + 1, &reads, NULL, NULL, &later, NULL));
    say("readable: %d", FD_ISSET(fd, &reads) != 0);
#ifdef SYS_select
    struct timeval also = { 20, 0 };
    DO(syscall(SYS_select, fd + 1, &reads, NULL, NULL, &also));
    say("readable: %d", FD_ISSET(fd, &reads) != 0);
#endif
#ifdef SYS_epoll_pwait2
    later.tv_sec = 20;
    DO(syscall(SYS_epoll_pwait2, set, list, 4, &later, NULL, 8));
#endif
    GET(syscall(SYS_preadv2, fd, &part, 1, -1L, -1L, 0));
    GET(recv(fd, bytes, SIZE + 50, MSG_WAITALL));
    allow_next();
    DO(read(fd, bytes, 10));
    allow_next();
}

/* Round trips with a side in an event loop: no wakeup byte stands for what comes next. */
static void ask_loop(void)
{
    for (int turn = 0; turn < 8; turn++)
        if (write(fd, "question", 8) != 8 || recv(fd, bytes, 8, MSG_WAITALL) != 8)
            quit("no answer");
}

static int answer_in_loop(void)
{
    struct epoll_event event = { .events = EPOLLIN, .data.u32 = 3 };
    int set = epoll_create1(0);
    DO(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    for (int turn = 0; turn < 8; turn++)
        if (epoll_wait(set, &event, 1, -1) != 1 || recv(fd, bytes, 8, MSG_WAITALL) != 8
            || write(fd, "answered", 8) != 8)
            quit("no question");
    return set;
}

/* Calls for no byte, while bytes of the own side lie in the ring. */
void one_odd_empty(void)
{
    ask_loop();
    fill(bytes, SIZE, 93);
    DO(write(fd, bytes, SIZE));
    DO(read(fd, bytes, 0));
    DO(recv(fd, bytes, 0, MSG_DONTWAIT));
    DO(write(fd, bytes, 0));
    DO(send(fd, bytes, 0, MSG_DONTWAIT));
    DO(write(fd, bytes, SIZE));
    allow_next();
    GET(recv(fd, bytes, 8, MSG_WAITALL));
}

/* The receiver is awake in an event loop: no wakeup byte stands for the bytes. */
void two_odd_empty(void)
{
    int set = answer_in_loop();
    await_next();
    until_bytes(fd, 2 * SIZE);
    DO(read(fd, bytes, 0));
    DO(recv(fd, bytes, 0, MSG_PEEK));
    WAIT(set, 0);
    GET(recv(fd, bytes, 2 * SIZE, MSG_WAITALL));
    DO(write(fd, "received", 8));
}

SENDS(odd_splice)
void two_odd_splice(void)
{
    int through[2];
    if (pipe(through) != 0)
        quit("pipe");
    until_bytes(fd, SIZE);
    for (long moved = 0, now; moved < SIZE; moved += now) {
        if ((now = splice(fd, NULL, through[1], NULL, SIZE - moved, 0)) <= 0)
            quit("splice");
        for (long done = 0; done < now; )
            done += read(through[0], bytes + moved + done, now - done);
    }
    say("sum %lx", sum(bytes, SIZE));
    if (is_unix)
        DO(splice(fd, NULL, through[1], NULL, 100, SPLICE_F_NONBLOCK));
    allow_next();
    until_ready(fd, POLLIN);
    DO(splice(fd, NULL, through[1], NULL, 100, 0));
    GET(read(through[0], bytes, 100));
    allow_next();
}

/* A pipe without room, and one that only a part fits. */
SENDS(odd_splice_full)
void two_odd_splice_full(void)
{
    int through[2];
    if (pipe2(through, O_NONBLOCK) != 0)
        quit("pipe");
    until_bytes(fd, SIZE);
    while (write(through[1], bytes, 4096) > 0)
        ;
    DO(splice(fd, NULL, through[1], NULL, SIZE, SPLICE_F_NONBLOCK));
    DO(splice(fd, NULL, through[1], NULL, SIZE, 0));
    DO(splice(fd, NULL, through[1], NULL, 0, 0));
    long at = 0;
    DO(splice(fd, (off_t *)&at, through[1], NULL, SIZE, 0));
    DO(splice(fd, NULL, through[1], (off_t *)&at, SIZE, 0));
    DO(splice(fd, NULL, -1, NULL, SIZE, 0));
    DO(splice(fd, NULL, to_other[1], NULL, SIZE, 0x80));
    DO(sendfile(through[1], fd, NULL, 10) < 0);
    while (read(through[0], bytes, 4096) > 0)
        ;
    take_rest(0);
}

SENDS(odd_sendfile)
void two_odd_sendfile(void)
{
    int through[2], file = fileno(tmpfile());
    if (pipe(through) != 0)
        quit("pipe");
    until_bytes(fd, SIZE);
    DO(sendfile(file, fd, NULL, 10));
    DO(sendfile(-1, fd, NULL, 10));
    long moved = 0, now;
    while (moved < 2000 && (now = sendfile(through[1], fd, NULL, 2000 - moved)) > 0)
        moved += now;
    say("moved %ld", moved);
    GET(read(through[0], bytes, 2000));
    take_rest(2000);
}

SENDS(odd_mark)
void two_odd_mark(void)
{
    struct pollfd one = { fd, POLLIN, 0 };
    int mark = 100, back = 0;
    socklen_t length = sizeof back;
    until_bytes(fd, SIZE);
    DO(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &mark, sizeof mark));
    DO(getsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &back, &length));
    say("mark %d", back);
    DO(poll(&one, 1, 2000));
    GET(recv(fd, bytes, SIZE, 0));
    DO(poll(&one, 1, 0));
    allow_next();
    until_bytes(fd, 4);
    DO(poll(&one, 1, 0));
    GET(recv(fd, bytes, 4, 0));
    DO(getsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &back, &length));
    say("mark %d", back);
    allow_next();
}

/* A time limit holds for the call, and not for each arrival. */
void one_odd_late(void)
{
    fill(bytes, 100, 94);
    await_next();
    for (int i = 0; i < 20; i++) {
        usleep(60000);
        if (write(fd, bytes + i, 1) != 1)
            quit("write");
    }
    allow_next();
    await_next();
}

void two_odd_late(void)
{
    struct timeval limit = { 0, 150000 };
    DO(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
    allow_next();
    long first = recv(fd, bytes, 20, MSG_WAITALL);
    say(first > 0 && first < 10 ? "some" : "%ld", first);
    await_next();
    GET(recv(fd, bytes + first, 20 - first, MSG_WAITALL) < 0 ? -1 : 20);
    allow_next();
}

/* Bytes that the peer has not read, as a Unix socket tells them. */
void one_odd_left(void)
{
    int left = -1;
    ask_loop();
    until_taken(fd);
    DO(ioctl(fd, TIOCOUTQ, &left));
    say("left: %d", left > 0 && is_unix);
    fill(bytes, SIZE, 95);
    DO(write(fd, bytes, SIZE));
    DO(ioctl(fd, TIOCOUTQ, &left) * is_unix);
    say("left: %d", left > 0 && is_unix);
    allow_next();
    await_next();
    DO(ioctl(fd, TIOCOUTQ, &left));
    say("left: %d", left > 0 && is_unix);
}

void two_odd_left(void)
{
    answer_in_loop();
    await_next();
    GET(recv(fd, bytes, SIZE, MSG_WAITALL));
    allow_next();
}

/* A socket that its program disconnects, and connects to another peer. */
void one_odd_again(void)
{
    struct sockaddr_storage at;
    struct sockaddr none = { .sa_family = AF_UNSPEC };
    socklen_t length;
    DO(write(fd, "first", 5));
    await_next();
    if (connect(fd, &none, sizeof none) != 0) {
        say("stays connected");
        DO(write(fd, "still", 5));
        DO(shutdown(fd, SHUT_WR));
        return;
    }
    DO(write(fd, bytes, 100));
    DO(recv(fd, bytes, 100, MSG_DONTWAIT));
    int made = listener(&at, &length, 1);
    DO(connect(fd, (void *)&at, length));
    int stream = accept(made, NULL, NULL);
    for (int turn = 0; turn < 20; turn++) {
        if (write(fd, "question", 8) != 8 || recv(stream, bytes, 8, MSG_WAITALL) != 8
            || write(stream, "answer", 6) != 6 || recv(fd, bytes, 6, MSG_WAITALL) != 6)
            quit("no round trip");
    }
    DO(close(fd));
    DO(read(stream, bytes, 10));
}

void two_odd_again(void)
{
    GET(recv(fd, bytes, 5, MSG_WAITALL));
    allow_next();
    until_ready(fd, POLLIN | POLLRDHUP | POLLHUP);
    long now = read(fd, bytes, 5);
    say(now == 5 ? "still there" : "%s", now < 0 ? strerrorname_np(errno) : "an end");
    DO(read(fd, bytes, 5));
}

SENDS(odd_huge)
void two_odd_huge(void)
{
    volatile size_t all = SIZE_MAX;
    until_bytes(fd, SIZE);
    GET(recv(fd, bytes, all >> 1, 0));
    allow_next();
    until_bytes(fd, 4);
    GET(recv(fd, bytes, all, MSG_DONTWAIT));
    allow_next();
}

/* An error behind bytes. */
void one_odd_error(void)
{
    struct linger at_once = { 1, 0 };
    fill(bytes, SIZE, 96);
    DO(write(fd, bytes, SIZE));
    await_next();
    DO(setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once));
    DO(close(fd));
    allow_next();
}

void two_odd_error(void)
{
    int error = -1;
    socklen_t length = sizeof error;
    until_bytes(fd, SIZE);
    DO(write(fd, "unread", 6));
    until_taken(fd);
    allow_next();
    await_next();
    until_ready(fd, POLLHUP);
    long now = recv(fd, bytes, SIZE, MSG_WAITALL);
    say(now == SIZE ? "all" : now < 0 ? "%s" : "some", now < 0 ? strerrorname_np(errno) : "");
    DO(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length));
    say("error: %s", error ? strerrorname_np(error) : "none");
    DO(read(fd, bytes, 10));
    DO(read(fd, bytes, 10));
}

/* A send that waits for room: its time limit, and a signal. */
static void nothing_done(int number)
{
    (void)number;
}

void one_odd_full(void)
{
    struct timeval limit = { 0, 100000 }, none = { 0, 0 };
    struct sigaction how = { .sa_handler = nothing_done };
    struct itimerval soon = { { 0, 50000 }, { 0, 50000 } }, never = { { 0, 0 }, { 0, 0 } };
    static char all[16 << 20];
    DO(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit));
    long sent = write(fd, all, sizeof all), now;
    say(sent > 0 && sent < (long)sizeof all ? "some" : "%ld", sent);
    /* A TCP socket may have got some room by now. */
    while ((now = write(fd, all, sizeof all)) > 0)
        sent += now;
    DO(now);
    DO(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &none, sizeof none));
    sigaction(SIGALRM, &how, NULL);
    setitimer(ITIMER_REAL, &soon, NULL);
    while ((now = write(fd, all, sizeof all)) > 0)
        sent += now;
    DO(now);
    setitimer(ITIMER_REAL, &never, NULL);
    DO(send(fd, all, 10, MSG_DONTWAIT));
    DO(write(to_other[1], &sent, sizeof sent));
    DO(shutdown(fd, SHUT_WR));
}

void two_odd_full(void)
{
    long wanted, come = 0, now;
    DO(read(from_other[0], &wanted, sizeof wanted));
    while ((now = read(fd, bytes, MOST)) > 0)
        come += now;
    say(come == wanted ? "all came" : "%ld of %ld came", come, wanted);
    DO(now);
}

/* A descriptor behind bytes of a ring. */
void one_odd_rights(void)
{
    fill(bytes, SIZE, 97);
    if (!is_unix) {
        DO(write(fd, bytes, SIZE));
        return;
    }
    int one[2];
    char byte;
    if (pipe(one) != 0)
        quit("pipe");
    DO(write(fd, bytes, SIZE));
    pass(fd, one[1]);
    DO(write(fd, "behind", 6));
    DO(close(one[1]));
    allow_next();
    DO(read(one[0], &byte, 1));
    DO(read(one[0], &byte, 1));
    await_next();
}

void two_odd_rights(void)
{
    if (!is_unix) {
        GET(recv(fd, bytes, SIZE, MSG_WAITALL));
        return;
    }
    char room[CMSG_SPACE(sizeof(int))] = { 0 };
    struct iovec part = { bytes, 2 * SIZE };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = room,
        .msg_controllen = sizeof room };
    await_next();
    GET(recvmsg(fd, &message, 0));
    say("control %zu, flags %#x", message.msg_controllen, message.msg_flags);
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    int taken = -1;
    if (head)
        memcpy(&taken, CMSG_DATA(head), sizeof taken);
    DO(write(taken, "x", 1));
    DO(close(taken));
    GET(read(fd, bytes, 100));
    allow_next();
}

/* Bytes that TCP discards, whatever the address. Calls for no byte, while no wakeup byte stands for
 * the bytes. */
void one_odd_discard(void)
{
    ask_loop();
    fill(bytes, SIZE, 98);
    DO(write(fd, bytes, SIZE));
    GET(recv(fd, bytes, 8, MSG_WAITALL));
    DO(write(fd, "more", 4));
    DO(shutdown(fd, SHUT_WR));
}

void two_odd_discard(void)
{
    struct iovec parts[2] = { { bytes, 5 }, { NULL, 7 } };
    struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
    answer_in_loop();
    until_bytes(fd, SIZE);
    DO(recv(fd, bytes, 0, 0));
    DO(recv(fd, NULL, 100, 0));
    DO(recv(fd, NULL, 100, MSG_TRUNC | MSG_PEEK));
    DO(recv(fd, NULL, 100, MSG_TRUNC));
    DO(is_unix ? 0 : recvmsg(fd, &message, MSG_TRUNC));
    GET(recv(fd, bytes, 20, 0));
    long left = SIZE - (is_unix ? 20 : 132);
    DO(recv(fd, is_unix ? bytes : NULL, left, MSG_TRUNC | MSG_WAITALL));
    DO(write(fd, "answered", 8));
    GET(recv(fd, bytes, 4, MSG_WAITALL));
    DO(recv(fd, NULL, INT_MAX, MSG_TRUNC));
}

/* A receive that sleeps for as many bytes as the program asked for. */
void one_odd_low(void)
{
    fill(bytes, 110, 99);
    await_next();
    DO(write(fd, bytes, 10));
    await_next();
    until_asleep(other);
    /* TCP wakes a receive only for as many bytes as follow those that it has. */
    DO(write(fd, bytes + 10, 100));
}

void two_odd_low(void)
{
    int mark = 100;
    DO(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &mark, sizeof mark));
    allow_next();
    until_bytes(fd, 10);
    allow_next();
    GET(recv(fd, bytes, SIZE, 0));
}
