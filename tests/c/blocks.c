/*
 * Sends blocks of an area through a com-socket between two processes: same address, no copy.
 */
#include <errno.h>
#include <fcntl.h>
#include <m3ipc.h>
#include <m3ipc/sock.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES (1 << 20)

static void must(int good, const char *what)
{
    if (!good) {
        printf("%s (errno %d)\n", what, errno);
        exit(1);
    }
}

/* Adds 1 to each byte of each received block and sends the block back, until the end. */
static int child(int vmid, struct in_addr there, int port)
{
    struct sockaddr_in name = { .sin_family = AF_INET, .sin_addr = there };
    name.sin_port = htons((unsigned short)port);
    void *block;
    long count;
    must(mnx_bind(vmid, 2) >= 0, "the child binds");
    int fd = m3_socket(AF_INET, SOCK_STREAM, 0);
    must(m3_connect(fd, (struct sockaddr *)&name, sizeof name) == 0, "the child connects");
    while ((count = m3_stream_receive_block(fd, &block)) > 0) {
        for (long at = 0; at < count; at++)
            ((unsigned char *)block)[at]++;
        must(m3_stream_send_block(fd, block) == 0, "the child sends back");
        char go;
        must(m3_recv(fd, &go, 1, MSG_WAITALL) == 1, "the child waits until its block is received");
    }
    must(count == 0, "the child sees the end");
    return 0;
}

struct receiving { int fd; void *block; long count; };

static void *receives(void *of)
{
    struct receiving *it = of;
    it->count = m3_stream_receive_block(it->fd, &it->block);
    return NULL;
}

/* While a thread waits for a block, others use the endpoint, and send on the stream. */
static void *beside_a_wait(int fd, int area, void *block)
{
    struct receiving one = { .fd = fd };
    pthread_t thread;
    void *small;
    must(pthread_create(&thread, NULL, receives, &one) == 0, "a thread");
    poll(NULL, 0, 100);
    for (int at = 0; at < 100; at++) {
        must(m3_block_alloc(area, 100, 0, &small) >= 0, "a block beside a wait");
        must(m3_block_free(small) >= 0, "the end of that block");
    }
    must(m3_stream_send_block(fd, block) == 0, "sends beside a wait");
    pthread_join(thread, NULL);
    must(one.count == BYTES && one.block == block, "the thread receives");
    must(m3_send(fd, "g", 1, 0) == 1, "tells the child again");
    return one.block;
}

int main(void)
{
    VM_usr_t vm;
    struct sockaddr_in name = { .sin_family = AF_INET };
    socklen_t length = sizeof name;
    int vmid = 9, status, area;
    void *block, *back;

    int code = mnx_drvs_init(LOCALNODE, NULL);
    must(code >= 0 || code == EMOLDRVSBUSY, "a node");
    memset(&vm, 0, sizeof vm);
    vm.vm_vmid = vmid;
    strcpy(vm.vm_name, "c-blocks");
    must(mnx_vm_init(&vm) >= 0, "a VM");
    must(mnx_bind(vmid, 1) >= 0, "the parent binds");
    int listener = m3_socket(AF_INET, SOCK_STREAM, 0);
    must(m3_bind(listener, (struct sockaddr *)&name, sizeof name) == 0, "a port");
    must(m3_listen(listener, 1) == 0, "listens");
    must(m3_getsockname(listener, (struct sockaddr *)&name, &length) == 0, "a name");

    pid_t other = fork();
    if (other == 0)
        _exit(child(vmid, name.sin_addr, ntohs(name.sin_port)));
    int fd = m3_accept(listener, NULL, NULL);
    must(fd >= 0, "accepts");
    area = m3_area_create(8 * BYTES, ANY, 0);
    must(area >= 0, "an area");
    must(m3_block_alloc(area, BYTES, M3_BLOCK_LONG, &block) >= 0, "a block");
    for (int at = 0; at < BYTES; at++)
        ((unsigned char *)block)[at] = (unsigned char)at;
    void *first = block;
    for (int turn = 1; turn <= 20; turn++) {
        must(m3_stream_send_block(fd, block) == 0, "sends");
        must(m3_stream_send_block(fd, block) < 0 && errno == EFAULT,
             "the sender no longer owns a sent block");
        must(m3_stream_receive_block(fd, &back) == BYTES, "receives");
        must(back == first, "at the same address");
        for (int at = 0; at < BYTES; at++)
            must(((unsigned char *)back)[at] == (unsigned char)(at + turn), "the bytes are right");
        must(m3_send(fd, "g", 1, 0) == 1, "tells the child");
        block = back;
    }
    block = beside_a_wait(fd, area, block);
    must(m3_copied_total() == 0, "nothing was copied");
    must(m3_stream_send_block(listener, block) < 0 && errno == ENOTCONN,
         "a listener has no stream");
    must(m3_stream_receive_block(-1, &back) < 0 && errno == EBADF, "a number that is no socket");
    must(m3_stream_receive_block(fd, (void **)8) < 0 && errno == EFAULT, "a bad address");
    must(m3_fcntl(fd, F_SETFL, O_NONBLOCK) == 0, "O_NONBLOCK is set");
    must(m3_stream_send_block(fd, block) < 0 && errno == EINVAL, "a non-blocking stream");
    must(m3_block_free(block) >= 0, "the caller still owns a block that was not sent");
    m3_close(fd);
    must(waitpid(other, &status, 0) == other && status == 0, "the child ends well");
    must(mnx_unbind(vmid, 1) >= 0 && mnx_vm_end(vmid) >= 0 && mnx_drvs_end() >= 0,
         "unbind, vm_end, drvs_end");
    puts("20 blocks of 1 MB there and back, nothing copied");
    return 0;
}
