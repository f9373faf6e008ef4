/*
 * Receives with far more room than bytes: the call needs memory for what arrives, not for the room.
 * A room with a bad page fails only where bytes would go there.
 */
#include <m3ipc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROOM ((size_t)1 << 30)
#define LIMIT_MS 60000
#define VM 12

static void must(int good, const char *what)
{
    if (good)
        return;
    printf("%s: %s\n", what, m3_last_reason());
    exit(1);
}

static char *map(size_t bytes)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    char *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    must(start != MAP_FAILED, "memory");
    return start;
}

/* Leaves this process 32 MB more addresses than it has, or takes the limit away. */
static void limit_memory(int on)
{
    struct rlimit limit;
    unsigned long pages = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    must(statm && fscanf(statm, "%lu", &pages) == 1, "the size of the process");
    fclose(statm);
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = on ? pages * 4096 + ((rlim_t)32 << 20) : limit.rlim_max;
    must(setrlimit(RLIMIT_AS, &limit) == 0, "the limit of the memory");
}

static void client(void)
{
    static char bytes[100000];
    static const size_t lengths[] = { 0, 48, 1792, 48, 48, 100000, 100, 5000 };
    m3_message m;
    memset(bytes, 'b', sizeof bytes);
    must(mnx_bind(VM, 2) == 2, "the client binds");
    for (size_t at = 0; at < sizeof lengths / sizeof *lengths; at++) {
        memset(&m, 0, sizeof m);
        must(m3_send_long_T(1, &m, bytes, lengths[at], LIMIT_MS) == M3_OK, "a send");
    }
    /* Its answer comes to a long room too. */
    char *room = map(ROOM);
    size_t length;
    limit_memory(1);
    must(m3_sendrec_long_T(1, &m, bytes, 7, room, ROOM, &length, LIMIT_MS) == M3_OK, "a call");
    must(length == 3 && memcmp(room, "abc", 3) == 0, "the answer");
    exit(0);
}

int main(void)
{
    m3_vm_usr_t vm = { .vm_vmid = VM, .vm_life = M3_VM_WITH_CREATOR, .vm_name = "room" };
    m3_message m;
    size_t length;
    int status;
    must(mnx_drvs_init(M3_LOCALNODE, NULL) >= 0, "the node");
    must(m3_vm_open_or_create(&vm) == M3_OK, "the VM");
    must(mnx_bind(VM, 1) == 1, "the server binds");
    pid_t child = fork();
    if (child == 0)
        client();

    char *room = map(ROOM);
    must(mnx_wait4bindep_T(2, LIMIT_MS) >= 0, "the client");
    limit_memory(1);
    static const size_t expected[] = { 0, 48, 1792 };
    for (size_t at = 0; at < 3; at++) {
        must(m3_receive_long_T(2, &m, room, ROOM, &length, LIMIT_MS) == M3_OK, "a receive");
        must(length == expected[at] && (!length || room[length - 1] == 'b'), "its bytes");
    }
    struct iovec parts[] = { { room, ROOM / 2 }, { room + ROOM / 2, ROOM / 2 } };
    must(m3_receivev_T(2, &m, parts, 2, &length, LIMIT_MS) == M3_OK && length == 48, "parts");
    must(m3_receive_long_T(M3_ANY, &m, room, ROOM, &length, LIMIT_MS) == M3_OK, "from any");
    limit_memory(0);
    must(m3_receive_long_T(2, &m, room, 5000, &length, LIMIT_MS) == EMOLMSGSIZE, "a cut");
    must(length == 100000 && room[4999] == 'b' && room[5000] == 0, "the front");
    must(strstr(m3_last_reason(), "100000") && strstr(m3_last_reason(), "5000"), "the numbers");

    /* Fresh pages: the library remembers a page that it has written. */
    room = map(ROOM);
    must(mprotect(room + 4096, 4096, PROT_NONE) == 0, "a bad page");
    must(m3_receive_long_T(2, &m, room, ROOM, &length, LIMIT_MS) == M3_OK, "before the page");
    must(length == 100, "its length");
    must(m3_receive_long_T(2, &m, room, ROOM, &length, LIMIT_MS) == EMOLADDRNOTAVAIL, "the page");

    must(m3_receive_long_T(2, &m, room, ROOM, &length, LIMIT_MS) == M3_OK && length == 7, "a call");
    must(m3_reply_long(2, &m, "abc", 3) == M3_OK, "the reply");
    must(waitpid(child, &status, 0) == child && status == 0, "the client's end");
    must(mnx_vm_end(VM) == M3_OK, "the end");
    puts("1 passed, 0 failed");
    return 0;
}
