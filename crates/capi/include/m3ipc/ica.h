/*
 * The inter-core communication area of AnT (ICA): its six calls, over the areas of
 * m3ipc. What is created by one process lies at the same address in all of its VM;
 * it is handed over with m3_send_block of m3ipc.h, and not copied.
 *
 * The caller is bound. What createica and getmem give comes from an area of the
 * caller's, of at most 1 GiB, which every member of the VM may attach; from the
 * front what lives shortly, from the back what lives long.
 */
#ifndef M3IPC_ICA_H
#define M3IPC_ICA_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ICA_SHORT 0 /* flag: soon given back */
#define ICA_LONG  1 /* flag: kept */
#define ICA_READ  1 /* prot */
#define ICA_WRITE 2 /* prot */

/* size bytes of the ICA, and their end. NULL, or a code, where it cannot be. */
void *createica(size_t size, int flag);
int deleteica(void *vaddr);

/*
 * Attaches the area that vaddr lies in, of the caller's own VM; blocks that come with a
 * message attach it by themselves. Returns 0, EMOLADDRNOTAVAIL (no area there),
 * EMOLBADVMID, EMOLINVAL (prot), EMOLPERM (only its owner writes), EMOLPRIVILEGES.
 */
int attachica(int vmid, void *vaddr, int prot);
int detachica(int vmid, void *vaddr);

/* The same memory by the names of AnT's memory management; op is 0. */
void *getmem(int op, size_t size, int flag);
int freemem(void *raddr);

#ifdef __cplusplus
}
#endif
#endif
