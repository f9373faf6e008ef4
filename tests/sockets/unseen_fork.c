/*
 * Cases: children and limits by ways that few programs take, and small stacks.
 */
#include "sets.h"
#include <pty.h>
#include <sched.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

/* Whether 200 questions were answered by a loop over a set that was made before. */
static int answered(int set)
{
    struct epoll_event event;
    char word[16];
    for (int turn = 0; turn < 200; turn++)
        if (epoll_wait(set, &event, 1, -1) != 1 || recv(fd, word, 8, MSG_WAITALL) != 8
            || memcmp(word, "question", 8) != 0 || write(fd, "answered", 8) != 8)
            return 0;
    return 1;
}

static int answer(void *given)
{
    _exit(answered(*(int *)given) ? 7 : 9);
}

static int loop_set(void)
{
    struct epoll_event event = { .events = EPOLLIN, .data.u32 = 3 };
    char word[16];
    int set = epoll_create1(0);
    DO(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    for (int turn = 0; turn < 100; turn++)
        if (epoll_wait(set, &event, 1, -1) != 1 || recv(fd, word, 8, MSG_WAITALL) != 8
            || write(fd, "answered", 8) != 8)
            quit("no question");
    return set;
}

static void ask(int turns)
{
    char word[16];
    for (int turn = 0; turn < turns; turn++)
        if (write(fd, "question", 8) != 8 || recv(fd, word, 8, MSG_WAITALL) != 8
            || memcmp(word, "answered", 8) != 0)
            quit("no answer");
    say("%d answers", turns);
}

#define ASKS(name) void one_##name(void) { ask(300); }

static void end_of(pid_t child)
{
    int outcome = 0;
    if (child < 0)
        quit("no child");
    while (waitpid(child, &outcome, 0) < 0 && errno == EINTR)
        ;
    say("the child ended with %d", WIFEXITED(outcome) ? WEXITSTATUS(outcome) : -1);
}

ASKS(unseen_clone)
void two_unseen_clone(void)
{
    static char stack[1 << 18] __attribute__((aligned(16)));
    int set = loop_set();
    end_of(clone(answer, stack + sizeof stack, SIGCHLD, &set));
}

ASKS(unseen_number)
void two_unseen_number(void)
{
    int set = loop_set();
    pid_t child = (pid_t)syscall(SYS_clone, (long)SIGCHLD, 0L, 0L, 0L, 0L);
    if (child == 0)
        answer(&set);
    end_of(child);
}

/* A child that its parent holds by a descriptor. */
ASKS(unseen_pidfd)
void two_unseen_pidfd(void)
{
    int set = loop_set(), held = -1;
    /* clone_args: flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls */
    unsigned long long words[8] = { CLONE_PIDFD, (unsigned long)&held, 0, 0, SIGCHLD };
    siginfo_t end = { 0 };
    pid_t child = (pid_t)syscall(SYS_clone3, words, sizeof words);
    if (child == 0)
        answer(&set);
    until_ready(held, POLLIN);
    DO(waitid(P_PIDFD, held, &end, WEXITED));
    say("the child ended with %d", end.si_status);
    close(held);
}

ASKS(unseen_daemon)
void two_unseen_daemon(void)
{
    int set = loop_set(), told[2];
    pid_t child = fork();
    if (child == 0) {
        if (pipe(told) != 0 || daemon(1, 1) != 0)
            _exit(8);
        answer(&set);
    }
    waitpid(child, NULL, 0);
}

/* A thread gets descriptors of its own: the socket's number is another one's there. */
static void *apart(void *by_number)
{
    int ends[2];
    if ((by_number ? (int)syscall(SYS_unshare, (long)CLONE_FILES) : unshare(CLONE_FILES)) != 0)
        quit("unshare");
    if (pipe(ends) != 0 || close(fd) != 0 || dup2(ends[1], fd) != fd
        || write(fd, "no answer", 9) != 9)
        quit("the thread's own pipe");
    return NULL;
}

static void answer_apart(void *by_number)
{
    pthread_t thread;
    int set = loop_set();
    if (pthread_create(&thread, NULL, apart, by_number) != 0 || pthread_join(thread, NULL) != 0)
        quit("the thread");
    say("answered: %d", answered(set));
}

ASKS(unseen_apart)
void two_unseen_apart(void) { answer_apart(NULL); }
ASKS(unseen_apart_number)
void two_unseen_apart_number(void) { answer_apart((void *)1); }

/* The library's own dup2: the standard input is no stream any more. */
void one_unseen_null(void)
{
    DO(write(fd, "for nobody", 10));
    await_next();
}

void two_unseen_null(void)
{
    until_bytes(fd, 10);
    pid_t child = fork();
    if (child == 0) {
        dup2(fd, 0);
        if (daemon(1, 0) != 0)
            _exit(8);
        DO(read(0, bytes, 10));
        fflush(NULL);
        allow_next();
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

ASKS(unseen_terminal)
void two_unseen_terminal(void)
{
    int set = loop_set(), terminal;
    pid_t child = forkpty(&terminal, NULL, NULL, NULL);
    if (child == 0)
        answer(&set);
    end_of(child);
}

/* The parent goes on with the set while a child reads. */
void one_unseen_both(void)
{
    for (int turn = 0; turn < 50; turn++) {
        char word[16];
        if (write(fd, "question", 8) != 8 || recv(fd, word, 8, MSG_WAITALL) != 8)
            quit("no answer");
    }
    ask(100);
}

static int read_some(void *unused)
{
    char word[16];
    (void)unused;
    for (int turn = 0; turn < 50; turn++)
        if (recv(fd, word, 8, MSG_WAITALL) != 8 || write(fd, "answered", 8) != 8)
            _exit(9);
    _exit(7);
}

void two_unseen_both(void)
{
    static char stack[1 << 18] __attribute__((aligned(16)));
    struct epoll_event event = { .events = EPOLLIN, .data.u32 = 3 };
    char word[16];
    int set = epoll_create1(0);
    DO(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    DO(epoll_wait(set, &event, 1, 0) <= 1);
    end_of(clone(read_some, stack + sizeof stack, SIGCHLD, NULL));
    for (int turn = 0; turn < 100; turn++)
        if (epoll_wait(set, &event, 1, -1) != 1 || recv(fd, word, 8, MSG_WAITALL) != 8
            || write(fd, "answered", 8) != 8)
            quit("no question");
}

/* No process may make files larger than nothing: the library must not get a signal for that. */
static void limit_files(void)
{
    struct rlimit none = { 0, 0 };
    if (setrlimit(RLIMIT_FSIZE, &none) != 0)
        quit("setrlimit");
}

void one_unseen_size(void)
{
    struct sockaddr_storage at;
    socklen_t length;
    int made = listener(&at, &length, 1), outcome = 0;
    pid_t child = fork();
    if (child == 0) {
        limit_files();
        fd = connected(&at, length);
        warm(fd, 1);
        fill(bytes, 100000, 5);
        _exit(write(fd, bytes, 100000) == 100000 ? 7 : 8);
    }
    pid_t server = fork();
    if (server == 0) {
        limit_files();
        fd = accept(made, NULL, NULL);
        warm(fd, 0);
        long count = recv(fd, bytes, 100000, MSG_WAITALL);
        _exit(count == 100000 ? 7 : 8);
    }
    close(made);
    waitpid(child, &outcome, 0);
    say("the sender: %#x", outcome);
    waitpid(server, &outcome, 0);
    say("the receiver: %#x", outcome);
}

/* Each call on the stack of a signal handler, which has so much room beside the kernel's part. */
#define ROOM 16384
#define LARGE_ROOM 65536
static int small_step;

static void act_small(int number)
{
    int through[2] = { -1, -1 };
    struct epoll_event event = { .events = EPOLLIN };
    struct iovec part = { bytes, 8 };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
    struct pollfd one = { fd, POLLIN, 0 };
    (void)number;
    switch (small_step) {
    case 0:
        write(fd, "12345678", 8);
        break;
    case 1:
        read(fd, bytes, 8);
        break;
    case 2:
        sendmsg(fd, &message, 0);
        break;
    case 3:
        recvmsg(fd, &message, 0);
        break;
    case 4:
        writev(fd, &part, 1);
        break;
    case 5:
        poll(&one, 1, 1000);
        break;
    case 6:
        readv(fd, &part, 1);
        break;
    case 7: {
        int set = epoll_create1(0);
        epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
        write(fd, "12345678", 8);
        epoll_wait(set, &event, 1, 1000);
        recv(fd, bytes, 8, MSG_WAITALL);
        close(set);
        break;
    }
    case 8: {
        int file = open("/proc/self/exe", O_RDONLY);
        off_t from = 0;
        sendfile(fd, file, &from, 8);
        close(file);
        recv(fd, bytes, 8, MSG_WAITALL);
        break;
    }
    case 9: {
        fd_set set;
        FD_ZERO(&set);
        FD_SET(fd, &set);
        write(fd, "12345678", 8);
        select(fd + 1, &set, NULL, NULL, NULL);
        break;
    }
    case 10:
        if (pipe(through) == 0)
            splice(fd, NULL, through[1], NULL, 8, 0);
        close(through[0]);
        close(through[1]);
        break;
    case 11:
        close(dup(fd));
        break;
    }
}

void one_unseen_stack(void)
{
    struct sigaction action = { .sa_handler = act_small, .sa_flags = SA_ONSTACK };
    size_t frame = sysconf(_SC_MINSIGSTKSZ);
    for (small_step = 0; small_step < 12; small_step++) {
        /* epoll_wait keeps its lists there, and sendfile a piece of the file. */
        size_t size = frame + (small_step == 7 || small_step == 8 ? LARGE_ROOM : ROOM);
        char *room = mmap(NULL, size + 4096, PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        stack_t stack = { .ss_sp = room + 4096, .ss_size = size };
        if (room == MAP_FAILED || mprotect(room, 4096, PROT_NONE) != 0
            || sigaltstack(&stack, NULL) != 0 || sigaction(SIGUSR1, &action, NULL) != 0)
            quit("sigaltstack");
        raise(SIGUSR1);
        say("step %d", small_step);
        fflush(NULL);
    }
    shutdown(fd, SHUT_WR);
}

/* Sends back all that comes. */
void two_unseen_stack(void)
{
    long count;
    while ((count = read(fd, bytes, 4096)) > 0)
        if (write(fd, bytes, count) != count)
            quit("write");
}

/* A handler leaves receives by siglongjmp again and again; then bytes come. */
static sigjmp_buf out;

static void jump(int number)
{
    (void)number;
    siglongjmp(out, 1);
}

void one_unseen_jump(void)
{
    volatile int jumps = 0;
    signal(SIGALRM, jump);
    while (jumps < 3000) {
        if (sigsetjmp(out, 1) == 0) {
            struct itimerval soon = { .it_value.tv_usec = 1 + jumps * 37 % 90 };
            setitimer(ITIMER_REAL, &soon, NULL);
            read(fd, bytes, 10);
            quit("read came back");
        }
        jumps++;
    }
    say("%d jumps", jumps);
    allow_next();
    for (long all = 0, now; all < 8; all += now)
        if ((now = read(fd, bytes + all, 8 - all)) <= 0) {
            DO(now);
            return;
        }
    GET(8);
    DO(write(fd, "answered", 8));
}

void two_unseen_jump(void)
{
    await_next();
    DO(write(fd, "question", 8));
    GET(recv(fd, bytes, 8, MSG_WAITALL));
}
