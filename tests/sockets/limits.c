/*
 * Cases: programs that limit their own system calls. The kernel kills them, or refuses the call,
 * where the library makes a call that they did not make.
 */
#include "sets.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* Answers each of the calls with `listed`, and all others with `other`. */
static struct sock_fprog filter_of(const int *calls, int count, unsigned listed, unsigned other)
{
    static struct sock_filter code[64];
    int at = 0;
    code[at++] = (struct sock_filter)BPF_STMT(
        BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int i = 0; i < count; i++) {
        code[at++] = (struct sock_filter)BPF_JUMP(
            BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i], 0, 1);
        code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, listed);
    }
    code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, other);
    return (struct sock_fprog) { (unsigned short)at, code };
}

/* The calls of the limited programs below. */
static const int own_calls[] = { SYS_read, SYS_write, SYS_sendto, SYS_recvfrom, SYS_close, SYS_exit,
    SYS_exit_group,
#ifdef SYS_poll
    SYS_poll, SYS_epoll_wait
#else
    SYS_ppoll, SYS_epoll_pwait
#endif
};
#define OWN_CALLS (int)(sizeof own_calls / sizeof *own_calls)

static int same(const char *from, const char *text)
{
    return memcmp(from, text, strlen(text)) == 0;
}

/* Ends without a call that a limit forbids. */
static void leave(int code)
{
    for (;;)
        syscall(SYS_exit, code);
}

/* Takes what came before the limit, and talks on. `turns` is even. */
static void talk_limited(int turns, int strict)
{
    char word[20];
    for (int i = 0; i < 2; i++)
        if (read(fd, word, 5) != 5 || !same(word, i ? "fghij" : "abcde"))
            leave(8);
    for (int i = 0; i < turns; i++) {
        int sent = strict || i % 2 ? (int)write(fd, "question", 8)
                                   : (int)send(fd, "question", 8, 0);
        struct pollfd one = { fd, POLLIN, 0 };
        if (sent != 8 || (!strict && (poll(&one, 1, -1) != 1 || one.revents != POLLIN)))
            leave(9);
        for (int come = 0, now; come < 6; come += now)
            if ((now = strict || i % 2 ? (int)read(fd, word + come, 6 - come)
                                       : (int)recv(fd, word + come, 6 - come, 0)) <= 0)
                leave(10);
        if (!same(word, "answer"))
            leave(11);
    }
    if (strict)
        leave(7);
    close(fd);
    /* The C library's call is exit_group alone. */
    _exit(7);
}

static void limit(int strict)
{
    struct sock_fprog filter
        = filter_of(own_calls, OWN_CALLS, SECCOMP_RET_ALLOW, SECCOMP_RET_KILL_PROCESS);
    if (strict ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)
               : prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
                || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
        leave(12);
}

static void in_child(void (*work)(void))
{
    int outcome;
    await_next();
    until_bytes(fd, 10);
    pid_t child = fork();
    if (child == 0)
        work();
    while (waitpid(child, &outcome, 0) < 0 && errno == EINTR)
        ;
    if (WIFSIGNALED(outcome))
        say("the limited program was killed by signal %d", WTERMSIG(outcome));
    else
        say("the limited program ended with %d", WEXITSTATUS(outcome));
    DO(close(fd));
}

static void strict(void)
{
    limit(1);
    talk_limited(40, 1);
}

static void filtered(void)
{
    limit(0);
    talk_limited(40, 0);
}

/* Another thread seems to hold the locks of the stream: to wait for it would take system calls. */
static void locked(void)
{
    static const int words[4] = { 512 + 40, 512 + 152, 1024 + 40, 1024 + 152 };
    volatile unsigned long *page = page_of(fd);
    unsigned long holder = held_by_another();
    char word[10];
    limit(0);
    for (int i = 0; page && i < 4; i++)
        page[words[i] / 8] = holder;
    recv(fd, word, sizeof word, MSG_DONTWAIT);
    leave(7);
}

