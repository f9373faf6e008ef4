/*
 * A thread that is cancelled while it is inside the library: no call is a cancellation point, so
 * each ends as ever, and the thread ends behind them.
 */
#include <m3ipc.h>
#include <m3ipc/sock.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

#define VM 9

static atomic_int is_cancelled, passed, failed;

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

int main(void)
{
    m3_vm_usr_t vm = { .vm_vmid = VM, .vm_life = M3_VM_WITH_CREATOR, .vm_name = "cancelled" };
    pthread_t thread;
    void *end = NULL;

    mnx_drvs_init(M3_LOCALNODE, NULL);
    if (m3_vm_open_or_create(&vm) != M3_OK || m3_bind_any(VM) <= -300 ||
        pthread_create(&thread, NULL, calls, NULL) != 0) {
        puts("no fixture");
        return 1;
    }
    pthread_cancel(thread);
    atomic_store(&is_cancelled, 1);
    pthread_join(thread, &end);
    expect("pthread_join", end == PTHREAD_CANCELED);
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
