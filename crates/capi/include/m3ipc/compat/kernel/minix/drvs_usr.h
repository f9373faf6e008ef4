/* For programs of MOL-IPC. */
#ifndef M3IPC_COMPAT_KERNEL_MINIX_DRVS_USR_H
#define M3IPC_COMPAT_KERNEL_MINIX_DRVS_USR_H

#include "../../minix/drvs_usr.h"

#endif /* M3IPC_COMPAT_KERNEL_MINIX_DRVS_USR_H */