/* An event loop with bytes that came before the limit. */
static void looping(void)
{
    struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };
    int set = epoll_create1(0);
    epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
    if (epoll_wait(set, &event, 1, -1) != 1)
        leave(13);
    limit(0);
    if (epoll_wait(set, &event, 1, -1) != 1 || event.data.fd != fd)
        leave(14);
    talk_limited(40, 0);
}

void one_limit_strict(void)
{
    in_child(strict);
}

void one_limit_filter(void)
{
    in_child(filtered);
}

void one_limit_loop(void)
{
    in_child(looping);
}

void one_limit_locked(void)
{
    in_child(locked);
}

void two_limit_locked(void)
{
    DO(write(fd, "0123456789", 10));
    allow_next();
    until_ready(fd, POLLHUP | POLLRDHUP);
}

void two_limit(void)
{
    DO(write(fd, "abcde", 5));
    DO(write(fd, "fghij", 5));
    allow_next();
    for (int i = 0; i < 40; i++) {
        GET(recv(fd, bytes, 8, MSG_WAITALL));
        DO(write(fd, "answer", 6));
    }
    DO(read(fd, bytes, 10));
}

/* A filter that the library does not see: before a ring, each send is the program's own. */
void one_limit_own(void)
{
    static const int others[] = { SYS_sendmsg, SYS_recvmsg, SYS_sendmmsg, SYS_recvmmsg };
    struct sock_fprog filter
        = filter_of(others, 4, SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_ALLOW);
    long answer, mode = SECCOMP_MODE_FILTER, option = PR_SET_SECCOMP;
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
#ifdef __x86_64__
    register long third __asm__("rdx") = (long)&filter;
    __asm__ volatile("syscall" : "=a"(answer) : "a"(SYS_prctl), "D"(option), "S"(mode), "r"(third)
        : "rcx", "r11", "memory");
#else
    answer = syscall(SYS_prctl, option, mode, &filter);
#endif
    DO(answer);
    struct iovec part = { bytes, 4 };
    DO(write(fd, "w", 1));
    DO(send(fd, "s", 1, 0));
    memcpy(bytes, "vvvv", 4);
    DO(writev(fd, &part, 1));
    FILE *file = tmpfile();
    DO(pwrite(fileno(file), "file", 4, 0));
    DO(sendfile(fd, fileno(file), NULL, 4));
    DO(close(fd));
}

void two_limit_own(void)
{
    GET(recv(fd, bytes, 10, MSG_WAITALL));
    DO(read(fd, bytes, 10));
}

/* The next program inherits the filter. */
void one_limit_exec(void)
{
    static const int others[] = { SYS_sendmsg, SYS_recvmsg, SYS_socket, SYS_getsockopt,
        SYS_setsockopt, SYS_getpeername, SYS_ftruncate, SYS_linkat, SYS_renameat2 };
    int outcome;
    DO(write(fd, "before exec", 11));
    char **words = resume("talk", fd);
    pid_t child = fork();
    if (child == 0) {
        struct sock_fprog filter
            = filter_of(others, 9, SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ALLOW);
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
            || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
            _exit(12);
        execv(words[0], words);
        _exit(127);
    }
    while (waitpid(child, &outcome, 0) < 0 && errno == EINTR)
        ;
    say("the program ended with %d", WIFEXITED(outcome) ? WEXITSTATUS(outcome) : -1);
    DO(write(fd, "parent again", 12));
    await_next();
    GET(read(fd, bytes, 100));
    DO(close(fd));
}

/* The child of a vfork limits itself before its exec. The streams that its program does not inherit
 * go on in the parent. */
