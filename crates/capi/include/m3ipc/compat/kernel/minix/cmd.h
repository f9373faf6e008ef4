/* For programs of MOL-IPC. */
#ifndef M3IPC_COMPAT_KERNEL_MINIX_CMD_H
#define M3IPC_COMPAT_KERNEL_MINIX_CMD_H

#include "../../minix/cmd.h"

#endif /* M3IPC_COMPAT_KERNEL_MINIX_CMD_H */
