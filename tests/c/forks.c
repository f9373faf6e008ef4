/*
 * Children by fork of a program whose other threads are inside the library: each child binds, and
 * makes areas and sockets of its own. It may not use those of its parent, and closes them.
 */
#include <errno.h>
#include <m3ipc.h>
#include <m3ipc/sock.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define VM 9
#define FORKS 150
/* Seconds after which a child counts as hung: far beyond what a busy machine needs. */
#define HUNG_S 60

static int epoll_fd, pair[2];

static int one_area(void)
{
    int area = m3_area_create(1 << 20, M3_ANY, 0);
    return area >= 0 && m3_area_detach(area) == M3_OK;
}

static int one_socket(void)
{
    int fd = m3_socket(M3_AF_COM, SOCK_STREAM, 0);
    return fd >= 0 && m3_close(fd) == 0;
}

static void *areas(void *unused)
{
    for (m3_tbind_any(VM);; usleep(100))
        one_area();
    return unused;
}

static void *sockets(void *unused)
{
    for (;; usleep(100))
        one_socket();
    return unused;
}

static void *binds(void *unused)
{
    for (;; usleep(100)) {
        int own = m3_tbind_any(VM);
        if (own > -300)
            mnx_unbind(VM, own);
        m3_strerror(own);
    }
    return unused;
}

static int fails(int result, int with)
{
    return result == -1 && errno == with;
}

/* What a child does. Returns the number of the first step that is not as it should be, or 0. */
static int child(void)
{
    char byte;
    struct epoll_event event;
    int step = 1;
    if (!fails((int)m3_recv(pair[0], &byte, 1, 0), ENOTCONN))
        return step;
    step++;
    if (!fails(m3_epoll_wait(epoll_fd, &event, 1, 0), ENOTCONN))
        return step;
    step++;
    if (m3_close(pair[0]) != 0 || !fails(m3_close(pair[0]), EBADF))
        return step;
    step++;
    if (m3_close(epoll_fd) != 0 || !fails(m3_close(epoll_fd), EBADF))
        return step;
    step++;
    if (m3_bind_any(VM) <= -300)
        return step;
    step++;
    if (!one_area())
        return step;
    step++;
    return one_socket() ? 0 : step;
}

/* A connection of this process with itself. */
static int connect_pair(void)
{
    struct sockaddr_in at;
    socklen_t length = sizeof at;
    int listener = m3_socket(M3_AF_COM, SOCK_STREAM, 0);
    if (listener < 0 || m3_listen(listener, 4) != 0)
        return 0;
    if (m3_getsockname(listener, (struct sockaddr *)&at, &length) != 0)
        return 0;
    pair[1] = m3_socket(M3_AF_COM, SOCK_STREAM, 0);
    if (m3_connect(pair[1], (struct sockaddr *)&at, sizeof at) != 0)
        return 0;
    pair[0] = m3_accept(listener, NULL, NULL);
    return pair[0] >= 0;
}

int main(void)
{
    m3_vm_usr_t vm = { .vm_vmid = VM, .vm_life = M3_VM_WITH_CREATOR, .vm_name = "forks" };
    void *(*const threads[])(void *) = { areas, areas, sockets, sockets, binds };
    int failed = 0;
    mnx_drvs_init(M3_LOCALNODE, NULL);
    if (m3_vm_open_or_create(&vm) != M3_OK || m3_bind_any(VM) <= -300 || !connect_pair()) {
        puts("no fixture");
        return 1;
    }
    epoll_fd = m3_epoll_create1(0);
    for (size_t at = 0; at < sizeof threads / sizeof *threads; at++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, threads[at], NULL) != 0)
            return 1;
    }
    for (int fork_number = 0; fork_number < FORKS && failed < 3; fork_number++) {
        int status;
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
            alarm(HUNG_S);
            _exit(child());
        }
        if (pid < 0 || waitpid(pid, &status, 0) != pid)
            return 1;
        if (status != 0) {
            failed++;
            if (WIFSIGNALED(status))
                printf("child %d ended by signal %d\n", fork_number, WTERMSIG(status));
            else
                printf("child %d failed in step %d\n", fork_number, WEXITSTATUS(status));
        }
    }
    /* The parent goes on. */
    char byte = 'x';
    if (m3_send(pair[1], &byte, 1, 0) != 1 || m3_recv(pair[0], &byte, 1, 0) != 1) {
        puts("the parent lost its connection");
        failed++;
    }
    printf("%d passed, %d failed\n", FORKS - failed, failed);
    fflush(stdout);
    _exit(failed != 0);
}
