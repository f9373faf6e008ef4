/*
 * A thread that is cancelled while it is inside the library: no call is a cancellation point, so
 * each ends as ever, and the thread ends behind them.
 */
#include <m3ipc.h>
#include <m3ipc/sock.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define VM 9

static atomic_int is_cancelled, passed, failed, step;

static void expect(const char *call, int is_right)
{
    atomic_fetch_add(is_right ? &passed : &failed, 1);
    if (!is_right)
        printf("%s failed in a cancelled thread: %s\n", call, m3_last_reason());
}

static void *calls(void *unused)
{
    int before, own, area, fd;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    while (!atomic_load(&is_cancelled))
        sched_yield();
    pthread_setcancelstate(before, &before);
    own = m3_tbind_any(VM);
    expect("m3_tbind_any", own > -300);
    area = m3_area_create(1 << 20, M3_ANY, 0);
    expect("m3_area_create", area >= 0);
    expect("m3_area_detach", m3_area_detach(area) == M3_OK);
    fd = m3_socket(M3_AF_COM, SOCK_STREAM, 0);
    expect("m3_socket", fd >= 0);
    expect("m3_close", m3_close(fd) == 0);
    expect("mnx_unbind", mnx_unbind(VM, own) == M3_OK);
    pthread_testcancel();
    expect("pthread_testcancel", 0);
    return unused;
}

static void reach(int number)
{
    atomic_store(&step, number);
}

static void await(int number)
{
    while (atomic_load(&step) < number)
        sched_yield();
}

/* The process of the node daemon, or 0. */
static int daemon_pid(void)
{
    char path[4096];
    int pid = 0;
    FILE *lock;

    snprintf(path, sizeof path, "%s/lock", getenv("M3_RUNTIME_DIR"));
    lock = fopen(path, "r");
    if (lock != NULL) {
        if (fscanf(lock, "%d", &pid) != 1)
            pid = 0;
        fclose(lock);
    }
    return pid;
}

/* Receives until nothing is there; the number of notifications. */
static int drain(void)
{
    int count = 0;
    m3_message message;
    while (mnx_receive_T(M3_ANY, &message, M3_TIMEOUT_NOWAIT) == M3_OK)
        count++;
    return count;
}

/* Rings a doorbell that its owner has replaced since the last ring. */
static void *rings(void *main_endpoint)
{
    int before, to = *(int *)main_endpoint;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    expect("m3_tbind_any", m3_tbind_any(VM) > -300);
    expect("the first mnx_notify", mnx_notify(to) == M3_OK);
    reach(1);
    await(2);
    expect("the second mnx_notify", mnx_notify(to) == M3_OK);
    reach(3);
    await(4);
    pthread_setcancelstate(before, &before);
    expect("mnx_notify", mnx_notify(to) == M3_OK);
    pthread_testcancel();
    expect("pthread_testcancel", 0);
    return NULL;
}

static void ring_after_a_new_daemon(int own)
{
    pthread_t thread;
    void *end = NULL;
    int former;

    expect("m3_fd", m3_fd() >= 0);
    drain();
    if (pthread_create(&thread, NULL, rings, &own) != 0) {
        expect("pthread_create", 0);
        return;
    }
    await(1);
    while (drain() == 0)
        sched_yield();
    reach(2);
    await(3);
    while (drain() == 0)
        sched_yield();
    former = daemon_pid();
    expect("kill", former > 0 && kill(former, SIGKILL) == 0);
    while (daemon_pid() == former || daemon_pid() == 0)
        drain();
    drain();
    pthread_cancel(thread);
    reach(4);
    pthread_join(thread, &end);
    expect("pthread_join", end == PTHREAD_CANCELED);
    expect("mnx_receive_T", drain() == 1);
}

int main(void)
{
    int own;
    m3_vm_usr_t vm = { .vm_vmid = VM, .vm_life = M3_VM_WITH_CREATOR, .vm_name = "cancelled" };
    pthread_t thread;
    void *end = NULL;

    mnx_drvs_init(M3_LOCALNODE, NULL);
    if (m3_vm_open_or_create(&vm) != M3_OK || (own = m3_bind_any(VM)) <= -300 ||
        pthread_create(&thread, NULL, calls, NULL) != 0) {
        puts("no fixture");
        return 1;
    }
    pthread_cancel(thread);
    atomic_store(&is_cancelled, 1);
    pthread_join(thread, &end);
    expect("pthread_join", end == PTHREAD_CANCELED);
    ring_after_a_new_daemon(own);
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
