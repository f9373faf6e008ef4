/*
 * A pipeline of three processes works on an image in place. The image is a block: it goes from
 * stage to stage without a copy. The stages are children of this program.
 *
 *     cc -o pipeline pipeline.c $(pkg-config --cflags --libs m3ipc) && ./pipeline [MEGABYTES]
 *
 * Two numbers show that nothing is copied: the bytes that the library has copied for each stage,
 * and the private memory of each stage, which would hold a copy.
 */
#include <m3ipc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define STAGES 3
#define LEAD 4

static int check(int result, const char *what)
{
    if (result < 0) {
        fprintf(stderr, "%s: %s\n", what, m3_strerror(result));
        exit(1);
    }
    return result;
}

/* The private memory of this process in KB, as the kernel counts it. */
static long private_kb(void)
{
    char line[128];
    long kb = -1;
    FILE *status = fopen("/proc/self/status", "r");

    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "RssAnon: %ld", &kb) == 1)
            break;
    if (status)
        fclose(status);
    return kb;
}

/* Adds 1 to every pixel in place, and sends the image on. */
static int stage(int vmid, int slot)
{
    message m;
    void *block;
    size_t bytes, at;

    check(mnx_bind(vmid, slot), "bind");
    check(mnx_receive(ANY, &m), "receive");
    check(m3_block_take(&block, &bytes), "take");
    for (at = 0; at < bytes; at++)
        ((unsigned char *)block)[at]++;
    m.m2_l1 += m3_copied_total();
    if (private_kb() > m.m2_l2)
        m.m2_l2 = private_kb();
    check(m3_send_block(slot == STAGES ? LEAD : slot + 1, &m, block), "send_block");
    return 0;
}

int main(int argc, char **argv)
{
    size_t megabytes = argc > 1 ? strtoul(argv[1], NULL, 10) : 256;
    size_t image_bytes = megabytes << 20, bytes, at;
    VM_usr_t vm;
    message m;
    void *image, *back;
    int slot, area, status, vmid = 7, wrong = 0, failed = 0;

    int code = mnx_drvs_init(LOCALNODE, NULL);
    if (code != EMOLDRVSBUSY) check(code, "drvs_init");
    memset(&vm, 0, sizeof vm);
    vm.vm_vmid = vmid;
    vm.vm_life = M3_VM_WITH_CREATOR; /* a kill of this process ends the VM and its stages */
    strcpy(vm.vm_name, "c-pipeline");
    check(m3_vm_open_or_create(&vm), "vm_open_or_create");
    for (slot = 1; slot <= STAGES; slot++)
        if (fork() == 0)
            _exit(stage(vmid, slot));
    check(mnx_bind(vmid, LEAD), "bind");
    for (slot = 1; slot <= STAGES; slot++)
        check(mnx_wait4bindep(slot), "wait4bindep");

    area = check(m3_area_create(image_bytes + (1 << 20), ANY, 0), "area_create");
    check(m3_block_alloc(area, image_bytes, M3_BLOCK_LONG, &image), "block_alloc");
    for (at = 0; at < image_bytes; at++)
        ((unsigned char *)image)[at] = (unsigned char)at;
    memset(&m, 0, sizeof m);
    check(m3_send_block(1, &m, image), "send_block");
    check(mnx_receive(STAGES, &m), "receive");
    check(m3_block_take(&back, &bytes), "take");
    for (at = 0; at < bytes; at++)
        wrong += ((unsigned char *)back)[at] != (unsigned char)(at + STAGES);
    printf("%zu MB through %d processes, at the same address: %s, wrong bytes: %d\n",
           bytes >> 20, STAGES, back == image ? "yes" : "no", wrong);
    printf("bytes copied: %ld; private memory of a stage: at most %ld KB\n",
           m.m2_l1 + m3_copied_total(), m.m2_l2);
    check(m3_block_free(back), "block_free");
    while (wait(&status) > 0)
        failed |= status;
    check(mnx_unbind(vmid, LEAD), "unbind");
    check(mnx_vm_end(vmid), "vm_end");
    check(mnx_drvs_end(), "drvs_end");
    return failed || wrong || back != image || m.m2_l1 || m3_copied_total() > 0;
}
