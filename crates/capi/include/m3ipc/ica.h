/*
 * The inter-core communication area (ICA) of the AnT operating system: its six calls, over the
 * areas of m3ipc.
 *
 * The caller is bound. All that one process creates lies in one area of at most 1 GiB, which every
 * member of the VM may attach, at the same address everywhere. m3_send_block of m3ipc.h hands a
 * block over without a copy. The names are those of AnT and have no prefix.
 *
 * Codes of every function: EMOLDRVSINIT (the node is not initialised), EMOLNOTBIND (the caller is
 * not bound), EMOLNOTREADY (another thread is inside a call on this endpoint). The calls may block
 * until the daemon answers.
 */
#ifndef M3IPC_ICA_H
#define M3IPC_ICA_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ICA_SHORT 0 /* flag: short-lived, from the front of the area */
#define ICA_LONG  1 /* flag: long-lived, from the back of the area */
#define ICA_READ  1 /* prot: the caller reads */
#define ICA_WRITE 2 /* prot: the caller writes */

/*
 * Allocates memory of the ICA.
 *
 *   size  number of bytes
 *   flag  ICA_SHORT or ICA_LONG
 *
 * Returns the address, or NULL if the flag is unknown, the area is full or the caller is not bound.
 */
void *createica(size_t size, int flag);

/*
 * Frees memory of createica, or a block that came with a message.
 *
 *   vaddr  address of the block
 *
 * Returns 0, or EMOLADDRNOTAVAIL if the caller has no block at this address.
 */
int deleteica(void *vaddr);

/*
 * Attaches the whole area in which an address lies. A block that comes with a message attaches its
 * area by itself.
 *
 *   vmid   number of the caller's VM
 *   vaddr  address in the area
 *   prot   ICA_READ, ICA_WRITE or both; with ICA_READ alone the memory is mapped read-only
 *
 * An area that is attached already stays as it is. An error attaches nothing.
 *
 * Returns 0, or:
 *   EMOLADDRNOTAVAIL  no area lies at this address
 *   EMOLBADVMID       vmid is not the caller's VM
 *   EMOLINVAL         prot is 0 or has an unknown bit
 *   EMOLPERM          only the owner writes in the area, or it is attached to read alone
 *   EMOLPRIVILEGES    the caller is not in the audience of the area
 */
int attachica(int vmid, void *vaddr, int prot);

/*
 * Leaves the area in which an address lies, and frees the caller's blocks in it.
 *
 *   vmid   number of the caller's VM
 *   vaddr  address in the area
 *
 * Returns 0, or:
 *   EMOLADDRNOTAVAIL  no area lies at this address
 *   EMOLBADVMID       vmid is not the caller's VM
 *   EMOLNONODE        the caller has not attached the area
 */
int detachica(int vmid, void *vaddr);

/*
 * Allocates memory of the ICA, as createica.
 *
 *   op    0
 *   size  number of bytes
 *   flag  ICA_SHORT or ICA_LONG
 *
 * Returns the address, or NULL.
 */
void *getmem(int op, size_t size, int flag);

/*
 * Frees memory of getmem, as deleteica.
 *
 *   raddr  address of the block
 *
 * Returns 0, or EMOLADDRNOTAVAIL if the caller has no block at this address.
 */
int freemem(void *raddr);

#ifdef __cplusplus
}
#endif

#endif /* M3IPC_ICA_H */
