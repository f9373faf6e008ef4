/* For programs of MOL-IPC. */
#ifndef M3IPC_COMPAT_KERNEL_MINIX_VM_USR_H
#define M3IPC_COMPAT_KERNEL_MINIX_VM_USR_H

#include "../../minix/vm_usr.h"

#endif /* M3IPC_COMPAT_KERNEL_MINIX_VM_USR_H */