void one_limit_vfork(void)
{
    static const int others[] = { SYS_fcntl, SYS_getsockopt, SYS_setsockopt, SYS_getpeername,
        SYS_openat, SYS_shutdown };
    char *words[] = { "static", NULL };
    const char *name = getenv("M3_MATRIX_STATIC");
    int outcome, null = open("/dev/null", O_RDONLY);
    if (!name)
        leave_out("there is no static program");
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    await_next();
    until_bytes(fd, 10);
    struct sock_fprog filter
        = filter_of(others, 6, SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ALLOW);
    pid_t child = vfork();
    if (child == 0) {
        if (dup2(null, 0) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
            || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
            _exit(12);
        execv(name, words);
        _exit(127);
    }
    while (waitpid(child, &outcome, 0) < 0 && errno == EINTR)
        ;
    if (WIFSIGNALED(outcome))
        say("the program was killed by signal %d", WTERMSIG(outcome));
    else
        say("the program ended with %d", WEXITSTATUS(outcome));
    GET(recv(fd, bytes, 10, MSG_WAITALL));
    for (int i = 0; i < 10; i++) {
        DO(write(fd, "question", 8));
        GET(recv(fd, bytes, 6, MSG_WAITALL));
    }
    DO(close(fd));
}

void two_limit_vfork(void)
{
    DO(write(fd, "abcde", 5));
    DO(write(fd, "fghij", 5));
    allow_next();
    for (int i = 0; i < 10; i++) {
        GET(recv(fd, bytes, 8, MSG_WAITALL));
        DO(write(fd, "answer", 6));
    }
    DO(read(fd, bytes, 10));
}

/* Forbids some calls. */
static void forbid(const int *calls, int count, unsigned flags)
{
    struct sock_fprog filter
        = filter_of(calls, count, SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ALLOW);
    DO(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    DO(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &filter));
}

/* Forbids the calls that the library makes for a ring. fork, the log and waits are allowed. */
static void limit_library(void)
{
    static const int others[] = { SYS_madvise, SYS_kill, SYS_getsockopt, SYS_setsockopt,
        SYS_sendmsg, SYS_recvmsg, SYS_recvfrom, SYS_ppoll, SYS_eventfd2, SYS_fcntl,
        SYS_readlinkat, SYS_openat, SYS_rt_sigprocmask, SYS_sched_yield, SYS_close_range };
    forbid(others, 15, 0);
}

/* Lets the other side write to an event loop that is awake, then limits the process. */
static int set_with_bytes(void (*limits)(void))
{
    int set = idle_set(EPOLLIN);
    /* The other side does nothing after the write that this side could learn from the kernel, so
     * the bytes have no wakeup byte. */
    far_later(0, 0, "0123456789");
    until_bytes(fd, 10);
    limits();
    return set;
}

/* A child by fork of a process that has limited itself waits in its parent's event loop. */
void two_limit_fork(void)
{
    int set = set_with_bytes(limit_library);
    CHILD {
        WAIT(set, -1);
        GET(read(fd, bytes, 4));
        WAIT(set, -1);
        GET(read(fd, bytes, 100));
        WAIT(set, 0);
    }
    WAIT(set, 0);
    far_write(0, "later");
    WAIT(set, -1);
    GET(read(fd, bytes, 100));
}

/* Other waits than the one that the bytes were for. */
void two_limit_polls(void)
{
    fd_set reads;
    int set = set_with_bytes(limit_library), late = epoll_create1(0);
    struct pollfd both[2] = { { set, POLLIN, 0 }, { fd, POLLIN, 0 } };
    DO(poll(both, 2, -1));
    say("%#x %#x", both[0].revents, both[1].revents);
    FD_ZERO(&reads);
    FD_SET(fd, &reads);
    DO(select(fd + 1, &reads, NULL, NULL, NULL));
    watch(late, EPOLL_CTL_ADD, fd, EPOLLIN, 2);
    WAIT(late, -1);
    GET(read(fd, bytes, 4));
    watch(set, EPOLL_CTL_MOD, fd, EPOLLIN, 3);
    WAIT(set, -1);
    watch(set, EPOLL_CTL_DEL, fd, 0, 0);
    WAIT(set, 0);
    DO(poll(both + 1, 1, -1));
    GET(read(fd, bytes, 100));
    DO(poll(both, 2, 0));
    WAIT(late, 0);
    far_write(0, "later");
    DO(poll(both + 1, 1, -1));
    WAIT(late, -1);
    GET(read(fd, bytes, 100));
}

static volatile int handled;

static void handle(int number)
{
    handled += number == SIGUSR2;
}

/* What the kernel alone knows is in the same answer as bytes of a ring. No wait without time lets a
 * signal in. */
void two_limit_others(void)
{
    sigset_t none, one;
    fd_set reads, writes, excepts;
    struct timespec later = { 100, 0 };
    int pipes[2], closed = dup(0);
    DO(pipe(pipes));
    DO(write(pipes[1], "x", 1));
    sigemptyset(&none);
    sigemptyset(&one);
    sigaddset(&one, SIGUSR2);
    sigaction(SIGUSR2, &(struct sigaction) { .sa_handler = handle }, NULL);
    sigprocmask(SIG_BLOCK, &one, NULL);
    raise(SIGUSR2);
    int set = set_with_bytes(limit_library);
    close(closed);
    watch(set, EPOLL_CTL_ADD, pipes[0], EPOLLIN, 2);
    for (int i = 0; i < 2; i++) {
        struct pollfd all[] = { { fd, POLLIN | POLLOUT, 0 }, { pipes[0], POLLIN, 0 },
            { pipes[1], POLLOUT, 0 }, { set, POLLIN, 0 }, { closed, POLLIN, 0 }, { -1, 0, 1 } };
        DO(poll(all, 6, i - 1));
        for (int at = 0; at < 6; at++)
            say("%d: %#x", at, all[at].revents);
        FD_ZERO(&reads);
        FD_SET(fd, &reads);
        FD_SET(pipes[0], &reads);
        writes = excepts = reads;
        FD_SET(pipes[1], &writes);
        DO(pselect(pipes[1] + 1, &reads, &writes, &excepts, i ? &later : NULL, &none));
        say("reads %d %d, writes %d %d %d, excepts %d %d, %d handled", FD_ISSET(fd, &reads),
            FD_ISSET(pipes[0], &reads), FD_ISSET(fd, &writes), FD_ISSET(pipes[0], &writes),
            FD_ISSET(pipes[1], &writes), FD_ISSET(fd, &excepts), FD_ISSET(pipes[0], &excepts),
            handled);
        WAIT(set, i - 1);
        found("with a mask", epoll_pwait(set, list, 64, -1, &none), list);
        say("%d handled", handled);
    }
    FD_ZERO(&reads);
    FD_SET(fd, &reads);
    FD_SET(closed, &reads);
    DO(select(FD_SETSIZE, &reads, NULL, NULL, NULL));
    GET(read(fd, bytes, 100));
    WAIT(set, 0);
}

/* The library has seen no address of this list before. */
void two_limit_vectors(void)
{
    static struct iovec parts[1024] __attribute__((aligned(8192)));
    static char room[16];
    parts[700] = (struct iovec) { room, 4 };
    parts[701] = (struct iovec) { room + 4, 12 };
    set_with_bytes(limit_library);
    DO(readv(fd, parts + 700, 2));
    say("%.10s", room);
    far_write(0, "later");
    DO(poll(&(struct pollfd) { fd, POLLIN, 0 }, 1, -1));
    DO(readv(fd, parts + 700, 2));
    say("%.5s", room);
}

static void limit_rings(void)
{
    static const int others[] = { SYS_madvise, SYS_sendmsg, SYS_recvmsg, SYS_eventfd2 };
    forbid(others, 4, 0);
}

void two_limit_refused(void)
{
    int set = set_with_bytes(limit_rings);
    refused_limits(set);
    WAIT(set, -1);
    GET(read(fd, bytes, 100));
    refused_limits(set);
}

/* Another thread limits the process while this one sleeps in a wait, with looks at many rings. */
void two_limit_asleep(void)
{
    static const int others[] = { SYS_epoll_pwait };
    struct sleeper one;
    mesh(24);
    int set = epoll_create1(0);
    for (int i = 1; i <= 24; i++)
        watch(set, EPOLL_CTL_ADD, ends[i], EPOLLIN, i);
    for (int i = 1; i <= 24; i++) {
        far_write(i, "light");
        WAIT(set, 30000);
        GET(recv(ends[i], bytes, 5, MSG_WAITALL));
        WAIT(set, 0);
    }
    begin(&one, set, act_wait);
    forbid(others, 1, SECCOMP_FILTER_FLAG_TSYNC);
    usleep(400000);
    far_write(3, "asleep");
    finish(&one, "wait");
    GET(recv(ends[3], bytes, 6, MSG_WAITALL));
}
